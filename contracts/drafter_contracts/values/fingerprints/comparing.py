"""States that somebody fed or recorded, held against a fingerprint: the same per tap, or which other they resemble."""

from __future__ import annotations

from typing import Literal

import msgspec
import torch

from drafter_contracts.errors import DegenerateSampleError, SampleError
from drafter_contracts.layout import Tap
from drafter_contracts.value_types import Boundary, State
from drafter_contracts.values.fingerprints.making import landmark_taps
from drafter_contracts.values.fingerprints.projection import decode, project
from drafter_contracts.values.fingerprints.tolerance import Roundings
from drafter_contracts.values.matching.decide import STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.manifest_values import FingerprintRecord, TapFingerprint

SAME: Literal["same"] = "same"
DIFFERENT: Literal["not the same"] = "not the same"
UNKNOWN: Literal["unknown"] = "unknown"

#: Part of the rows that must be near: a router that flips, or one token that amplifies, is no other layer.
_ROWS = 2 / 3
#: Errors of norms and first elements in tolerances: a projection may show an error a little smaller than it is.
_OTHERS = 2.0


class Resemblance(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The state of the target that a given one is nearest to, by the last token of the probe.

    Attributes:
        boundary: Its boundary.
        state: Which state of it.
        error: Relative error against it.
        next_boundary: The second nearest.
        next_state: Which state of it.
        next_error: The error against that.
        is_it: At most half as far from it as from the second nearest.
    """

    boundary: Boundary
    state: State = "residual"
    error: float
    next_boundary: Boundary | None = None
    next_state: State = "residual"
    next_error: float | None = None
    is_it: bool = False

    @property
    def tap(self) -> Tap:
        """The nearest as a tap."""
        return Tap(self.boundary, self.state)


class TapComparison(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One tap: what it should be, and whether it is.

    Attributes:
        boundary: The fingerprint's boundary.
        state: Which state of it.
        found: `SAME`, `DIFFERENT` or `UNKNOWN`.
        error: Median over the rows of the projections' relative error.
        tolerance: What dtypes and depth explain.
        rows: Rows compared; that of the first position is not, unless it is the only one.
        rows_near: Rows nearer than half of what separates this state from the one that is hardest to tell from it.
        norm_ratio: Median of the rows' norms over those recorded.
        resembles: The nearest state of the target.
        reason: Why it cannot be told, or "".
        settle: What would settle that, or "".
    """

    boundary: Boundary
    state: State = "residual"
    found: Literal["same", "not the same", "unknown"]
    error: float
    tolerance: float
    rows: int
    rows_near: int
    norm_ratio: float
    resembles: Resemblance
    reason: str = ""
    settle: str = ""

    @property
    def tap(self) -> Tap:
        """What it should be."""
        return Tap(self.boundary, self.state)


def compare(
    fingerprint: FingerprintRecord,
    states: Sequence[torch.Tensor],
    tokens: torch.Tensor | Sequence[int],
    *,
    most: float | None = None,
) -> tuple[TapComparison, ...]:
    """Hold states against a fingerprint, tap by tap.

    Args:
        fingerprint: The record.
        states: One [R, H] per tap, in ascending layer order, as engines concatenate them.
        tokens: The R tokens that they are of: the probe, or its end, where an engine had the beginning in its cache.
        most: Tolerance, instead of what dtypes and depth explain.

    Raises:
        SampleError: Other tokens, another number of states, or states of another shape.
        DegenerateSampleError: Numbers that are not finite.
    """
    start = _first_row(fingerprint, tokens)
    if len(states) != len(fingerprint.taps):
        raise SampleError("one state per tap", expected=str(len(fingerprint.taps)), actual=str(len(states)))
    landmarks = Landmarks(fingerprint)
    return tuple(
        _compared(tap, _checked(fingerprint, given, tap, start), start, landmarks, most)
        for tap, given in zip(fingerprint.taps, states, strict=True)
    )


def resemblances(
    fingerprint: FingerprintRecord, states: Sequence[torch.Tensor], tokens: torch.Tensor | Sequence[int]
) -> tuple[Resemblance, ...]:
    """What each of some states resembles, where they are not one per tap.

    Args:
        fingerprint: The record.
        states: [R, H] each; the last row is the last token of the probe.
        tokens: The R tokens that they are of.

    Raises:
        SampleError: See `compare`.
        DegenerateSampleError: See `compare`.
    """
    _first_row(fingerprint, tokens)
    landmarks = Landmarks(fingerprint)
    where = "state {} of those given"
    for number, given in enumerate(states):
        _check(given, (given.shape[0], fingerprint.width), where.format(number))
    return tuple(landmarks.nearest(project(given[-1:])[0]) for given in states)


class Landmarks:
    """The last token's projection at every state that a fingerprint knows of."""

    def __init__(self, fingerprint: FingerprintRecord) -> None:
        known = {Tap(tap.boundary, tap.state): decode(tap.projection)[-1] for tap in fingerprint.taps}
        if fingerprint.landmarks:
            rows = decode(fingerprint.landmarks)
            marks = zip(landmark_taps(fingerprint.layers), rows, strict=True)
            # A target with several streams has one state per boundary: the tap's own name for it stays.
            named = {tap.boundary for tap in known if tap.state not in ("residual", "final_norm")}
            known |= {tap: row for tap, row in marks if tap.state == "final_norm" or tap.boundary not in named}
        self.whole = bool(fingerprint.landmarks)
        self.taps = tuple(sorted(known))
        self.rows = torch.stack([known[tap] for tap in self.taps])
        self.roundings = Roundings(fingerprint, self.taps, self.rows.norm(dim=1))

    def gap(self, tap: Tap) -> float:
        """Relative error between a state and the one that is hardest to tell from it; 1 if there is no other."""
        at = self.taps.index(tap)
        others = [number for number in range(len(self.taps)) if number != at]
        errors = _errors(self.rows[others], self.rows[at].expand(len(others), -1))
        return min(1.0, float(errors.min())) if others else 1.0

    def nearest(self, row: torch.Tensor) -> Resemblance:
        """The state that a projection [64] is nearest to."""
        errors = _errors(row.expand_as(self.rows), self.rows)
        order = torch.argsort(errors).tolist()
        first, error = self.taps[order[0]], float(errors[order[0]])
        second = self.taps[order[1]] if len(order) > 1 else None
        behind = 1.0 if second is None else float(errors[order[1]])
        return Resemblance(
            boundary=first.boundary,
            state=first.state,
            error=error,
            next_boundary=None if second is None else second.boundary,
            next_state="residual" if second is None else second.state,
            next_error=None if second is None else behind,
            is_it=error <= behind / 2 and behind > 0,
        )


def _compared(
    one: TapFingerprint,
    given: torch.Tensor,
    start: int,
    landmarks: Landmarks,
    most: float | None,
) -> TapComparison:
    tap, projected = Tap(one.boundary, one.state), project(given)
    # Whatever token comes first draws attention: its state is large, and much the same at every layer.
    skip = 1 if start == 0 and len(given) > 1 else 0
    errors = _errors(projected, decode(one.projection)[start:])[skip:]
    norms = given.to(torch.float64).norm(dim=1)[skip:]
    recorded = torch.tensor(one.norms[start:], dtype=torch.float64)[skip:].clamp_min(torch.finfo(torch.float64).tiny)
    nearest, gap = landmarks.nearest(projected[-1]), landmarks.gap(tap)
    allowed = landmarks.roundings.tolerance(tap, given) if most is None else most
    # Whatever dtypes explain: nearer to another state is not this one. Of a state that is not known, least is assumed.
    allowed = min(allowed, gap / 2 if landmarks.whole or most is not None else min(gap, STEP) / 2)
    error, near = float(errors.median()), int((errors <= gap / 2).sum())
    found, reason, settle = _judged(tap, error <= allowed, gap, near / len(errors), nearest)
    if found == UNKNOWN and not landmarks.whole and error > allowed:
        reason = "near to this state, and the fingerprint does not know the layers beside it"
        settle = "a fingerprint from a capture that holds every boundary; or, if that error is meant, --tolerance"
    if found == SAME and _others(one, given, start, skip) > _OTHERS * allowed:
        found, reason = UNKNOWN, "it has the fingerprint's projections, and not its norms or first elements"
        settle = "make the fingerprint again: it was changed, or its parts are of different states"
    return TapComparison(
        boundary=one.boundary,
        state=one.state,
        found=found,
        error=error,
        tolerance=allowed,
        rows=len(errors),
        rows_near=near,
        norm_ratio=float((norms / recorded).median()),
        resembles=nearest,
        reason=reason,
        settle=settle,
    )


def _judged(
    tap: Tap, within: bool, gap: float, near: float, nearest: Resemblance
) -> tuple[Literal["same", "not the same", "unknown"], str, str]:
    if gap == 0.0:
        reason = "the fingerprint has the same state at another boundary"
        return UNKNOWN, reason, "make the fingerprint with the target's real weights"
    if within:
        if near >= _ROWS:
            return SAME, "", ""
        reason = "some tokens have this state and others do not"
        return UNKNOWN, reason, "send the probe alone, as one request, with nothing of it cached"
    if nearest.tap == tap and nearest.is_it:
        reason = "nearer to this state than to any other, and farther than dtypes explain"
        return UNKNOWN, reason, "are the weights the same, and not quantised? if so, or if meant: --tolerance"
    return DIFFERENT, "", ""


def _others(one: TapFingerprint, given: torch.Tensor, start: int, skip: int) -> float:
    """Median over the rows of how far norm and first elements are from those kept: no row's is above its error."""
    wide, least = given.to(torch.float64)[skip:], torch.finfo(torch.float64).tiny
    kept = torch.tensor(one.norms[start:], dtype=torch.float64)[skip:]
    first = torch.tensor(one.first[start:], dtype=torch.float64)[skip:]
    apart = torch.maximum((wide.norm(dim=1) - kept).abs(), (wide[:, : first.shape[1]] - first).norm(dim=1))
    return float((apart / kept.clamp_min(least)).median())


def _errors(given: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Relative error row by row, [R]; against a row of zeros it is 0 or 1."""
    apart, norm = (given - reference).norm(dim=1), reference.norm(dim=1)
    return torch.where(norm > 0, apart / norm.clamp_min(torch.finfo(torch.float64).tiny), (apart > 0).double())


def _first_row(fingerprint: FingerprintRecord, tokens: torch.Tensor | Sequence[int]) -> int:
    given = tuple(tokens.tolist() if isinstance(tokens, torch.Tensor) else tokens)
    start = len(fingerprint.tokens) - len(given)
    if start < 0 or not given or given != fingerprint.tokens[start:]:
        raise SampleError(
            "the states are of other tokens than the fingerprint's",
            expected=_listed(fingerprint.tokens),
            actual=_listed(given),
        )
    return start


def _listed(tokens: tuple[int, ...]) -> str:
    shown = ",".join(map(str, tokens[:16]))
    return f"{shown} and {len(tokens) - 16} more" if len(tokens) > 16 else shown or "none"


def _checked(fingerprint: FingerprintRecord, given: torch.Tensor, tap: TapFingerprint, start: int) -> torch.Tensor:
    shape = (len(fingerprint.tokens) - start, fingerprint.width)
    _check(given, shape, Tap(tap.boundary, tap.state).label())
    return given


def _check(given: torch.Tensor, shape: tuple[int, int], where: str) -> None:
    if tuple(given.shape) != shape or not shape[0]:
        raise SampleError(
            "the states have another shape", where=where, expected=str(list(shape)), actual=str(list(given.shape))
        )
    if not bool(torch.isfinite(given).all()):
        raise DegenerateSampleError("the states hold numbers that are not finite", where=where)
