"""`drafters`: the command."""

from __future__ import annotations


def entry() -> None:
    """Console-script entry point."""
