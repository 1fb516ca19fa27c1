"""An observation as the columns of a row, and back; and what one must be to become a row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec

from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_registry import limits
from drafter_registry.errors import Fault
from drafter_registry.names import shown
from drafter_registry.service.canonical import canonical
from drafter_registry.service.context import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from sqlalchemy import Row

    from drafter_registry.service.context import Registry

_POSITIONS = tuple[float, ...]
_MOST_POSITIONS = 256


def columns(observation: Observation) -> dict[str, Any]:
    """The columns of `db.models.ObservationRow` that an observation decides; it must have no `faults`."""
    conditions = canonical(observation.conditions)
    silent = b"" if observation.verify_steps is not None else b" without steps"  # see `hours.key`
    return {
        "hour": hour_of(observation),
        "instance": observation.instance,
        "series": sha256(conditions + silent).hexdigest(),
        "conditions": conditions,
        "readings": observation.readings,
        "verify_steps": observation.verify_steps,
        "length": observation.length,
        "lowest": observation.lowest,
        "highest": observation.highest,
        "positions": msgspec.json.encode(observation.positions),
    }


def observation_of(row: Row[*tuple[Any, ...]]) -> Observation:
    """The observation of a row."""
    return Observation(
        hour=timestamp(row.hour),
        instance=row.instance,
        conditions=msgspec.json.decode(row.conditions, type=Conditions),
        readings=row.readings,
        verify_steps=row.verify_steps,
        length=row.length,
        lowest=row.lowest,
        highest=row.highest,
        positions=msgspec.json.decode(row.positions, type=_POSITIONS),
    )


def hour_of(observation: Observation) -> datetime:
    """Its hour.

    Raises:
        ValueError: The calendar has no such hour.
    """
    return datetime.fromisoformat(observation.hour).astimezone(UTC)


def oldest_hour(registry: Registry) -> datetime:
    """Hours that begin before this moment are no longer kept."""
    kept = timedelta(seconds=registry.settings.observation_retention_seconds)
    return registry.now() - kept - timedelta(hours=1)


def faults(registry: Registry, observations: Sequence[Observation]) -> tuple[Fault, ...]:
    """Everything for which these observations cannot be kept."""
    found: list[Fault] = []
    for i, observation in enumerate(observations):
        at = f"/observations/{i}"
        found += [*_of_hour(registry, observation, at), *_of_texts(observation, at), *_of_numbers(observation, at)]
    return tuple(found)


def _of_hour(registry: Registry, observation: Observation, at: str) -> Iterator[Fault]:
    pointer, said = f"{at}/hour", shown(observation.hour)
    try:
        hour = hour_of(observation)
    except ValueError:
        yield Fault(pointer, f"{said} is no hour", expected="2026-11-29T14:00:00Z", actual=said)
        return
    latest = registry.now() + timedelta(seconds=limits.clock_skew_seconds)
    if hour > latest:
        yield Fault(pointer, f"{said} has not begun", expected=f"at most {timestamp(latest)}", actual=said)
    elif hour < oldest_hour(registry):
        kept = f"observations are kept for {registry.settings.observation_retention_seconds} s"
        yield Fault(pointer, f"{said} is too old: {kept}", expected=timestamp(oldest_hour(registry)), actual=said)


def _of_texts(observation: Observation, at: str) -> Iterator[Fault]:
    texts = {"instance": observation.instance}
    for name, value in msgspec.to_builtins(observation.conditions).items():
        if isinstance(value, str):
            texts[f"conditions/{name}"] = value
    for name, text in texts.items():
        if len(text) > limits.condition_max_length or not text.isprintable():
            expected = f"at most {limits.condition_max_length} printable characters"
            yield Fault(f"{at}/{name}", f"{shown(text)} cannot be kept", expected=expected, actual=shown(text))


def _of_numbers(observation: Observation, at: str) -> Iterator[Fault]:
    if not observation.lowest <= observation.length <= observation.highest:
        actual = f"{observation.lowest:g}, {observation.length:g}, {observation.highest:g}"
        yield Fault(f"{at}/length", "the mean is not between lowest and highest", expected="between", actual=actual)
    counts = {"readings": observation.readings, "verify_steps": observation.verify_steps or 0}
    for name, count in counts.items():
        if count > limits.count_max:
            yield Fault(f"{at}/{name}", "too many", expected=f"at most {limits.count_max}", actual=str(count)[:80])
    if len(observation.positions) > _MOST_POSITIONS:
        actual = str(len(observation.positions))
        yield Fault(f"{at}/positions", "too many", expected=f"at most {_MOST_POSITIONS}", actual=actual)
