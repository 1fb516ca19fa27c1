"""Rows of recorded states beside rows of the reference: which belong together, and how far apart they are.

No state is ever copied as a whole: rows are widened to float32 a block at a time. Shapes: T rows, H width, D = 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from drafter_contracts.errors import CaptureError

#: Dimensions of the random projection; an estimate of one row's error is then off by 9 % (root of 2 / D, halved).
DIMENSIONS = 64
#: Rows from which errors are estimated; the exact ones are of all rows.
ESTIMATED_ROWS = 1024
#: Elements of a block.
_BLOCK = 1 << 20
_SEED = 0


@dataclass(frozen=True)
class Overlap:
    """Rows start .. stop - 1 of the sample, each beside row + shift of the reference."""

    start: int
    stop: int
    shift: int

    @property
    def rows(self) -> slice:
        """Of the sample."""
        return slice(self.start, self.stop)

    @property
    def reference_rows(self) -> slice:
        """Of the reference."""
        return slice(self.start + self.shift, self.stop + self.shift)


def overlaps(sample_rows: int, reference_rows: int, max_shift: int) -> dict[int, Overlap]:
    """Per shift, unshifted first, the rows that both have. Shifts that leave none are left out."""
    found = {}
    for shift in sorted(range(-max_shift, max_shift + 1), key=abs):
        start, stop = max(0, -shift), min(sample_rows, reference_rows - shift)
        if stop > start:
            found[shift] = Overlap(start, stop, shift)
    return found


def check_tokens(tokens: torch.Tensor, reference: torch.Tensor, max_shift: int) -> None:
    """That a sample and a reference are of the same tokens, at some shift; one of them may be longer.

    Args:
        tokens: int64 [T] of the sample.
        reference: int64 [T'] of the reference.
        max_shift: Largest shift.

    Raises:
        CaptureError: They are not.
    """
    for overlap in overlaps(len(tokens), len(reference), max_shift).values():
        if torch.equal(tokens[overlap.rows], reference[overlap.reference_rows]):
            return
    both = min(len(tokens), len(reference))
    if not both:
        raise CaptureError("there are no tokens to compare", where="tokens", expected="at least one", actual="none")
    row = int((tokens[:both] != reference[:both]).nonzero()[0])
    raise CaptureError(
        f"the reference's tokens are not the sample's, nor these shifted by up to {max_shift}: row {row} differs first",
        where="tokens",
        expected=f"token {int(tokens[row])}",
        actual=f"token {int(reference[row])}",
    )


def blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Rows start .. stop - 1 in blocks of about a million elements."""
    step = max(1, _BLOCK // width)
    for row in range(start, stop, step):
        yield slice(row, min(row + step, stop))


def projection(width: int) -> torch.Tensor:
    """float32 [H, D] of random signs over the root of D: lengths are kept on average (Achlioptas 2003)."""
    generator = torch.Generator().manual_seed(_SEED)
    signs = torch.randint(0, 2, (width, DIMENSIONS), generator=generator, dtype=torch.int8)
    return signs.to(torch.float32).mul_(2).sub_(1).div_(DIMENSIONS**0.5)


def project(state: torch.Tensor, signs: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm of every row, and the first rows projected.

    Args:
        state: [T, H].
        signs: float32 [H, D].
        rows: How many to project.

    Returns:
        float32 [T]; float32 [min(T, rows), D].
    """
    norms, small = [], []
    for block in blocks(0, len(state), state.shape[1]):
        wide = state[block].to(torch.float32)
        norms.append(wide.norm(dim=1))
        if block.start < rows:
            small.append(wide[: rows - block.start] @ signs)
    return torch.cat(norms), torch.cat(small)


@dataclass(frozen=True)
class Fit:
    """How a state lies to one of the reference's, row by row: as it is, and after the best scaling of each row.

    Attributes:
        plain: [T]: norm of the difference over norm of the reference's row.
        along: [T]: the factor of the reference's row that comes nearest.
        across: [T]: norm of what then remains, over the norm of the reference's row.
    """

    plain: torch.Tensor
    along: torch.Tensor
    across: torch.Tensor

    def scaled(self, scale: torch.Tensor | float) -> torch.Tensor:
        """[T]: the errors where the reference is multiplied by `scale` first, relative to that."""
        scale = torch.as_tensor(scale)
        return (self.across.square() + (self.along - scale).square()).sqrt() / scale.abs()


def fit(state: torch.Tensor, reference: torch.Tensor, overlap: Overlap) -> Fit:
    """How the rows of a state lie to those of one of the reference's.

    Args:
        state: [T, H].
        reference: [T', H].
        overlap: Which rows.
    """
    plain, along, across = [], [], []
    for block in blocks(overlap.start, overlap.stop, state.shape[1]):
        ours = state[block].to(torch.float32)
        theirs = reference[block.start + overlap.shift : block.stop + overlap.shift].to(torch.float32)
        squares = theirs.square().sum(1)
        factors = (ours * theirs).sum(1) / squares
        rest = torch.addcmul(ours, theirs, factors[:, None], value=-1)
        plain.append((ours - theirs).norm(dim=1) / squares.sqrt())
        along.append(factors)
        across.append(rest.norm(dim=1) / squares.sqrt())
    return Fit(torch.cat(plain), torch.cat(along), torch.cat(across))


def quantile(errors: torch.Tensor, part: float) -> float:
    """The error that this part of the finite rows does not exceed; infinite if fewer than half of them are finite."""
    finite = errors[torch.isfinite(errors)]
    if 2 * len(finite) < len(errors) or not len(finite):
        return float("inf")
    place = min(len(finite) - 1, int(part * len(finite)))
    return float(finite.sort().values[place])
