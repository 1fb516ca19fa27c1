"""All commands as data: shell completion and the reference page."""
