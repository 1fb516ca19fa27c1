"""Readings to what is sent to a registry: one observation per hour, which can be merged in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from drafter_contracts.acceptance.blocks import counting, mean_length, told_steps
from drafter_contracts.acceptance.records import Conditions, Observation, Reading
from drafter_contracts.errors import InternalError

#: What two observations must have in common to be merged: hour, instance, conditions.
Key = tuple[str, str, Conditions]
_HOUR = 3600


def aggregate(
    readings: Iterable[Reading], conditions: Conditions, instance: str, *, seen_at: float | None = None
) -> tuple[Observation, ...]:
    """One observation per hour (UTC), ascending.

    Args:
        readings: In any order. Those of nothing verified (no steps, a length of 0) do not count.
        conditions: Under which they were had. Where these change, aggregate what was before by itself.
        instance: What the operator calls this engine.
        seen_at: Unix seconds, for readings whose source says no time; without it they are left out.
    """
    groups: dict[tuple[int, bool], list[Reading]] = {}
    for reading in counting(readings):
        time = seen_at if reading.time is None else reading.time
        if time is not None:
            groups.setdefault((int(time // _HOUR), reading.verify_steps is None), []).append(reading)
    hours: dict[int, Observation] = {}
    for (hour, _), group in sorted(groups.items(), key=lambda item: item[0]):
        observation = _observation(hour, group, conditions, instance)
        hours[hour] = merge(hours[hour], observation) if hour in hours else observation
    return tuple(hours.values())


def _observation(hour: int, readings: Sequence[Reading], conditions: Conditions, instance: str) -> Observation:
    lengths = [max(reading.length, 1.0) for reading in readings]
    lowest, highest = min(lengths), max(lengths)
    return Observation(
        hour=datetime.fromtimestamp(hour * _HOUR, UTC).strftime("%Y-%m-%dT%H:00:00Z"),
        instance=instance,
        conditions=conditions,
        readings=len(readings),
        verify_steps=told_steps(readings),
        # A mean of floats may lie a last digit outside of what it is the mean of.
        length=min(max(mean_length(readings), lowest), highest),
        lowest=lowest,
        highest=highest,
        positions=_positions(
            [reading.positions for reading in readings],
            [float(reading.verify_steps or 1) for reading in readings],
        ),
    )


def key(observation: Observation) -> Key:
    """Observations of one key can be merged."""
    return observation.hour, observation.instance, observation.conditions


def merge(first: Observation, second: Observation) -> Observation:
    """Both in one: the same whichever is first, and however three of them are grouped (but for the last digits).

    Means by verify steps and means by readings have no common weight. So where some observations tell their steps, the
    mean (and the positions) are theirs alone; where none does, readings weigh. Readings, lowest and highest are of all.

    Raises:
        InternalError: They have not the same key.
    """
    if key(first) != key(second):
        raise InternalError("observations of two kinds", expected=str(key(first)), actual=str(key(second)))
    both = (first, second)
    steps = [one.verify_steps for one in both if one.verify_steps is not None]
    deciding = [one for one in both if one.verify_steps] or list(both)
    weights = [float(one.verify_steps or one.readings) for one in deciding]
    lowest, highest = min(first.lowest, second.lowest), max(first.highest, second.highest)
    mean = sum(w * one.length for w, one in zip(weights, deciding, strict=True)) / sum(weights)
    return Observation(
        hour=first.hour,
        instance=first.instance,
        conditions=first.conditions,
        readings=first.readings + second.readings,
        verify_steps=sum(steps) if steps else None,
        length=min(max(mean, lowest), highest),
        lowest=lowest,
        highest=highest,
        positions=_positions([one.positions for one in deciding], weights),
    )


def _positions(parts: Sequence[tuple[float, ...]], weights: Sequence[float]) -> tuple[float, ...]:
    """Weighted means; none where one part tells none, or another number of them."""
    if len({len(part) for part in parts}) != 1:
        return ()
    columns = zip(*parts, strict=True)
    total = sum(weights)
    means = [sum(w * share for w, share in zip(weights, column, strict=True)) / total for column in columns]
    return tuple(min(max(mean, 0.0), 1.0) for mean in means)
