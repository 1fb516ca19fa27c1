"""What an upgrade of the engine does to captures, readings, graphs, drafter classes and flags: two profiles, in words.

Pure. Where a change is the same for many target classes it is one sentence that lists them.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines import words
from drafter_contracts.engines.profile import FITTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from drafter_contracts.engines.launch_rules import Flag
    from drafter_contracts.engines.profile import Advisory, CaptureMethod, IdReading, Profile, ReadingShift

#: Kinds of change.
CAPTURE, READING, GRAPHS, BUFFERS, DRAFTER, FLAG, LAUNCH, ADVISORY = (
    "capture",
    "reading",
    "graphs",
    "buffers",
    "drafter",
    "flag",
    "launch",
    "advisory",
)
_MOST_NAMES = 12
#: Where things are, what was seen where nothing was fitted, and what the launch's own switches say better: no change
#: of behaviour.
_PLACES = frozenset({"source", "forward", "reason", "disabled_by"})
#: Fields of a reading or of graph replay that decide which layers a drafter is fed.
_DECIDING = frozenset(
    {"keys", "switch", "missing", "broken", "shifts", "null_stops", "coerces", "empty", "ids", "status"}
)


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change.

    Attributes:
        kind: One of the kinds above.
        text: One sentence, without the names.
        method: Method that it concerns, or "".
        names: What it happens to: target classes, drafter classes, options; empty for the release as a whole.
        moves: What decides the layers that a drafter is fed is another one from now on.
    """

    kind: str
    text: str
    method: str = ""
    names: tuple[str, ...] = ()
    moves: bool = False

    def sentence(self) -> str:
        """The change with the names of what it happens to, the first dozen of them."""
        more = len(self.names) - _MOST_NAMES
        shown = ", ".join(self.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        if self.kind == CAPTURE:
            return f"{self.method + ', ' if self.method else ''}{shown}: {self.text}"
        head = _HEADS.get(self.kind, "").format(self.method or shown)
        return f"{head}{': ' if self.text in _WHOLE else ', '}{self.text}" if head else self.text


_HEADS = {
    READING: "reading of {} ids",
    GRAPHS: "CUDA graphs of {}",
    BUFFERS: "buffers of {}",
    DRAFTER: "drafter class {}",
    FLAG: "option {}",
}
#: A record that comes or goes as a whole.
_NEW, _GONE = "new", "gone"
_WHOLE = (_NEW, _GONE)


def diff(before: Profile, after: Profile, architecture: str = "") -> list[Change]:
    """What changes from `before` to `after`; empty if nothing does that a profile records.

    Args:
        before: The release upgraded from.
        after: The release upgraded to.
        architecture: Only what concerns this target class, and how ids reach it; "" for everything.
    """
    captures = _captures(before, after, architecture)
    if not architecture:
        return [*captures, *_paths(before, after, None), *_rest(before, after)]
    methods = {*before.targets.get(architecture, {}), *after.targets.get(architecture, {})}
    return [*captures, *_paths(before, after, methods, architecture), *_chosen(before, after, architecture)]


def advisory_changes(before: Sequence[Advisory], after: Sequence[Advisory], architecture: str = "") -> list[Change]:
    """Advisories that begin or cease to hold.

    Args:
        before: Those that hold for the release upgraded from.
        after: Those that hold for the release upgraded to.
        architecture: Only those about this target class, or about all; "" for every one.
    """
    old, new = {one.id: one for one in before}, {one.id: one for one in after}
    changes = [(f"from now on{_where(one)}: {one.effect}", one) for key, one in new.items() if key not in old]
    changes += [(f"no longer{_where(one)}: {one.effect}", one) for key, one in old.items() if key not in new]
    return [
        Change(ADVISORY, f"{one.id}, {text} ({one.source})", names=one.architectures)
        for text, one in changes
        if not architecture or not one.architectures or architecture in one.architectures
    ]


def _where(advisory: Advisory) -> str:
    """When an advisory applies, as part of a sentence."""
    told = {
        "always": "",
        "tap:0": " where boundary 0 is captured",
        "tbo": " with two-batch overlap",
        "pp": " with pipeline parallelism",
        "lora": " with LoRA adapters",
    }
    return told.get(advisory.when, f" if {advisory.when}")


def _paths(before: Profile, after: Profile, methods: set[str] | None, architecture: str = "") -> list[Change]:
    """How ids reach a target class and states a drafter: of these methods, None for all."""
    parts: tuple[tuple[str, Mapping[str, msgspec.Struct], Mapping[str, msgspec.Struct], dict[str, str]], ...] = (
        (READING, _concerning(before, architecture), _concerning(after, architecture), words.READING_FIELDS),
        (GRAPHS, before.graphs, after.graphs, words.GRAPH_FIELDS),
        (BUFFERS, before.buffers, after.buffers, words.BUFFER_FIELDS),
    )
    return [
        Change(kind, text, name, moves=kind != BUFFERS and field in _DECIDING)
        for kind, old, new, fields in parts
        for name, field, text in _keyed(old, new, fields)
        if methods is None or name in methods
    ]


def concerns(shift: ReadingShift, architecture: str) -> bool:
    """Whether ids of a target class can be moved by a shift that names a model type.

    A profile does not pair model types with classes; the two are the same words but for case and underscores.
    """
    return architecture.lower().startswith(shift.target_model_type.replace("_", ""))


def _concerning(profile: Profile, architecture: str) -> dict[str, IdReading]:
    """The readings, without moves of ids for other models than this class's."""
    if not architecture:
        return profile.readings
    return {
        method: msgspec.structs.replace(
            reading, shifts=tuple(shift for shift in reading.shifts if concerns(shift, architecture))
        )
        for method, reading in profile.readings.items()
    }


def _rest(before: Profile, after: Profile) -> list[Change]:
    launch = (
        *_named("speculative arguments", before.launch.speculative, after.launch.speculative),
        *_named("--config", before.launch.config_file, after.launch.config_file),
        *_named("--json-model-override-args", before.launch.overrides, after.launch.overrides),
        *_launch(before, after),
    )
    return [
        *(
            Change(DRAFTER, text, names=(name,))
            for name, _, text in _keyed(before.drafters, after.drafters, words.DRAFTER_FIELDS)
        ),
        *_flags(before.launch.flags, after.launch.flags),
        *(Change(LAUNCH, text) for text in launch),
    ]


def _chosen(before: Profile, after: Profile, architecture: str) -> list[Change]:
    """What the launch command does for one target class by itself."""
    old, new = before.launch.speculative, after.launch.speculative
    changes = []
    was, becomes = (rules.auto.get(architecture, rules.auto.get("*")) for rules in (old, new))
    if was != becomes:
        what = "steps, topk and draft tokens chosen where none is given"
        changes.append(f"{what}: {_show(was)} -> {_show(becomes)}")
    if (architecture in old.bundled) != (architecture in new.bundled):
        does = "serves" if architecture in new.bundled else "no longer serves"
        changes.append(f"without a draft path, its own checkpoint {does} as the drafter")
    return [Change(LAUNCH, text, names=(architecture,)) for text in changes]


# captures -----------------------------------------------------------------------------------------------------------


def _captures(before: Profile, after: Profile, architecture: str) -> list[Change]:
    groups: dict[tuple[str, str, bool], list[str]] = {}
    names = [name for name in sorted({*before.targets, *after.targets}) if architecture in ("", name)]
    for name in names:
        if name not in before.targets or name not in after.targets:
            what = "registered as a target" if name in after.targets else "no longer registered as a target"
            groups.setdefault(("", what, False), []).append(name)
    for name in names:
        for method in sorted({*before.targets.get(name, {}), *after.targets.get(name, {})}):
            old, new = before.capture_method(name, method), after.capture_method(name, method)
            moves = old is not None and old.status == FITTED
            for sentence in capture_changes(old, new):
                groups.setdefault((method, sentence, moves), []).append(name)
    return [
        Change(CAPTURE, sentence, method, tuple(found), moves) for (method, sentence, moves), found in groups.items()
    ]


def capture_changes(before: CaptureMethod | None, after: CaptureMethod | None) -> list[str]:
    """What changes from one capture rule to another; None is a class without a hook."""
    old, new = words.status(before), words.status(after)
    if old != new:
        return [f"{words.status_words(before)} -> {words.status_words(after)}"]
    if before is None or after is None or old != FITTED:
        return []
    return words.changed_parts(words.rule_parts(before), words.rule_parts(after))


# everything else ----------------------------------------------------------------------------------------------------


def _keyed(
    before: Mapping[str, msgspec.Struct], after: Mapping[str, msgspec.Struct], fields: dict[str, str]
) -> list[tuple[str, str, str]]:
    """Changes of a mapping of records: the record's name, its field ("" for the whole record), and the change."""
    result = [(name, "", _NEW) for name in sorted(set(after) - set(before))]
    result += [(name, "", _GONE) for name in sorted(set(before) - set(after))]
    for name in sorted(set(before) & set(after)):
        result += [(name, field, text) for field, text in _changed(before[name], after[name], fields)]
    return result


def record_changes(before: msgspec.Struct, after: msgspec.Struct, fields: Mapping[str, str]) -> list[str]:
    """Changes of one record, field by field in the words of `fields`; places in the source are not changes."""
    return [text for _, text in _changed(before, after, fields)]


def _changed(before: msgspec.Struct, after: msgspec.Struct, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    result = []
    for name in after.__struct_fields__:
        old, new = getattr(before, name, None), getattr(after, name)
        if name not in _PLACES and old != new:
            result.append((name, f"{fields.get(name, name)}: {_change(old, new)}"))
    return result


def _named(what: str, before: msgspec.Struct | None, after: msgspec.Struct | None) -> list[str]:
    if before is None or after is None:
        return [] if before is after else [f"{what}: {'gone' if after is None else 'new'}"]
    return [f"{what}, {text}" for text in record_changes(before, after, {})]


def _change(old: object, new: object) -> str:
    """A change of a value: for lists and mappings, what came and what went."""
    if isinstance(old, tuple) and isinstance(new, tuple) and old and new:
        gone, come = [e for e in old if e not in new], [e for e in new if e not in old]
        if gone or come:
            return _came_and_went(come, gone)
    if isinstance(old, dict) and isinstance(new, dict) and old and new:
        come = [f"{key}: {_show(new[key])}" for key in new if old.get(key) != new[key]]
        return _came_and_went(come, [key for key in old if key not in new])
    return f"{_show(old)} -> {_show(new)}"


def _came_and_went(come: Iterable[object], gone: Iterable[object]) -> str:
    parts = [
        f"{sign} {', '.join(_show(e) for e in some)}" for sign, some in (("+", list(come)), ("-", list(gone))) if some
    ]
    return "; ".join(parts)


def _show(value: object) -> str:
    if isinstance(value, str):
        return value or "nothing"
    if value is None or (isinstance(value, (tuple, dict)) and not value):
        return "nothing"
    return msgspec.json.encode(msgspec.to_builtins(value)).decode().replace('"', "")


def _flags(before: tuple[Flag, ...], after: tuple[Flag, ...]) -> list[Change]:
    """Options that come, go, or change; by the attribute they set, and by spelling within one."""
    old, new = {flag.names[0]: flag for flag in before}, {flag.names[0]: flag for flag in after}
    result = []
    come, gone = [n for n in new if not _known(new[n], before)], [n for n in old if not _known(old[n], after)]
    if come:
        result.append(Change(LAUNCH, f"new options: {', '.join(sorted(come))}", names=tuple(sorted(come))))
    if gone:
        text = f"options that no longer exist: {', '.join(sorted(gone))}"
        result.append(Change(LAUNCH, text, names=tuple(sorted(gone))))
    for name, flag in new.items():
        if name in old:
            result += [Change(FLAG, text, names=(name,)) for text in record_changes(old[name], flag, words.FLAG_FIELDS)]
    return result


def _known(flag: Flag, others: tuple[Flag, ...]) -> bool:
    return any(set(flag.names) & set(other.names) for other in others)


def _launch(before: Profile, after: Profile) -> list[str]:
    plain = ("entries", "plugins", "draft_quantization", "draft_context")
    changes = [
        f"launch, {name}: {_change(getattr(before.launch, name), getattr(after.launch, name))}"
        for name in plain
        if getattr(before.launch, name) != getattr(after.launch, name)
    ]
    old, new = ([f"{'on' if s.on else 'off'} if {s.when}" for s in p.launch.graphs] for p in (before, after))
    come, gone = [one for one in new if one not in old], [one for one in old if one not in new]
    if come or gone:
        changes.append(f"CUDA graphs of decode and verify steps: {_came_and_went(come, gone)}")
    return changes
