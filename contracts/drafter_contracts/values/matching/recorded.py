"""One recorded state beside every state of a reference: errors estimated for all, exact for the few that matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from drafter_contracts.values.matching import rows
from drafter_contracts.values.matching.decide import Candidate
from drafter_contracts.values.matching.reference import Reference
from drafter_contracts.values.matching.roundoff import Arithmetic, arithmetic, factor
from drafter_contracts.values.matching.rows import Fit, Overlap

#: States whose error is computed exactly: the nearest by estimate, and all that are this near to their tolerance.
NEAREST = 3
_NEAR = 1.5

#: Errors and, where one factor holds for all rows, that factor.
Measure = Callable[[Fit], tuple[torch.Tensor, float | None]]


def plain(fitted: Fit) -> tuple[torch.Tensor, float | None]:
    """Errors of the state as it is."""
    return fitted.plain, None


def scaled(fitted: Fit) -> tuple[torch.Tensor, float | None]:
    """Errors after one scaling for all rows: the median row's."""
    scale = rows.quantile(fitted.along, 0.5)
    return fitted.scaled(scale), scale


def scaled_by_row(fitted: Fit) -> tuple[torch.Tensor, float | None]:
    """Errors after a scaling of each row, as quantisation by row leaves them; the median row's factor."""
    return fitted.scaled(fitted.along), rows.quantile(fitted.along, 0.5)


@dataclass
class Recorded:
    """One recorded state.

    Attributes:
        state: [T, H].
        reference: What it is compared with.
        overlaps: Rows that both have, per shift.
        made: How it was recorded.
        norms: float32 [T].
        small: float32 [R, 64].
        exact: Exact fits so far, by state and shift.
    """

    state: torch.Tensor
    reference: Reference
    overlaps: dict[int, Overlap]
    made: Arithmetic
    norms: torch.Tensor
    small: torch.Tensor
    exact: dict[tuple[int, int], Fit] = field(default_factory=dict)

    def estimate(self, index: int, overlap: Overlap) -> Fit | None:
        """The fit to a state by projections, of the first rows; None if these are not both there."""
        theirs = self.reference.small[index]
        stop = min(overlap.stop, len(self.small))
        if stop <= overlap.start:
            return None
        return rows.fit(self.small, theirs, Overlap(overlap.start, stop, overlap.shift))

    def noise(
        self, index: int, overlap: Overlap, *, mapped: bool = False, made: Arithmetic | None = None
    ) -> torch.Tensor:
        """[T]: what the dtypes explain; had the state been `made` in another way, if that is given."""
        travel, norms = self.reference.travel, self.norms[overlap.rows]
        made = made or self.made
        return travel.noise(index, overlap.reference_rows, made, self.reference.made, norms, mapped=mapped)

    def tolerance(self, candidate: Candidate, made: Arithmetic) -> float:
        """A candidate's tolerance, had the state been recorded in another way."""
        index = self.reference.taps.index(candidate.tap)
        noise = self.noise(index, self.overlaps[candidate.shift], made=made)
        return factor(0.5, len(noise)) * rows.quantile(noise, 0.5)

    def candidate(self, index: int, overlap: Overlap, measure: Measure) -> Candidate:
        """A state as a candidate, by exact errors."""
        key = (index, overlap.shift)
        if key not in self.exact:
            self.exact[key] = rows.fit(self.state, self.reference.state(index), overlap)
        errors, scale = measure(self.exact[key])
        return Candidate(
            tap=self.reference.taps[index],
            shift=overlap.shift,
            errors=errors,
            noise=self.noise(index, overlap, mapped=scale is not None),
            start=overlap.start,
            scale=scale,
        )

    def estimates(self, measure: Measure) -> dict[tuple[int, int], float]:
        """Estimated median error by state and shift."""
        found = {}
        for shift, overlap in self.overlaps.items():
            for index in range(len(self.reference.taps)):
                fitted = self.estimate(index, overlap)
                found[index, shift] = rows.quantile(measure(fitted)[0], 0.5) if fitted else 0.0
        return found

    def candidates(self, measure: Measure) -> list[Candidate]:
        """The states that it may be, and the nearest others, by exact errors."""
        estimates = self.estimates(measure)
        nearest = sorted(estimates, key=estimates.__getitem__)
        unshifted = [key for key in nearest if not key[1]]
        chosen = dict.fromkeys(nearest[:NEAREST] + unshifted[:NEAREST])
        for index, shift in nearest:
            noise = self.noise(index, self.overlaps[shift], mapped=True)
            tolerance = factor(0.5, len(noise)) * rows.quantile(noise, 0.5)
            if estimates[index, shift] <= _NEAR * tolerance:
                chosen[index, shift] = None
        return [self.candidate(index, self.overlaps[shift], measure) for index, shift in chosen]


def record(state: torch.Tensor, reference: Reference, max_shift: int) -> Recorded:
    """Read a recorded state once.

    Args:
        state: [T, H].
        reference: What it is compared with.
        max_shift: Rows that it may be shifted by.
    """
    norms, small = rows.project(state, reference.signs, rows.ESTIMATED_ROWS)
    return Recorded(
        state=state,
        reference=reference,
        overlaps=rows.overlaps(len(state), len(reference.capture.tokens), max_shift),
        made=arithmetic(state),
        norms=norms,
        small=small,
    )
