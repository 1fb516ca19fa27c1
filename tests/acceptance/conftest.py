"""Engines that answer as the real ones did: payloads recorded from releases, served on the loopback interface."""
