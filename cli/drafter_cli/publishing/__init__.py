"""From a drafter's directory to a version of a registry."""
