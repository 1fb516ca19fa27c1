"""Layer numbers that somebody wrote, held against the layers that were identified; and which convention explains them.

Sources of the conventions: `drafter_contracts.numberings` (docs/numberings.md). Of recorded states only few formats say
which one they follow; where none is known, output ids and boundaries are both possible.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.evidence.documents import TRANSFORMED, UNKNOWN, Identification, StateMatch
from drafter_contracts.layout import FINAL_NORM, Tap, describe_taps

BOUNDARIES, OUTPUT_IDS = "boundaries", "output ids"
#: What is added to a number of each convention to get its boundary.
SHIFTS = {BOUNDARIES: 0, OUTPUT_IDS: 1}
#: Found boundary less written number, to what explains it.
_EXPLAINED = {
    1: "the numbers are output ids",
    0: "the numbers are boundaries (read as output ids, every state was recorded one layer early)",
    -1: "every state was recorded one layer early, if the numbers are boundaries",
    2: "every state was recorded one layer late, if the numbers are output ids",
}


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Layer numbers in the order of the recorded states.

    Attributes:
        ids: The numbers as written.
        source: Who wrote them: "--output-ids 2,30,58", "data_config.json: layer_ids".
        numbering: `BOUNDARIES` or `OUTPUT_IDS`; "" if nobody knows which.
    """

    ids: tuple[int, ...]
    source: str
    numbering: str = ""

    def boundaries(self, numbering: str) -> tuple[int, ...]:
        """The boundaries that the numbers are in one of the two conventions."""
        return tuple(number + SHIFTS[numbering] for number in self.ids)


class Held(msgspec.Struct, frozen=True):
    """What comes of holding labels against numbers.

    Attributes:
        contradictions: One sentence per state that is another than the label says, and what would explain them all.
        agreed: In which convention the labels are right, for a reader; "" if they are not.
    """

    contradictions: tuple[str, ...] = ()
    agreed: str = ""


def tap_of(match: StateMatch) -> Tap | None:
    """The state of the target that a recorded one was found to be; None if it was not."""
    return None if match.found == UNKNOWN or match.boundary is None else Tap(match.boundary, match.state)


def hold(labels: Labels, document: Identification) -> Held:
    """Hold labels against what was identified.

    Args:
        labels: One number per state of the document; or one more, for the target's last state, which is then left out.
        document: The identification. States that it does not know contradict nothing.
    """
    ids, taps = labels.ids, tuple(tap_of(match) for match in document.states)
    if len(ids) == len(taps) + 1 and document.last is not None:
        ids = ids[:-1]
    if len(ids) != len(taps):
        said = f"{labels.source} names {len(ids)} layers ({_listed(ids)}), and {len(taps)} states feed fc"
        return Held((said,))
    labels = msgspec.structs.replace(labels, ids=ids)
    possible = [labels.numbering] if labels.numbering else [OUTPUT_IDS, BOUNDARIES]
    right = [one for one in possible if _agree(labels.boundaries(one), taps)]
    if right:
        sure = all(tap is not None for tap in taps)
        return Held(agreed=f"{labels.source}: {_listed(ids)}, right as {right[0]}" if sure else "")
    return Held(_differences(labels, taps, document))


def explanation(ids: tuple[int, ...], taps: tuple[Tap | None, ...]) -> str:
    """What would make numbers and identified states agree, as one clause; "" if nothing simple does.

    Args:
        ids: The numbers as written, in concatenation order.
        taps: The states found, in the same order; None for one that is not known.
    """
    if len(ids) != len(taps) or all(tap is None for tap in taps):
        return ""
    for shift, words in _EXPLAINED.items():
        if _agree(tuple(number + shift for number in ids), taps):
            return words
    if all(tap is not None for tap in taps):
        found = sorted(tap.boundary for tap in taps if tap is not None)
        for name, shift in ((OUTPUT_IDS, 1), (BOUNDARIES, 0)):
            if sorted(number + shift for number in ids) == found and _raw(taps) == taps:
                return f"the numbers are {name} of the same layers in another order"
    if _raw(taps) != taps and (why := explanation(ids, _raw(taps))):
        return f"{why}, and the last layer's output was taken after the final norm, as hidden_states[-1] is"
    return ""


def _agree(boundaries: tuple[int, ...], taps: tuple[Tap | None, ...]) -> bool:
    return all(tap is None or _is(tap, boundary) for boundary, tap in zip(boundaries, taps, strict=True))


def _is(tap: Tap, boundary: int) -> bool:
    """A number names the stream between layers: the state after the final norm is not it, though it lies there too."""
    return tap.boundary == boundary and tap.state != FINAL_NORM


def _raw(taps: tuple[Tap | None, ...]) -> tuple[Tap | None, ...]:
    """The stream where a state was taken after the final norm."""
    return tuple(Tap(tap.boundary) if tap is not None and tap.state == FINAL_NORM else tap for tap in taps)


def _differences(labels: Labels, taps: tuple[Tap | None, ...], document: Identification) -> tuple[str, ...]:
    said = []
    for number, (written, match, tap) in enumerate(zip(labels.ids, document.states, taps, strict=True)):
        readings = [labels.numbering] if labels.numbering else list(SHIFTS)
        claimed = [written + SHIFTS[one] for one in readings]
        if tap is None or any(_is(tap, boundary) for boundary in claimed):
            continue
        words = " or ".join(_named(boundary) for boundary in claimed)
        turned = f", in another basis ({match.map})" if match.found == TRANSFORMED else ""
        said.append(
            f"recorded #{number}: {labels.source} says {written}, which is {words}; it is {tap.label()}{turned}"
        )
    if not said:  # each is right in one of the two conventions, and all of them in neither
        found = describe_taps(tuple(tap for tap in taps if tap is not None))
        said.append(f"{labels.source} says {_listed(labels.ids)}, in neither convention {found}")
    why = explanation(labels.ids, taps)
    return (*said, f"{labels.source}: it would agree if {why}") if why else tuple(said)


def _named(boundary: int) -> str:
    return Tap(boundary).label() if boundary >= 0 else f"boundary {boundary}, which no target has"


def _listed(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))
