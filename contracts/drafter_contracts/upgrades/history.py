"""What a target class captures, over all releases: one line per change."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.engines import words
from drafter_contracts.engines.capture import read_ids
from drafter_contracts.engines.compare import concerns, record_changes
from drafter_contracts.engines.profile import ABSENT, FITTED, METHODS, Profile
from drafter_contracts.engines.ranges import Span, spans
from drafter_contracts.solve import with_value
from drafter_contracts.upgrades.answer import (
    HOOKLESS,
    UNREGISTERED,
    Answer,
    Question,
    answer,
    without_lines,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from drafter_contracts.engines.profile import Drafter


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What holds over releases that follow each other.

    Attributes:
        span: The releases.
        status: "captures", "raises", "off", "no hook", "not registered", "broken" or "not decidable"; for the history
            of a rule "fitted" instead of the first three, for a drafter class "opaque" too.
        text: What happens; in the history of a rule what it says, or what changed from the line before.
        source: Places in the first of these releases, "models/llama.py:929 (...)".
        answer: What is captured, in a history of ids.
    """

    span: Span
    status: str
    text: str
    source: str = ""
    answer: Answer | None = None


class History(msgspec.Struct, frozen=True, omit_defaults=True):
    """All lines for one class and method.

    Attributes:
        architecture: Target class or drafter class.
        method: "EAGLE3", "DFLASH" or "DSPARK"; "" for a drafter class.
        releases: The releases looked at, oldest first.
        lines: One per change, oldest first.
        ids: Ids asked about, or None.
        layers: Depth of the target, or None if it was not given.
        assumed: What was taken to be so, or "".
        notes: What holds beside the lines.
    """

    architecture: str
    method: str
    releases: tuple[str, ...]
    lines: tuple[Line, ...]
    ids: tuple[int, ...] | None = None
    layers: int | None = None
    assumed: str = ""
    notes: tuple[str, ...] = ()


def methods_of(profiles: Sequence[Profile], architecture: str) -> tuple[str, ...]:
    """Methods that a target class has a hook for in any of these releases."""
    found = {method for profile in profiles for method in profile.targets.get(architecture, {})}
    return tuple(method for method in METHODS if method in found)


def runs(
    profiles: Sequence[Profile], look: Callable[[Profile], Answer], key: Callable[[Answer], Hashable] | None = None
) -> list[tuple[Span, Answer]]:
    """Releases that follow each other and behave alike, with the first one's answer."""
    known = [profile.release for profile in profiles]
    found: list[tuple[list[str], Hashable, Answer]] = []
    for profile in profiles:
        seen = look(profile)
        same = key(seen) if key is not None else seen.behaviour()
        if found and found[-1][1] == same:
            found[-1][0].append(profile.release)
        else:
            found.append(([profile.release], same, seen))
    return [(spans(known, members)[0], seen) for members, _, seen in found]


def depth_for(ids: Sequence[int]) -> tuple[int, str]:
    """A depth for a target whose depth is not known, at which these ids lie inside it, and that assumption in words."""
    return words.UNKNOWN_DEPTH, f"a target of more than {max(ids) + 1} layers" if ids else "a target of N layers"


def ids_history(
    profiles: Sequence[Profile], architecture: str, method: str, ids: tuple[int, ...], layers: int | None
) -> History:
    """What ids of a drafter's config lead to, over releases.

    Args:
        profiles: The releases, oldest first.
        architecture: Target class.
        method: "EAGLE3", "DFLASH" or "DSPARK".
        ids: The ids as they are written in the drafter's config, where each release reads them.
        layers: Decoder layers of the target; None if not known (then `History.assumed` says what is assumed).
    """
    n, assumed = (layers, "") if layers is not None else depth_for(ids)
    found = runs(profiles, lambda profile: answer(profile, _question(profile, architecture, method, ids, n)))
    return History(
        architecture,
        method,
        tuple(profile.release for profile in profiles),
        tuple(Line(span, seen.kind, seen.words(), seen.source(), seen) for span, seen in found),
        ids,
        layers,
        assumed,
        _notes(profiles, architecture, method),
    )


def _question(profile: Profile, architecture: str, method: str, ids: tuple[int, ...], n: int) -> Question:
    """The ids at the first key at which this release takes them; a release that reads none gets a config without."""
    reading = profile.readings.get(method)
    configs: list[dict[str, object]] = []
    if reading is not None:
        needed: dict[str, object] = {}
        for key in reading.requires[:1]:
            needed = with_value(needed, key, 1)
        configs = [with_value(needed, key, list(ids)) for key in reading.keys]
        configs.sort(key=lambda config: read_ids(reading, config, n=n)[0] != ids)
    return Question(architecture, method, n, DrafterFacts("", method, config=configs[0] if configs else {}))


def _notes(profiles: Sequence[Profile], architecture: str, method: str) -> tuple[str, ...]:
    """Moves of ids that depend on what a class name does not tell."""
    members: dict[str, list[str]] = {}
    for profile in profiles:
        reading = profile.readings.get(method)
        if reading is None or profile.capture_method(architecture, method) is None:
            continue
        for shift in reading.shifts:
            if not concerns(shift, architecture):
                continue
            where = f"on targets of model_type {shift.target_model_type}" if shift.target_model_type else ""
            whose = f"of {' or '.join(shift.drafter_architectures)}" if shift.drafter_architectures else ""
            told = " ".join(filter(None, (f"ids move by {shift.add:+d} before the setter sees them", whose, where)))
            members.setdefault(told, []).append(profile.release)
    known = [profile.release for profile in profiles]
    return tuple(
        f"not counted above, {', '.join(span.phrase() for span in spans(known, releases))}: {told}"
        for told, releases in members.items()
    )


# the rule itself ----------------------------------------------------------------------------------------------------


def rule_history(profiles: Sequence[Profile], architecture: str, method: str, layers: int | None = None) -> History:
    """How a target class turns ids into captures, over releases: the first line says it all, later ones what changes.

    Args:
        profiles: The releases, oldest first.
        architecture: Target class.
        method: "EAGLE3", "DFLASH" or "DSPARK".
        layers: Decoder layers of the target, to give default boundaries as numbers; None for expressions over N.
    """
    known = tuple(profile.release for profile in profiles)
    groups: list[tuple[list[str], tuple[object, ...], str, dict[str, str], str]] = []
    for profile in profiles:
        status, parts, source = _rule(profile, architecture, method, layers)
        same = (status, tuple((name, without_lines(text)) for name, text in parts.items()))
        if groups and groups[-1][1] == same:
            groups[-1][0].append(profile.release)
        else:
            groups.append(([profile.release], same, status, parts, source))
    lines: list[Line] = []
    before: dict[str, str] | None = None
    for members, _, status, parts, source in groups:
        whole = before is None or status != FITTED
        told = words.changed_parts(before, parts) if before is not None and not whole else _said(parts)
        text = "; ".join(told) or "as before"
        lines.append(Line(spans(known, members)[0], status, text, source))
        before = parts if status == FITTED else before
    return History(architecture, method, known, tuple(lines), layers=layers)


def _said(parts: dict[str, str]) -> list[str]:
    return [f"{name}: {text}" if name else text for name, text in words.unusual_parts(parts).items()]


def _rule(profile: Profile, architecture: str, method: str, layers: int | None) -> tuple[str, dict[str, str], str]:
    """Status of a class in a release, what its rule says part by part, and where."""
    if architecture not in profile.targets:
        return UNREGISTERED, {"": "not registered as a target"}, ""
    rule = profile.capture_method(architecture, method)
    if rule is None:
        return HOOKLESS, {"": "no capture hook"}, ""
    places = "; ".join(place.text() for place in (rule.source, rule.forward) if place is not None)
    if rule.status != FITTED:
        status = {"broken": "broken"}.get(rule.status, "not decidable")
        return status, {"": words.status_words(rule)}, places
    return FITTED, words.rule_parts(rule, layers) | _reading_parts(profile, method), places


def _reading_parts(profile: Profile, method: str) -> dict[str, str]:
    parts = {}
    reading, graphs = profile.readings.get(method), profile.graphs.get(method)
    if reading is not None:
        parts["ids are read from"] = ", then ".join(reading.keys) or "nowhere"
        if reading.switch:
            parts["capture is turned off by"] = reading.switch
    parts["CUDA graphs replay"] = {"same": "the same", "default": "the default"}.get(
        graphs.ids if graphs is not None else "same", "what is not decidable"
    )
    return parts


# drafter classes ----------------------------------------------------------------------------------------------------


def class_history(profiles: Sequence[Profile], name: str) -> History:
    """What a drafter class does with configs and weights, over releases."""
    known = tuple(profile.release for profile in profiles)
    lines: list[Line] = []
    members: list[str] = []
    last: Drafter | None = None
    for position, profile in enumerate(profiles):
        found = profile.drafters.get(name)
        changes = record_changes(last, found, words.DRAFTER_FIELDS) if last is not None and found is not None else []
        if position and ((last is None) == (found is None)) and not changes:
            members.append(profile.release)
            lines[-1] = msgspec.structs.replace(lines[-1], span=spans(known, members)[0])
            continue
        members = [profile.release]
        if found is None:
            status, text, source = ABSENT, "no such drafter class", ""
        else:
            status = found.status
            source = found.source.text() if found.source is not None else ""
            text = "; ".join(changes) if changes else f"known, for {found.kind}"
            text += f" ({found.reason})" if found.reason else ""
        lines.append(Line(spans(known, members)[0], status, text, source))
        last = found
    return History(name, "", known, tuple(lines))
