"""What an upgrade of the engine does to captures, readings, graphs, drafter classes and flags: two profiles, in words.

Pure. Where a change is the same for many target classes it is one sentence that lists them.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.profile import ABSENT, BROKEN, FITTED, OPAQUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from drafter_contracts.engines.launch_rules import Flag
    from drafter_contracts.engines.profile import CaptureMethod, CaptureRule, Profile, Region

_MOST_NAMES = 12
#: Where things are, and what was seen where nothing was fitted: no change of behaviour.
_PLACES = frozenset({"source", "forward", "reason"})


def diff(before: Profile, after: Profile) -> list[str]:
    """Sentences about what changes from `before` to `after`; empty if nothing does that a profile records."""
    return [
        *_captures(before, after),
        *_keyed("reading of ids", before.readings, after.readings),
        *_keyed("graph replay", before.graphs, after.graphs),
        *_keyed("buffers", before.buffers, after.buffers),
        *_keyed("drafter class", before.drafters, after.drafters),
        *_flags(before.launch.flags, after.launch.flags),
        *_fields("speculative arguments", before.launch.speculative, after.launch.speculative),
        *_fields("--config", before.launch.config_file, after.launch.config_file),
        *_fields("--json-model-override-args", before.launch.overrides, after.launch.overrides),
        *_launch(before, after),
    ]


# captures -----------------------------------------------------------------------------------------------------------


def _captures(before: Profile, after: Profile) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    names = sorted({*before.targets, *after.targets})
    for name in names:
        if name not in before.targets or name not in after.targets:
            what = "registered as a target" if name in after.targets else "no longer registered as a target"
            groups.setdefault(("", what), []).append(name)
    for name in names:
        for method in sorted({*before.targets.get(name, {}), *after.targets.get(name, {})}):
            old, new = before.capture_method(name, method), after.capture_method(name, method)
            for sentence in capture_changes(old, new):
                groups.setdefault((method, sentence), []).append(name)
    return [_sentence(method, sentence, found) for (method, sentence), found in groups.items()]


def _sentence(method: str, sentence: str, names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )
    return f"{method + ', ' if method else ''}{shown}: {sentence}"


def capture_changes(before: CaptureMethod | None, after: CaptureMethod | None) -> list[str]:
    """What changes from one capture rule to another; None is a class without a hook."""
    old, new = _status(before), _status(after)
    if old != new:
        return [f"{_status_words(before)} -> {_status_words(after)}"]
    if before is None or after is None or old != FITTED:
        return []
    parts: tuple[tuple[str, Callable[[CaptureMethod], str]], ...] = (
        ("without ids", _default),
        ("ids become boundaries", _shifts),
        ("refused by the setter", lambda m: ", ".join(f"{g.when} ({g.error})" for g in m.guards) or "nothing"),
        ("depth is read from", lambda m: m.depth),
        ("a second call of the setter", lambda m: "adds to the first" if m.sticky else "replaces the first"),
        ("before the last pipeline stage", lambda m: "nothing is captured" if m.last_rank_only else "captures too"),
    )
    changes = [(name, say(before), say(after)) for name, say in parts]
    changes += [(name, say_rule(before.capture), say_rule(after.capture)) for name, say_rule in _RULE_WORDS]
    return [f"{name}: {was} -> {becomes}" for name, was, becomes in changes if was != becomes]


def _status(method: CaptureMethod | None) -> str:
    return ABSENT if method is None else method.status


def _status_words(method: CaptureMethod | None) -> str:
    if method is None:
        return "no capture hook"
    return {
        FITTED: "captures",
        OPAQUE: f"not decidable ({method.reason})",
        BROKEN: f"has a hook that cannot work ({method.reason})",
    }.get(method.status, method.status)


def _default(method: CaptureMethod) -> str:
    return "refused" if method.default is None else "boundaries " + ", ".join(method.default)


def _shifts(method: CaptureMethod) -> str:
    words = []
    for shift in method.shifts:
        value = "id" if not shift.add else f"id{shift.add:+d}"
        words.append(value if shift.when == "always" else f"{value} if {shift.when}")
    return ", else ".join(words) or "no ids are taken"


def _region(region: Region) -> str:
    when = {"setter": "at start-up", "forward": "at the first batch"}.get(region.phase, region.phase)
    return {
        "capture": "captured",
        "drop": "dropped silently",
        "wrap": "counted from the last layer",
        "error": f"{region.error} {when}",
    }.get(region.action, region.action)


#: Parts of a capture rule in words.
_RULE_WORDS: tuple[tuple[str, Callable[[CaptureRule], str]], ...] = (
    ("captured state", lambda r: r.state),
    ("boundary 0 (embedding output)", lambda r: _region(r.zero)),
    ("boundary N (output of the last layer)", lambda r: _region(r.last)),
    ("boundaries above N", lambda r: _region(r.above)),
    ("boundaries below 0", lambda r: _region(r.negative)),
    ("boundaries below -N", lambda r: _region(r.below or r.negative)),
    ("order of the captured states", lambda r: r.order),
    ("a repeated boundary is captured", lambda r: r.duplicates),
    ("fewer states than asked for", lambda r: r.short or "goes unnoticed"),
    ("nothing captured", lambda r: r.none or "goes unnoticed"),
)


# everything else ----------------------------------------------------------------------------------------------------


def _keyed(what: str, before: Mapping[str, msgspec.Struct], after: Mapping[str, msgspec.Struct]) -> list[str]:
    """Changes of a mapping of records, field by field."""
    result = [f"{what} {name}: new" for name in sorted(set(after) - set(before))]
    result += [f"{what} {name}: gone" for name in sorted(set(before) - set(after))]
    for name in sorted(set(before) & set(after)):
        result += _fields(f"{what} {name}", before[name], after[name])
    return result


def _fields(what: str, before: msgspec.Struct | None, after: msgspec.Struct | None) -> list[str]:
    """Changes of one record, field by field; places in the source are not changes."""
    if before is None or after is None:
        return [] if before is after else [f"{what}: {'gone' if after is None else 'new'}"]
    result = []
    for name in after.__struct_fields__:
        old, new = getattr(before, name, None), getattr(after, name)
        if name not in _PLACES and old != new:
            result.append(f"{what}, {name}: {_change(old, new)}")
    return result


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


def _flags(before: tuple[Flag, ...], after: tuple[Flag, ...]) -> list[str]:
    """Options that come, go, or change; by the attribute they set, and by spelling within one."""
    old, new = {flag.names[0]: flag for flag in before}, {flag.names[0]: flag for flag in after}
    result = []
    come, gone = [n for n in new if not _known(new[n], before)], [n for n in old if not _known(old[n], after)]
    if come:
        result.append(f"new options: {', '.join(sorted(come))}")
    if gone:
        result.append(f"options that no longer exist: {', '.join(sorted(gone))}")
    for name, flag in new.items():
        if name in old:
            result += _fields(f"option {name}", old[name], flag)
    return result


def _known(flag: Flag, others: tuple[Flag, ...]) -> bool:
    return any(set(flag.names) & set(other.names) for other in others)


def _launch(before: Profile, after: Profile) -> list[str]:
    plain = ("entries", "plugins", "draft_quantization", "draft_context")
    return [
        f"launch, {name}: {_change(getattr(before.launch, name), getattr(after.launch, name))}"
        for name in plain
        if getattr(before.launch, name) != getattr(after.launch, name)
    ]
