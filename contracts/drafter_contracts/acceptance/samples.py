"""Samples of an exposition, and what both engines' readers do with them."""

from __future__ import annotations

from collections.abc import Mapping

Labels = tuple[tuple[str, str], ...]
Samples = Mapping[str, Mapping[Labels, float]]


def without(labels: Labels, *names: str) -> Labels:
    """The labels but for some."""
    return tuple((name, value) for name, value in labels if name not in names)


def summed(series: Mapping[Labels, float], *names: str) -> dict[Labels, float]:
    """The series summed over some labels."""
    found: dict[Labels, float] = {}
    for labels, value in series.items():
        rest = without(labels, *names)
        found[rest] = found.get(rest, 0.0) + value
    return found


def since(before: Mapping[Labels, float], after: Mapping[Labels, float]) -> dict[Labels, float]:
    """How much each counter grew; one that was not there began at 0."""
    return {labels: value - before.get(labels, 0.0) for labels, value in after.items()}
