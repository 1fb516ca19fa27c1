"""What is stored: looking, comparing, moving aliases, pulling."""
