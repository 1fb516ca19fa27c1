"""The rule: when a recorded state is one of the reference's, and when that cannot be told (docs/tolerances.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from drafter_contracts.layout import FINAL_NORM, Tap, describe_taps
from drafter_contracts.values.matching.roundoff import factor
from drafter_contracts.values.matching.rows import quantile

#: An error of at most a third of the runner-up's lies, by the triangle inequality, within half of the distance between
#: the two states of the reference, where no third state can be nearer.
MARGIN = 3.0
#: Relative distance by which a layer moves the stream, at the least: of a neighbour that the reference lacks, nothing
#: else is known. The nearest two of SmolLM2-135M are 0.04 apart (docs/tolerances.md).
STEP = 0.02
#: Rows from which a half and nine in ten of them mean something.
FEW_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One state of the reference that a recorded state may be.

    Attributes:
        tap: The state.
        shift: Row t of the sample beside row t + shift.
        errors: [T]: relative error of every row compared.
        noise: [T]: root mean square of what the dtypes explain.
        start: Row of the sample that is the first compared.
        scale: Factor of the reference that was applied first.
        step: Rows of the sample from one row compared to the next.
    """

    tap: Tap
    shift: int
    errors: torch.Tensor
    noise: torch.Tensor
    start: int = 0
    scale: float | None = None
    step: int = 1

    @cached_property
    def error(self) -> float:
        """The median row's error: neither a row of a thousand times the norm nor a damaged one moves it."""
        return quantile(self.errors, 0.5)

    @cached_property
    def tolerance(self) -> float:
        """What half of the rows do not exceed where the states are the same."""
        return factor(0.5, len(self.errors)) * quantile(self.noise, 0.5)

    @property
    def fits(self) -> bool:
        """The recorded state may be this one."""
        return self.error <= self.tolerance

    def label(self) -> str:
        """The tap, and the shift if there is one."""
        if not self.shift:
            return self.tap.label()
        plural, side = "s" * (abs(self.shift) > 1), "later" if self.shift > 0 else "earlier"
        return f"{self.tap.label()} {abs(self.shift)} token{plural} {side}"

    def outliers(self) -> Outliers | None:
        """Rows that are not of this state, though the median row is."""
        ratios = torch.nan_to_num(self.errors / self.noise, nan=0.0, posinf=0.0)
        rows = len(ratios)
        for part in (1.0, 0.9):
            limit = factor(part, rows)
            beyond = (ratios > limit).nonzero().flatten()
            if len(beyond) > rows - int(part * rows):
                worst = int(ratios.argmax())
                row = self.start + self.step * worst
                return Outliers(len(beyond), row, float(self.errors[worst]), limit * float(self.noise[worst]))
        return None


@dataclass(frozen=True)
class Outliers:
    """Rows that lie further from a state than its dtype explains.

    Attributes:
        count: How many.
        row: The worst of them, a row of the sample.
        error: Its error.
        tolerance: What would be explained.
    """

    count: int
    row: int
    error: float
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the candidates say.

    Attributes:
        best: The nearest.
        runner: The next, of another tap or shift; None if there is no other.
        error: The figure that decided.
        tolerance: What it was held against.
        fits: How many the recorded state may be.
        reason: Why it is none, or "".
        crowded: It may be several, or the runner-up is too near.
        damaged: Single rows are of another state.
        absent: States beside the best that the reference lacks, and that it may as well be.
    """

    best: Candidate
    runner: Candidate | None
    error: float
    tolerance: float
    fits: int = 0
    reason: str = ""
    crowded: bool = False
    damaged: bool = False
    absent: tuple[Tap, ...] = ()

    @property
    def found(self) -> bool:
        """The recorded state is the best candidate."""
        return not self.reason

    @property
    def alone(self) -> bool:
        """No other state of the reference is near the best candidate, as errors go."""
        return self.runner is None or self.runner.error >= MARGIN * self.best.error


def decide(candidates: Sequence[Candidate]) -> Decision:
    """Which candidate a recorded state is, if it is exactly one.

    It is, if half of its rows lie within the tolerance of that one and of no other, the runner-up is three times as
    far, and no row is further off than a row of that many ever is.

    Args:
        candidates: At least one.
    """
    order = sorted(candidates, key=lambda candidate: (candidate.error, abs(candidate.shift)))
    fitting = [candidate for candidate in order if candidate.fits]
    best = fitting[0] if fitting else order[0]
    others = [candidate for candidate in (fitting[1:] or order) if candidate is not best]
    runner = others[0] if others else None
    plain = Decision(best=best, runner=runner, error=best.error, tolerance=best.tolerance, fits=len(fitting))
    if not fitting:
        reason = (
            f"it is none of the reference's states: the nearest, {best.label()}, is {best.error:.2g} away, "
            f"and {best.tolerance:.2g} is what the dtypes explain"
        )
        return replace(plain, reason=reason)
    if len(fitting) > 1:
        return replace(plain, reason=_several(fitting), crowded=True)
    if runner is not None and not plain.alone:
        reason = (
            f"{best.label()} is {best.error:.2g} away and {runner.label()} {runner.error:.2g}: "
            f"less than {MARGIN:.0f} times as far, so it lies between them"
        )
        return replace(plain, reason=reason, crowded=True)
    outliers = best.outliers()
    if outliers is None:
        return plain
    reason = (
        f"{outliers.count} of {len(best.errors)} rows compared are not of {best.label()} as the others are: row "
        f"{outliers.row} is {outliers.error:.2g} away, and {outliers.tolerance:.2g} is what the dtypes explain"
    )
    return replace(plain, error=outliers.error, tolerance=outliers.tolerance, reason=reason, damaged=True)


def beside_absent(decision: Decision, missing: Sequence[Tap]) -> Decision:
    """The decision where the reference lacks a boundary beside the best: that one would be the runner-up.

    Args:
        decision: What the reference's states say.
        missing: States that the reference lacks.
    """
    at = decision.best.tap
    absent = tuple(
        tap for tap in missing if FINAL_NORM not in (tap.state, at.state) and abs(at.boundary - tap.boundary) == 1
    )
    if not decision.found or not absent or MARGIN * decision.error <= STEP:
        return decision
    reason = (
        f"{decision.best.label()} is {decision.error:.2g} away, and {describe_taps(absent)} may be nearer: "
        "not in the reference"
    )
    return replace(decision, reason=reason, absent=absent)


def _several(fitting: list[Candidate]) -> str:
    named = "; ".join(f"{candidate.label()}, {candidate.error:.2g} away" for candidate in fitting[:3])
    more = f"; and {len(fitting) - 3} more" if len(fitting) > 3 else ""
    return f"it may be any of {named}{more}: the dtypes explain {fitting[0].tolerance:.2g}"
