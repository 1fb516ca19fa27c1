"""The order of engine releases."""

from __future__ import annotations


def version_key(release: str) -> tuple[tuple[int, ...], int, int, str]:
    """Order of releases: numbers, then release candidates before and post-releases after the plain one."""
    plain, _, post = release.partition(".post")
    plain, _, candidate = plain.partition("rc")
    numbers = tuple(int(part) if part.isdigit() else 0 for part in plain.split("."))
    before = int(candidate) - 1_000_000 if candidate.isdigit() else 0
    return numbers, before, int(post) if post.isdigit() else 0, release
