"""Drafters on the Hugging Face Hub."""
