"""Profiles of engine releases."""
