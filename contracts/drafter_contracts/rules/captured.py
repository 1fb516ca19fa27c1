"""What a launch captures and what was trained on, as the rules about layers share it."""

from __future__ import annotations

from drafter_contracts.layout import Tap, describe_taps
from drafter_contracts.rules.rule import engine
from drafter_contracts.solve import same_taps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.launch_rules import Source
    from drafter_contracts.situation import Situation


def source_text(s: Situation, *places: Source | None) -> str:
    """Places in the release, for a finding."""
    return "; ".join(f"{engine(s)} {place.text()}" for place in places if place is not None)


def capture_source(s: Situation) -> str:
    """Where the release decides what is captured."""
    return source_text(s, s.rule.source, s.rule.forward) if s.rule is not None else ""


def eager_taps(s: Situation) -> tuple[Tap, ...] | None:
    """Taps of eager execution, or None where nothing was computed or the release raises."""
    if s.capture is None or s.capture.eager.error or s.capture.eager.foreign:
        return None
    return s.capture.eager.taps


def trained_taps(s: Situation) -> tuple[Tap, ...] | None:
    """Taps trained on, as far as they are stated firmly enough to refuse on.

    A config's own reading counts only while no other plausible reading of its numbers is what the engine captures
    (NUMBERING_UNDECLARED speaks then).
    """
    if s.stated is None:
        return None
    if s.stated.origin == "config" and numbers_fit_another_reading(s):
        return None
    return s.stated.layout.taps


def numbers_fit_another_reading(s: Situation) -> bool:
    """Whether the capture is another plausible reading of the config's ids, and nothing declared the trained one."""
    got = eager_taps(s)
    if got is None or s.drafter is None or (s.stated is not None and s.stated.origin != "config"):
        return False
    if s.stated is not None and (s.stated.confidence == "declared" or same_taps(s.stated.layout.taps, got)):
        return False
    return tuple(tap.boundary for tap in got) in s.drafter.layout.alternatives


def ids_text(s: Situation) -> str:
    """The ids that the release reads, and from where, for a sentence."""
    if s.ids is None:
        return "no ids"
    return f"ids {list(s.ids)} from {s.ids_key}" if s.ids_key != "formula" else f"evenly spread ids {list(s.ids)}"


def stated_text(s: Situation) -> str:
    """The trained layout and on whose word, for a sentence."""
    return f"{describe_taps(s.stated.layout.taps)}, by {s.stated.detail}" if s.stated is not None else ""


def requested_text(s: Situation) -> str:
    """The boundaries that the setter asked for, in both numberings, or "" if it never got that far."""
    if s.capture is None or not s.capture.eager.requested or s.capture.eager.phase == "setter":
        return ""
    n = s.target.num_layers if s.target is not None else None
    asked = s.capture.eager.requested
    inside = [Tap(boundary) for boundary in asked if boundary >= 0 and (n is None or boundary <= n)]
    outside = [str(boundary) for boundary in asked if Tap(boundary) not in inside]
    text = describe_taps(inside) if inside else ""
    if outside:
        text += (" and " if text else "") + f"{', '.join(outside)}, which this target does not have"
    return text
