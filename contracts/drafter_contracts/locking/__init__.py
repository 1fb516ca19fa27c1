"""Lock files: one resolved launch, written down, so that a later start can be held against it. Pure."""
