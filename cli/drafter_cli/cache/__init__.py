"""Pulled drafters on this machine."""
