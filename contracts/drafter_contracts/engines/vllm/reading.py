"""The interpreter of a vLLM profile: what a release makes of a drafter's config. Pure: data in, data out."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.capture import find
from drafter_contracts.engines.vllm.profile import OPAQUE, Conversion, DraftClass, Runner, Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Key by which a release recognises the speculators format, the key of its type, and that of the decoder's part.
SPECULATORS, TYPE, PART = "speculators_config", "speculators_model_type", "transformer_layer_config"


class Unreadable(Exception):  # noqa: N818 - what is caught where a release's answer is not known
    """What a release makes of this config is not known; the text says why."""


def read_ids(runner: Runner, config: Mapping[str, object]) -> tuple[tuple[int, ...] | None, str]:
    """Ids that a runner hands to the target's setter, and the key they come from; None for the target's default.

    Args:
        runner: How it reads them.
        config: The drafter's config as the runner sees it.

    Raises:
        Unreadable: The runner was not understood, or something other than a list of whole numbers stands at a key.
    """
    if runner.status == OPAQUE:
        raise Unreadable(runner.reason)
    for step in runner.steps:
        value = find(config, step.key)[1]
        if value:
            if not isinstance(value, (list, tuple)) or not all(type(i) is int for i in value):
                raise Unreadable(f"{step.key} is no list of layers: {str(value)[:80]}")
            add = step.adds.get(str(config.get("model_type")), step.add)
            return tuple(i + add for i in value), step.key
        parent = find(config, step.key.rpartition(".")[0])[1] if step.decides else None
        if isinstance(parent, dict) and parent:
            return None, ""
    return None, ""


def switched(switch: Switch | None, config: Mapping[str, object]) -> bool | None:
    """Whether a class's switch is on under a config; None for a class that has no such switch."""
    if switch is None:
        return None
    for key in switch.keys:
        present, value = find(config, key)
        if present:
            return bool(value)
    return switch.default


def taps_of(known: DraftClass, config: Mapping[str, object]) -> tuple[int | None, str]:
    """How many states a class's `fc` takes under a config, and the word of the profile that says so."""
    for word in known.taps:
        if word.isdigit():
            return int(word), word
        value = find(config, word.removeprefix("len(").removesuffix(")"))[1]
        if word.startswith("len("):
            if isinstance(value, (list, tuple)) and value:
                return len(value), word
        elif value is not None:
            return (value if type(value) is int else None), word
    return None, ""


def width_of(known: DraftClass, config: Mapping[str, object]) -> tuple[int | None, str]:
    """How wide one of these states is under a config, and the key that says so."""
    for key in known.width:
        value = find(config, key)[1]
        if value is not None:
            return (value if type(value) is int else None), key
    return None, ""


def translated(conversion: Conversion, config: Mapping[str, object]) -> dict[str, object]:
    """What a release makes of a config in the speculators format.

    Raises:
        Unreadable: The translation was not understood, or it raises.
    """
    if conversion.status == OPAQUE:
        raise Unreadable(conversion.reason)
    missing = [key for key in conversion.requires if key not in config]
    if missing:
        raise Unreadable(f"the config lacks {', '.join(missing)}, without which the release raises KeyError")
    part = config.get(PART)
    made: dict[str, object] = dict(part) if isinstance(part, dict) else {}
    kind = str(made.get("model_type", ""))
    architecture = conversion.architectures.get(kind, conversion.architectures.get("*", ""))
    if not architecture:
        raise Unreadable(f"the release has no drafter class for {PART}.model_type {kind or '(none)'}")
    made["architectures"] = [architecture]
    for path, entry in conversion.entries.items():
        value = config.get(entry.key) if entry.key else None
        if entry.key in config and (value is not None or entry.default == "null"):
            if entry.add and isinstance(value, list):
                value = [i + entry.add for i in value]
            _set(made, path, not value if entry.negated else value)
        elif entry.default and (entry.key not in config or not entry.key):
            _set(made, path, msgspec.json.decode(entry.default))
    return made


def _set(config: dict[str, object], dotted: str, value: object) -> None:
    *parents, last = dotted.split(".")
    holder = config
    for parent in parents:
        inner = holder.get(parent)
        fresh: dict[str, object] = dict(inner) if isinstance(inner, dict) else {}
        holder[parent] = fresh
        holder = fresh
    holder[last] = value
