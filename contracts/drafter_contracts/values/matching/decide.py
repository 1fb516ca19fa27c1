"""The rule: when a recorded state is one of the reference's, and when that cannot be told (docs/tolerances.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from drafter_contracts.layout import Tap
from drafter_contracts.values.matching.roundoff import factor
from drafter_contracts.values.matching.rows import quantile

#: An error of at most a third of the runner-up's lies, by the triangle inequality, within half of the distance between
#: the two states of the reference, where no third state can be nearer.
MARGIN = 3.0
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
        return f"{self.tap.label()} {abs(self.shift)} token{'s' * (abs(self.shift) > 1)} {_side(self.shift)}"

    def outliers(self) -> Outliers | None:
        """Rows that are not of this state, though the median row is."""
        ratios = torch.where(torch.isfinite(self.errors), self.errors / self.noise, torch.zeros(()))
        rows = len(ratios)
        for part in (1.0, 0.9):
            limit = factor(part, rows)
            beyond = (ratios > limit).nonzero().flatten()
            if len(beyond) > rows - int(part * rows):
                worst = int(ratios.argmax()) if part == 1.0 else int(beyond[ratios[beyond].argsort()[len(beyond) // 2]])
                row = self.start + self.step * worst
                return Outliers(len(beyond), row, float(self.errors[worst]), limit * float(self.noise[worst]))
        return None


@dataclass(frozen=True)
class Outliers:
    """Rows that lie further from a state than its dtype explains.

    Attributes:
        count: How many.
        row: One of them, a row of the sample.
        error: Its error.
        tolerance: What would be explained.
    """

    count: int
    row: int
    error: float
    tolerance: float


def _side(shift: int) -> str:
    return "later" if shift > 0 else "earlier"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the candidates say.

    Attributes:
        best: The nearest.
        runner: The next, of another tap or shift; None if there is no other.
        fits: How many the recorded state may be.
        error: The figure that decided.
        tolerance: What it was held against.
        reason: Why it is none, or "".
        crowded: It may be several, or the runner-up is too near.
        damaged: Single rows are of another state.
    """

    best: Candidate
    runner: Candidate | None
    fits: int
    error: float
    tolerance: float
    reason: str = ""
    crowded: bool = False
    damaged: bool = False

    @property
    def found(self) -> bool:
        """The recorded state is the best candidate."""
        return not self.reason


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
    others = [candidate for candidate in order if candidate is not best]
    runner = others[0] if others else None
    error, tolerance = best.error, best.tolerance
    reason, crowded, damaged = "", False, False
    if not fitting:
        reason = (
            f"it is none of the reference's states: the nearest, {best.label()}, is {error:.2g} away, "
            f"and {tolerance:.2g} is what the dtypes explain"
        )
    elif len(fitting) > 1:
        crowded = True
        names = ", ".join(candidate.label() for candidate in fitting[:3])
        more = f" and {len(fitting) - 3} more" if len(fitting) > 3 else ""
        figures = ", ".join(f"{candidate.error:.2g}" for candidate in fitting[:3])
        reason = f"it may be any of {names}{more}: errors {figures}, all within what the dtypes explain ({tolerance:.2g})"
        runner = next(candidate for candidate in fitting if candidate is not best)
    elif runner is not None and runner.error < MARGIN * error:
        crowded = True
        reason = (
            f"{best.label()} is {error:.2g} away and {runner.label()} {runner.error:.2g}: "
            f"less than {MARGIN:.0f} times as far, so it lies between them"
        )
    elif found := best.outliers():
        damaged = True
        error, tolerance = found.error, found.tolerance
        reason = (
            f"{found.count} of {len(best.errors)} rows compared are not of {best.label()} as the others are: row "
            f"{found.row} is {error:.2g} away, and {tolerance:.2g} is what the dtypes explain"
        )
    return Decision(
        best=best,
        runner=runner,
        fits=len(fitting),
        error=error,
        tolerance=tolerance,
        reason=reason,
        crowded=crowded,
        damaged=damaged,
    )
