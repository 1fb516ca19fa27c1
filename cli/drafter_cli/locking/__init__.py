"""Lock files: written from a resolved launch, and held against a later start."""
