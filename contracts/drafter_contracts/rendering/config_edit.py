"""A config.json being changed: every change with its reason, and none that changes nothing."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.capture import find
from drafter_contracts.solve import with_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Changes a config once more.
    Change = tuple[str, object, bool]


class ConfigEdit:
    """A config and what was changed in it.

    Args:
        config: The config to begin with; it is never changed itself.

    Attributes:
        config: The config as it is now.
        changes: One sentence each: "KEY is set to VALUE: reason".
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        self.config = dict(config)
        self.changes: list[str] = []
        self._done: list[Change] = []

    def put(self, dotted: str, value: object, reason: str) -> None:
        """Set a dotted key, unless it is so."""
        present, now = find(self.config, dotted)
        if present and now == value and type(now) is type(value):
            return
        self.config = with_value(self.config, dotted, value)
        shown = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
        self.changes.append(f"{dotted} is set to {shown}: {reason}")
        self._done.append((dotted, value, True))

    def drop(self, dotted: str, reason: str) -> None:
        """Leave a dotted key out, if it is there."""
        before, self.config = self.config, without(self.config, dotted)
        if self.config != before:
            self.changes.append(f"{dotted} is left out: {reason}")
            self._done.append((dotted, None, False))

    def repeated_on(self, config: Mapping[str, object]) -> dict[str, object]:
        """Another config with the same keys set and left out."""
        result = dict(config)
        for dotted, value, sets in self._done:
            result = with_value(result, dotted, value) if sets else without(result, dotted)
        return result


def without(config: dict[str, object], dotted: str) -> dict[str, object]:
    """A config without one dotted key; nested mappings on the way are copied."""
    first, _, rest = dotted.partition(".")
    if first not in config:
        return config
    child = config[first]
    if rest:
        return {**config, first: without(child, rest)} if isinstance(child, dict) else config
    return {key: value for key, value in config.items() if key != first}
