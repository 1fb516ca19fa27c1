"""Profiles in words: what a capture rule does, what a launch captures, and what each field of a record means."""

from __future__ import annotations

from drafter_contracts import limits
from drafter_contracts.engines.profile import ABSENT, BROKEN, FITTED, OPAQUE
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.layout import RESIDUAL, Tap, describe_taps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.capture import Capture, EffectiveCapture
    from drafter_contracts.engines.profile import CaptureMethod, CaptureRule, Region

#: A setter that is asked for something impossible raises before any weight is used; a forward pass minutes later.
_WHEN = {"setter": "at start-up", "forward": "at the first batch"}


#: A depth that no target has. It stands for one that is not known: boundaries near its end, its middle, third or
#: quarter are named as expressions over N.
UNKNOWN_DEPTH = 1_000_000


# capture rules ------------------------------------------------------------------------------------------------------


def status(method: CaptureMethod | None) -> str:
    """Status of a rule; a class without a hook is "absent"."""
    return ABSENT if method is None else method.status


def status_words(method: CaptureMethod | None) -> str:
    """What a target class can do for a method at all, with the reason where it cannot."""
    if method is None:
        return "no capture hook"
    return {
        FITTED: "captures",
        OPAQUE: f"not decidable ({method.reason})",
        BROKEN: f"has a hook that cannot work ({method.reason})",
    }.get(method.status, method.status)


def default_words(method: CaptureMethod, n: int | None = None) -> str:
    """What is captured where no ids are given; in numbers if the target's depth is known."""
    if method.default is None:
        return "refused"
    if n is None:
        return "boundaries " + ", ".join(method.default)
    return "boundaries " + ", ".join(str(evaluate_expression(expression, n)) for expression in method.default)


def shift_words(method: CaptureMethod) -> str:
    """How ids become boundaries: "id+1 if first==1, else id"."""
    words = []
    for shift in method.shifts:
        value = "id" if not shift.add else f"id{shift.add:+d}"
        words.append(value if shift.when == "always" else f"{value} if {shift.when}")
    return ", else ".join(words) or "no ids are taken"


def region_words(region: Region) -> str:
    """What becomes of a boundary."""
    return {
        "capture": "captured",
        "drop": "dropped silently",
        "wrap": "counted from the last layer",
        "error": f"{region.error} {_WHEN.get(region.phase, region.phase)}",
    }.get(region.action, region.action)


#: Parts of a capture rule in words.
_RULE_PARTS: tuple[tuple[str, Callable[[CaptureRule], str]], ...] = (
    ("captured state", lambda r: r.state),
    ("boundary 0 (embedding output)", lambda r: region_words(r.zero)),
    ("boundary N (output of the last layer)", lambda r: region_words(r.last)),
    ("boundaries above N", lambda r: region_words(r.above)),
    ("boundaries below 0", lambda r: region_words(r.negative)),
    ("boundaries below -N", lambda r: region_words(r.below or r.negative)),
    ("order of the captured states", lambda r: r.order),
    ("a repeated boundary is captured", lambda r: r.duplicates),
    ("fewer states than asked for", lambda r: r.short or "goes unnoticed"),
    ("nothing captured", lambda r: r.none or "goes unnoticed"),
)


def rule_parts(method: CaptureMethod, n: int | None = None) -> dict[str, str]:
    """Everything that a fitted rule says, part by part.

    Args:
        method: A fitted rule.
        n: Decoder layers of the target, to give the default boundaries as numbers; None for expressions over N.
    """
    parts = {
        "without ids": default_words(method, n),
        "ids become boundaries": shift_words(method),
        "refused by the setter": ", ".join(f"{g.when} ({g.error})" for g in method.guards) or "nothing",
        "depth is read from": method.depth,
        "a second call of the setter": "adds to the first" if method.sticky else "replaces the first",
        "before the last pipeline stage": "nothing is captured" if method.last_rank_only else "captures too",
    }
    return parts | {name: say(method.capture) for name, say in _RULE_PARTS}


#: What most rules say of these parts.
_USUAL = {
    "refused by the setter": "nothing",
    "a second call of the setter": "replaces the first",
    "captured state": "residual",
    "order of the captured states": "ascending",
    "a repeated boundary is captured": "once",
    "fewer states than asked for": "goes unnoticed",
    "nothing captured": "goes unnoticed",
    "CUDA graphs replay": "the same",
}


def unusual_parts(parts: dict[str, str]) -> dict[str, str]:
    """Parts of a rule without those that say what nearly every rule says."""
    result = {name: text for name, text in parts.items() if _USUAL.get(name) != text}
    if result.get("boundaries below -N") == result.get("boundaries below 0"):
        result.pop("boundaries below -N", None)
    return result


def changed_parts(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Parts that differ, as "name: was -> becomes"."""
    names = list(dict.fromkeys((*before, *after)))
    pairs = [(name, before.get(name, "nothing"), after.get(name, "nothing")) for name in names]
    return [f"{name}: {was} -> {becomes}" for name, was, becomes in pairs if was != becomes]


# what a launch captures ---------------------------------------------------------------------------------------------


def boundary_name(boundary: int) -> int | str:
    """A boundary as it is, or an expression over N where the depth is not known; "" for one that has no such name."""
    if boundary <= limits.target_max_layers:
        return boundary
    anchors = {UNKNOWN_DEPTH: "N"} | {UNKNOWN_DEPTH // part: f"N//{part}" for part in (2, 3, 4)}
    for anchor, name in anchors.items():
        if abs(boundary - anchor) <= limits.layout_max_taps:
            return name if boundary == anchor else f"{name}{boundary - anchor:+d}"
    return ""


def boundary_names(capture: Capture) -> list[int | str]:
    """The boundaries that arrive, by name; empty if one of them has none."""
    names = [boundary_name(tap.boundary) for tap in capture.taps]
    return [] if "" in names else names


def boundary_list(capture: Capture) -> str:
    """The boundaries that arrive, bare: "3, 31, 59"."""
    return ", ".join(map(str, boundary_names(capture))) or (_SPREAD if capture.taps else "")


_SPREAD = "spread over the target's depth"


def taps_words(capture: Capture) -> str:
    """The states that arrive, in both numberings."""
    if all(tap.boundary <= limits.target_max_layers for tap in capture.taps):
        return describe_taps(capture.taps)
    names = boundary_names(capture)
    if not names:
        return f"boundaries {_SPREAD}"
    outputs = [str(boundary_name(tap.boundary - 1)) for tap in capture.taps]
    states = sorted({tap.state for tap in capture.taps} - {RESIDUAL})
    state = f", {', '.join(states)}" if states else ""
    return f"boundaries {', '.join(map(str, names))} (outputs of layers {', '.join(outputs)}{state})"


def capture_words(capture: Capture) -> str:
    """What one execution mode captures, in both numberings, with what is lost on the way."""
    if capture.error:
        asked = _asked(capture)
        return f"{capture.error} {_WHEN.get(capture.phase, capture.phase)}" + (f" (asked for {asked})" if asked else "")
    if capture.foreign:
        return f"{capture.foreign} (at {taps_words(capture)})" if capture.taps else capture.foreign
    if not capture.dropped:
        return taps_words(capture)
    lost = ", ".join(str(boundary_name(boundary)) for boundary in capture.dropped)
    arrive = f"{len(capture.taps)} of {len(capture.requested)} states arrive"
    return f"{taps_words(capture)}, {lost} dropped silently: {arrive}"


def _asked(capture: Capture) -> str:
    if not capture.requested or capture.phase == "setter":
        return ""
    if min(capture.requested) < 0 or max(capture.requested) > limits.target_max_layers:
        return "boundaries " + ", ".join(str(boundary_name(b) or _SPREAD) for b in capture.requested)
    return describe_taps([Tap(boundary) for boundary in capture.requested])


def effect_words(effect: EffectiveCapture) -> str:
    """What a launch captures: one answer, or two where CUDA graphs replay something else."""
    eager = capture_words(effect.eager)
    if effect.defaulted and not effect.eager.error:
        return f"the default, since no ids are read: {eager}"
    if effect.undetermined:
        return f"{eager} in eager execution; what CUDA graphs replay is not decidable ({effect.undetermined})"
    if effect.replay is None or effect.replay == effect.eager:
        return eager
    return f"{eager} in eager execution; CUDA graphs replay the default, {capture_words(effect.replay)}"


# fields of records --------------------------------------------------------------------------------------------------

READING_FIELDS = {
    "keys": "keys of the drafter's config",
    "switch": "switched off by",
    "missing": "where no ids are found",
    "broken": "where a value is of the wrong kind",
    "error": "exception for what is refused",
    "range_low": "lowest id accepted",
    "range_high": "highest id accepted",
    "shifts": "ids moved before the setter sees them",
    "requires": "must be positive",
    "hooks": "setters, in order of preference",
    "null_stops": "null counts as missing at once",
    "unchecked": "not checked for their range",
    "checks_all": "keys that do not win are checked too",
    "coerces": "ids go through int()",
    "empty": "an empty list",
    "no_hook": "exception for a target class without a hook",
}
GRAPH_FIELDS = {"ids": "captured layers"}
BUFFER_FIELDS = {"of": "sized by the config of the", "taps": "number of states read from"}
DRAFTER_FIELDS = {
    "kind": "method",
    "taps": "number of states read from",
    "width": "width of a state read from",
    "bias": "bias of fc",
    "norm_before_fc": "norm over the concatenation switched on by",
    "fc_norm": "norm per state switched on by",
    "norm_output": "recycling of the normed state switched on by",
    "either": "on if any of its keys is true",
    "skips_fc": "fc skipped where the widths are equal",
    "max_layers": "most draft layers (0: any)",
    "keys": "config keys read",
    "loads": "tensors loaded",
    "ignores": "tensors ignored without a message",
    "refuses": "tensors refused",
    "embed": "embeddings",
    "lm_head": "head",
    "vocab_map": "map from draft to target ids",
    "vocab_encoding": "that map holds",
    "ids_below": "capture ids must be below",
}
FLAG_FIELDS = {"names": "spellings", "type": "kind of value", "nargs": "number of values", "dest": "attribute"}
