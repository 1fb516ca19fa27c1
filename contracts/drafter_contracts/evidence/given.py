"""A document of evidence that somebody gives to a publication, and whether it contradicts itself."""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import LayoutError
from drafter_contracts.evidence.documents import IDENTIFIED, Evaluation, Identification, StateMatch
from drafter_contracts.evidence.labels import tap_of
from drafter_contracts.layout import RESIDUAL, CaptureLayout, Tap

#: Standard errors that no chance explains, and tokens per step that are of no use to anybody.
_CHANCE, _RELEVANT = 10, 0.02
#: What sums of the same figures may differ by.
_ROUNDED = 1e-6


class Given(msgspec.Struct, frozen=True):
    """A document and where it comes from.

    Attributes:
        document: The document.
        name: What to call it in messages: its file's name.
        sha256: Digest of its bytes; "" if it was never written.
    """

    document: Identification | Evaluation
    name: str
    sha256: str = ""


def identified_taps(document: Identification) -> tuple[Tap, ...]:
    """The taps of the states that are known, in concatenation order."""
    return tuple(tap for tap in map(tap_of, document.states) if tap is not None)


def scored_taps(boundaries: tuple[int, ...], states: tuple[str, ...]) -> tuple[Tap, ...]:
    """Taps of a score: no states means that all are residual."""
    words = states if len(states) == len(boundaries) else (RESIDUAL,) * len(boundaries)
    return tuple(map(Tap, boundaries, words))


def why_unsettled(match: StateMatch, *, brief: bool = False) -> str:
    """Why a state is no tap of a layout, in one clause; "" if it is one.

    Args:
        match: The state.
        brief: Leave out the reason of an unknown one, where it is told beside this.
    """
    name = f"recorded #{match.number}"
    tap = tap_of(match)
    if tap is None:
        return f"{name} is not identified" + ("" if brief else f": {match.reason or 'no reason is given'}")
    if match.map:
        return f"{name} is {tap.label()} in another basis ({match.map}), which no engine feeds"
    if match.shift:
        return f"{name} is {tap.label()} shifted: its row t is row {match.shift:+d} of the target's"
    return "" if match.found == IDENTIFIED else f"{name} is not identified"


def flaws(document: Identification | Evaluation) -> tuple[str, ...]:
    """Where a document contradicts itself, one sentence each: it was written by hand, or changed."""
    return _flawed_identification(document) if isinstance(document, Identification) else _flawed_evaluation(document)


def _flawed_identification(document: Identification) -> tuple[str, ...]:
    if document.verdict != "identified":
        return ()
    found = [why for match in document.states if (why := why_unsettled(match))]
    for match in document.states:
        if match.error is None or match.tolerance is None or not 0 <= match.error <= match.tolerance:
            found.append(f"recorded #{match.number} is called identified, and its error is not within the tolerance")
        elif match.next_error is not None and not match.error < match.next_error:
            found.append(f"recorded #{match.number} is called identified, and another state is as near")
    if [match.number for match in document.states] != list(range(len(document.states))):
        found.append("the states are not numbered in the order in which they stand")
    if tuple(match.boundary for match in document.states) != document.boundaries:
        found.append(f"boundaries are {list(document.boundaries)}, and the states are of others")
    found += _impossible(identified_taps(document), document.reference.layers)
    return tuple(found)


def _flawed_evaluation(document: Evaluation) -> tuple[str, ...]:
    found = []
    first, *others = document.scores
    for score in document.scores:
        found += _impossible(scored_taps(score.boundaries, score.states), document.reference.layers)
        if not possible_acceptance(score.length, score.steps):
            found.append(f"{score.name}: no possible acceptance")
        if len(score.boundaries) != len(first.boundaries):
            found.append(f"{score.name} has {len(score.boundaries)} taps, and {first.name} {len(first.boundaries)}")
        if abs(score.length - first.length - score.behind) > _ROUNDED:
            found.append(
                f"{score.name} is said to be {score.behind:+.2f} behind the first, and its length says otherwise"
            )
    for other in others if document.verdict == "stated" else ():
        if ahead(other.length, first.length, other.behind_deviation):
            found.append(f"the stated layout is called the best, and {other.name} is better")
    if document.verdict == "other" and not any(other.length > first.length for other in others):
        found.append("another layout is called better, and there is none")
    return tuple(found)


def ahead(length: float, stated: float, deviation: float) -> bool:
    """Whether another layout is better than the stated one by more than any chance, in tokens per step.

    Args:
        length: Of the other layout.
        stated: Of the stated one.
        deviation: Standard error of their difference.
    """
    return length - stated > max(_CHANCE * deviation, _RELEVANT)


def possible_acceptance(length: float, steps: tuple[float, ...]) -> bool:
    """Whether tokens per step can come of such acceptances of each drafted token.

    The run of first choices that are right is as long as the first one is right, at least, and as all of them
    together, at most: 1 + steps[0] <= length <= 1 + sum(steps).
    """
    if not steps or not all(0 <= step <= 1 for step in steps):
        return False
    return 1 + steps[0] - _ROUNDED <= length <= 1 + sum(steps) + _ROUNDED


def _impossible(taps: tuple[Tap, ...], layers: int) -> list[str]:
    try:
        CaptureLayout(taps).check(layers)
    except LayoutError as error:
        return [error.diagnostics()]
    return []
