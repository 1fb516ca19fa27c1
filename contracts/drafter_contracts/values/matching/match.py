"""Matching of recorded states to the states of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.evidence.documents import StateMatch, TapError
from drafter_contracts.value_types import State
from drafter_contracts.values.matching import recorded as recording
from drafter_contracts.values.matching import rows
from drafter_contracts.values.matching.decide import Candidate, Decision, beside_absent, decide
from drafter_contracts.values.matching.recorded import Recorded, record
from drafter_contracts.values.matching.reference import Reference, prepare
from drafter_contracts.values.matching.rotated import rotated
from drafter_contracts.values.matching.roundoff import EIGHT_BITS
from drafter_contracts.values.matching.settle import remark, settle
from drafter_contracts.values.records import Capture

Map = Literal["", "scaled", "rotated"]
#: States that a rotated one may be for this to be worth saying.
_FEW = 3


@torch.no_grad()
def match_states(
    states: Sequence[torch.Tensor], tokens: torch.Tensor, capture: Capture, *, max_shift: int = 1
) -> tuple[StateMatch, ...]:
    """Say which state of the reference each recorded state is.

    A state is identified when it lies within what the dtypes explain of exactly one (tap, shift) of the reference, by
    the median row, and no row is off by more than rows of that many ever are. Nothing else is an answer: a state that
    is scaled or rotated is called so, and all else is unknown, the nearest named only as the nearest.

    Args:
        states: [T, H] each, of any floating dtype; views of a memory-mapped file are read a block at a time.
        tokens: int64 [T] of the sample.
        capture: The reference, for the same tokens; either may be longer.
        max_shift: Rows by which a recorded state may be displaced, either way.

    Returns:
        One match per state, in their order; `number` counts from 0.

    Raises:
        CaptureError: The reference's tokens are not the sample's, or its width is not theirs.
    """
    rows.check_tokens(tokens, capture.tokens, max_shift)
    wrong = [
        f"state {number}: {list(state.shape)}"
        for number, state in enumerate(states)
        if tuple(state.shape) != (len(tokens), capture.record.hidden_size)
    ]
    if wrong:
        raise CaptureError(
            "the recorded states are not of the reference's width, or not one row per token",
            where="states",
            expected=f"[{len(tokens)}, {capture.record.hidden_size}]",
            actual=", ".join(wrong),
        )
    reference = prepare(capture, max_shift)
    return tuple(_match(number, record(state, reference, max_shift), reference) for number, state in enumerate(states))


def _match(number: int, recorded: Recorded, reference: Reference) -> StateMatch:
    candidates = recorded.candidates(recording.plain)
    decision = decide(candidates)
    kind: Map = ""
    if not decision.fits:
        kind, candidates, decision = _transformed(recorded, candidates, decision)
    decision = beside_absent(decision, reference.capture.missing())
    best = decision.best
    others = [other for other in candidates if other.tap != best.tap]
    following = min(others, key=lambda other: other.error, default=None)
    return StateMatch(
        number=number,
        found=_found(decision, kind),
        boundary=best.tap.boundary,
        state=_state(best),
        shift=best.shift,
        map=kind,
        scale=best.scale if kind else None,
        error=_figure(decision.error),
        tolerance=_figure(decision.tolerance),
        next_boundary=following.tap.boundary if following else None,
        next_state=_state(following) if following else "residual",
        next_error=_figure(following.error) if following else None,
        reason=decision.reason,
        settle=settle(decision, recorded),
        remark=remark(decision, reference.capture),
        errors=_errors(recorded),
    )


def _transformed(
    recorded: Recorded, candidates: list[Candidate], decision: Decision
) -> tuple[Map, list[Candidate], Decision]:
    """The simplest map that explains a state, if one does; else what was found without one.

    A scaling that fits several states is the better reason for knowing none; a rotation that fits few is added to it.
    """
    eight_bits = recorded.made.stored in EIGHT_BITS
    best: tuple[list[Candidate], Decision] | None = None
    for measure in (recording.scaled, *((recording.scaled_by_row,) if eight_bits else ())):
        others = recorded.candidates(measure)
        other = decide(others)
        if other.fits and (other.found or best is None):
            best = others, other
        if other.found:
            break
    if best:
        reason = f"scaled by {best[1].best.scale:.4g}, {best[1].reason}" if best[1].reason else ""
        return "scaled", best[0], replace(best[1], reason=reason)
    others = rotated(recorded)
    if others:
        other = decide(others)
        if other.found:
            return "rotated", others, other
        if 0 < other.fits <= _FEW and other.crowded:
            decision = replace(decision, reason=f"{decision.reason}; in another basis, {other.reason}")
    return "", candidates, decision


def _found(decision: Decision, kind: Map) -> Literal["identified", "transformed", "unknown"]:
    if not decision.found:
        return "unknown"
    return "transformed" if kind else "identified"


def _state(candidate: Candidate) -> State:
    return candidate.tap.state  # type: ignore[return-value]  # a Tap's state is one of STATES


def _figure(value: float) -> float | None:
    """A number that JSON can hold."""
    return value if value < float("inf") else None


def _errors(recorded: Recorded) -> tuple[TapError, ...]:
    """Median error against every state, unshifted: exact where it was computed, else estimated."""
    found = []
    overlap = recorded.overlaps.get(0)
    if overlap is None:
        return ()
    for index, tap in enumerate(recorded.reference.taps):
        fitted = recorded.exact.get((index, 0)) or recorded.estimate(index, overlap)
        error = _figure(rows.quantile(fitted.plain, 0.5)) if fitted else None
        if error is not None:
            found.append(TapError(boundary=tap.boundary, error=error, state=tap.state))  # type: ignore[arg-type]
    return tuple(found)
