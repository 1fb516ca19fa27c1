"""Renders: a drafter's directory as one engine release must see it. Pure: what to change, not who writes it."""
