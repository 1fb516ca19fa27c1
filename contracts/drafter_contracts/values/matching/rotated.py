"""A recorded state in another basis: told by its Gram matrix, which no orthogonal map changes.

A map fitted to T rows explains any T <= H rows, so none is fitted: X X^T and R R^T are equal if and only if X = R Q for
some orthogonal Q. Of rows divided by their norms they hold T (T - 1) / 2 cosines.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from drafter_contracts.layout import Tap
from drafter_contracts.values.matching.decide import Candidate
from drafter_contracts.values.matching.recorded import Recorded
from drafter_contracts.values.matching.rows import Overlap, quantile

#: Rows whose cosines are compared, evenly spaced; with fewer than the second number too little is known.
_ROWS = 128
LEAST_ROWS = 8


@dataclass(frozen=True)
class Gram:
    """Some rows of a state, as far as no rotation changes them.

    Attributes:
        cosines: [R, R]: of every row with every other; the diagonal is zero.
        shared: [R, R]: sum over channels of the product of the two rows' shares of their squared norms: 1 / H where
            they are spread evenly, 1 where both lie in one channel.
        norms: [R].
    """

    cosines: torch.Tensor
    shared: torch.Tensor
    norms: torch.Tensor


def rotated(recorded: Recorded) -> list[Candidate]:
    """Every state of the reference as a candidate for a rotated and scaled recorded state.

    Args:
        recorded: The recorded state.

    Returns:
        Candidates whose errors are the larger of the cosines' and the norms'; empty where there are too few rows.
    """
    found = []
    for overlap in recorded.overlaps.values():
        chosen = _chosen(overlap)
        if len(chosen) < LEAST_ROWS:
            continue
        ours = _gram(recorded.state, chosen)
        for index, tap in enumerate(recorded.reference.taps):
            theirs = _gram(recorded.reference.state(index), chosen + overlap.shift)
            noise = recorded.noise(index, overlap, mapped=True)[chosen - overlap.start]
            found.append(_candidate(tap, overlap, chosen, ours, theirs, noise))
    return found


def _chosen(overlap: Overlap) -> torch.Tensor:
    """Rows of the sample, evenly spaced."""
    step = max(1, (overlap.stop - overlap.start) // _ROWS)
    return torch.arange(overlap.start, overlap.stop, step)[:_ROWS]


def _gram(state: torch.Tensor, chosen: torch.Tensor) -> Gram:
    wide = state[chosen].to(torch.float32)
    norms = wide.norm(dim=1)
    wide /= norms[:, None]
    cosines = (wide @ wide.T).fill_diagonal_(0.0)
    shares = wide.square_()
    return Gram(cosines, shares @ shares.T, norms)


def _rms(values: torch.Tensor) -> torch.Tensor:
    """Root mean square along the rows, the diagonal (which is zero) not counted."""
    return (values.square().sum(1) / max(1, values.shape[1] - 1)).sqrt()


def _candidate(
    tap: Tap, overlap: Overlap, chosen: torch.Tensor, ours: Gram, theirs: Gram, noise: torch.Tensor
) -> Candidate:
    """Errors of cosines and norms, brought to the scale of one row's noise.

    A row's noise moves its cosine with another by its part along that other. Roundings are independent by channel and
    no larger there than in proportion to the row or spread evenly: that part is the root of `shared`, at most.
    """
    shared = torch.maximum(ours.shared, theirs.shared)
    allowed = ((noise[:, None].square() + noise[None, :].square()) * shared).sqrt()
    cosine_errors = _rms((ours.cosines - theirs.cosines) / allowed) * noise
    ratios = ours.norms / theirs.norms
    scale = quantile(ratios, 0.5)
    # A norm moves by the part of the noise along the row itself, and to second order by the rest.
    along = noise * shared.diagonal().sqrt() + noise.square() / 2
    errors = torch.maximum(cosine_errors, (ratios / scale - 1.0).abs() / along * noise)
    return Candidate(
        tap=tap,
        shift=overlap.shift,
        errors=errors,
        noise=noise,
        start=overlap.start,
        scale=scale,
        step=int(chosen[1] - chosen[0]),
    )
