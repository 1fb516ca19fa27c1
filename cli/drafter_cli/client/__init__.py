"""Talking to a registry: in this process or on a server, with the settings that say which."""
