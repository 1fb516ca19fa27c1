"""Running a registry."""
