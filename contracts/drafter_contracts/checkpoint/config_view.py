"""A drafter's config.json with every producer's nesting: where a value is, and whether it is of the right kind."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where producers put what others put at the top, in order of precedence: speculators nest the drafter's
#: transformer, multi-modal targets their text model, DeepSpec's training configs everything.
_NESTS = ("transformer_layer_config", "text_config", "model")


def as_number(value: object) -> float | None:
    """A value of a config as a number; None for anything else, and for integers that no float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


class ConfigView:
    """Typed look-ups in a config. null counts as absent, as the exporters' templates mean it.

    Attributes:
        config: config.json, as read.
        problems: One line for each value that was looked up and is of the wrong kind.
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        self.config = config
        self.problems: list[str] = []

    def find(self, *keys: str) -> tuple[object, str]:
        """The first of the dotted keys that is there and not null: its value and the key; (None, "") otherwise.

        Each key is tried at the top and then inside each nest before the next key is.
        """
        for key in keys:
            for place in (key, *(f"{nest}.{key}" for nest in _NESTS)):
                value = dotted(self.config, place)
                if value is not None:
                    return value, place
        return None, ""

    def integer(self, *keys: str) -> int | None:
        """The first of the keys as an integer of 0 or more, or None."""
        value, place = self.find(*keys)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self._wrong(place, "an integer", value)
        return None

    def number(self, *keys: str) -> float | None:
        """The first of the keys as a number, or None."""
        value, place = self.find(*keys)
        number = as_number(value)
        if number is not None:
            return number
        self._wrong(place, "a number", value)
        return None

    def flag(self, *keys: str) -> bool | None:
        """The first of the keys as true or false, or None."""
        value, place = self.find(*keys)
        if isinstance(value, bool):
            return value
        self._wrong(place, "true or false", value)
        return None

    def text(self, *keys: str) -> str:
        """The first of the keys as text, or ""."""
        value, place = self.find(*keys)
        if isinstance(value, str):
            return value
        self._wrong(place, "text", value)
        return ""

    def mapping(self, *keys: str) -> dict[str, object] | None:
        """The first of the keys as an object, or None."""
        value, place = self.find(*keys)
        if isinstance(value, dict):
            return value
        self._wrong(place, "an object", value)
        return None

    def texts(self, *keys: str) -> tuple[str, ...]:
        """The first of the keys as a list of texts, or empty."""
        value, place = self.find(*keys)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._wrong(place, "a list of texts", value)
        return ()

    def has(self, *keys: str) -> bool:
        """Whether one of the keys is there and not null."""
        return bool(self.find(*keys)[1])

    def _wrong(self, place: str, kind: str, value: object) -> None:
        """Note a value of the wrong kind; an absent one is none."""
        line = f"config.json {place} is not {kind}: {shown(value)}"
        if place and line not in self.problems:
            self.problems.append(line)


def dotted(config: object, key: str) -> object:
    """Value at a dotted key of nested objects; None where any part is missing. A key that holds dots itself wins."""
    if not isinstance(config, dict):
        return None
    if key in config:
        return config[key]
    value: object = config
    for part in key.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def layer_ids(value: object) -> tuple[int, ...] | None:
    """A list of integers as a tuple, or None if it is anything else (also if it is empty)."""
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return None
    return tuple(value)


def shown(value: object) -> str:
    """A value of a config, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
