"""From what the probes saw to the parts of a vLLM profile.

A part counts as fitted only if its interpreter (`engines.vllm.reading`) gives, for every config of the probe's battery,
what the release's own code gave; otherwise it is opaque, with the first config that differs.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.scan.fit import place
from drafter_contracts.engines.vllm.profile import OPAQUE, Conversion, Copied, DraftClass, Runner, Step, Switch
from drafter_contracts.engines.vllm.reading import PART, Unreadable, read_ids, taps_of, translated, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Width of the drafter that the probe builds.
_HIDDEN = {"hidden_size": 64}


class RunnerCase(msgspec.Struct):
    """A config of the battery, and what the runner handed on: ids, null for the default, or an error."""

    config: dict[str, object]
    ids: list[int] | dict[str, str] | None


class RunnerSeen(msgspec.Struct):
    """What the probe says of one runner."""

    unclear: str = ""
    steps: list[Step] = []
    battery: list[RunnerCase] = []
    source: dict[str, str | int] = {}


def runner(seen: RunnerSeen) -> Runner:
    """How a runner reads the ids."""
    if seen.unclear:
        return Runner(status=OPAQUE, reason=seen.unclear)
    made = Runner(tuple(seen.steps), place(seen.source))
    for case in seen.battery:
        ids, _ = read_ids(made, case.config)
        if (None if ids is None else list(ids)) != case.ids:
            reason = f"for config {case.config} the release gives {case.ids}, the fit {ids}"
            return msgspec.structs.replace(made, status=OPAQUE, reason=reason)
    return made


class SwitchSeen(msgspec.Struct):
    """Keys of a switch, and what counts without; null where that cannot be told."""

    keys: list[str]
    default: bool | None


class Columns(msgspec.Struct):
    """A config, and how many columns `fc` got."""

    config: dict[str, object]
    columns: int | None


class ClassSeen(msgspec.Struct):
    """What the probe says of one drafter class."""

    unclear: str = ""
    columns: int = 0
    hidden: int = 0
    widths: list[str] = []
    taps: list[str] = []
    switches: dict[str, SwitchSeen] = {}
    battery: list[Columns] = []
    source: dict[str, str | int] = {}


def drafter(seen: ClassSeen) -> DraftClass:
    """What a class builds."""
    if seen.unclear or not seen.columns:
        reason = seen.unclear or "it is not looked at: it takes no hidden states of several layers"
        return DraftClass(status=OPAQUE, reason=reason)
    switches = {
        name: Switch(tuple(one.keys), one.default) for name, one in seen.switches.items() if one.default is not None
    }
    made = DraftClass(place(seen.source), taps=tuple(seen.taps), width=tuple(seen.widths), switches=switches)
    unclear = [name for name, one in seen.switches.items() if one.default is None]
    if unclear:
        reason = f"what counts without {', '.join(unclear)} cannot be told"
        return msgspec.structs.replace(made, status=OPAQUE, reason=reason)
    for case in seen.battery:
        config = {"num_hidden_layers": 1, **_HIDDEN, **case.config}
        taps, width = taps_of(made, config)[0], width_of(made, config)[0]
        if taps is None or width is None or taps * width != case.columns:
            reason = f"for config {case.config} fc has {case.columns} columns, by the fit {taps} times {width}"
            return msgspec.structs.replace(made, status=OPAQUE, reason=reason)
    return made


class EntrySeen(msgspec.Struct):
    """Where an entry of a translated config comes from."""

    constant: bool
    default: object = msgspec.UNSET
    key: str = ""
    add: int = 0
    negated: bool = False


class Translated(msgspec.Struct):
    """A config, and what the release makes of it, or the exception that it raises."""

    config: dict[str, object]
    made: dict[str, object] | None = None
    error: str = ""


class ConversionSeen(msgspec.Struct):
    """What the probe says of one type of speculators config."""

    unclear: str = ""
    needed: list[str] = []
    entries: dict[str, EntrySeen] = {}
    architectures: dict[str, str] = {}
    method: str = ""
    parallel: bool = False
    battery: list[Translated] = []
    source: dict[str, str | int] = {}


#: Entries of a translated config that the launch, not the drafter, brings.
_LAUNCH = ("method", "num_speculative_tokens", "target_model")


def conversion(seen: ConversionSeen) -> Conversion:
    """How one type is translated."""
    if seen.unclear:
        return Conversion(status=OPAQUE, reason=seen.unclear)
    entries = {path: _entry(one, required=one.key in seen.needed) for path, one in seen.entries.items()}
    made = Conversion(
        seen.method, seen.parallel, tuple(seen.needed), seen.architectures, entries, place(seen.source)
    )  # fmt: skip
    for case in seen.battery:
        expected = None if case.made is None else {k: v for k, v in case.made.items() if k not in _LAUNCH}
        got = _attempt(made, case.config)
        if got != expected:
            reason = f"for config {case.config} the release makes {expected or case.error}, the fit {got}"
            return msgspec.structs.replace(made, status=OPAQUE, reason=reason)
    return made


def _entry(seen: EntrySeen, *, required: bool) -> Copied:
    fallback = "" if required or seen.default is msgspec.UNSET else msgspec.json.encode(seen.default).decode()
    return Copied(seen.key, fallback, seen.add, seen.negated)


def _attempt(made: Conversion, config: Mapping[str, object]) -> dict[str, object] | None:
    try:
        return translated(made, {PART: {}, **config})
    except Unreadable:
        return None


__all__ = ["ClassSeen", "ConversionSeen", "RunnerSeen", "conversion", "drafter", "runner"]
