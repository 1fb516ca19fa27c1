"""Standard errors of means over rows that depend on each other.

Neighbouring rows draft mostly the same tokens, and a passage has easy and hard stretches: R rows are worth far fewer
independent ones. So the rows are put together to blocks of neighbours (batch means), and what differs between blocks is
the error. A block has as many rows as there are blocks, sqrt(R), and never fewer than two steps' worth; none crosses
from one passage into the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import torch

#: Fewer blocks tell nothing of how far they differ.
FEWEST_BLOCKS = 8
#: One-sided chance of a false answer that is accepted: three standard errors of one comparison.
_CHANCE = 1 - NormalDist().cdf(3.0)


def block_rows(rows: int, steps: int) -> int:
    """Rows of one block, for that many rows in all passages together."""
    return max(2 * steps, math.isqrt(rows))


def block_numbers(passages: Sequence[torch.Tensor], steps: int) -> torch.Tensor:
    """Number of each counted row's block.

    Args:
        passages: Per passage, bool [R]: the rows that count.
        steps: Drafted tokens.

    Returns:
        int64 [counted rows of all passages], from 0 without gaps. What is left at a passage's end joins its last block.
    """
    length = block_rows(sum(int(counted.sum()) for counted in passages), steps)
    numbers: list[torch.Tensor] = []
    first = 0
    for counted in passages:
        blocks = max(len(counted) // length, 1)
        own = (torch.arange(len(counted)) // length).clamp(max=blocks - 1)
        numbers.append(first + own[counted])
        first += blocks
    _, without_gaps = torch.unique(torch.cat(numbers), return_inverse=True)
    return torch.as_tensor(without_gaps)


def mean_and_error(values: torch.Tensor, blocks: torch.Tensor) -> tuple[float, float]:
    """Mean of values over all rows, and its standard error by blocks.

    The mean is a ratio of two sums, values and rows, as blocks need not have equal rows.

    Args:
        values: [rows].
        blocks: int64 [rows], from `block_numbers`.

    Returns:
        The mean and its error; 0 as error where there is one block only (see `FEWEST_BLOCKS`).
    """
    values = values.double()
    mean = float(values.mean())
    count = int(blocks.max()) + 1
    if count < 2:
        return mean, 0.0
    excess = torch.zeros(count, dtype=torch.float64).index_add_(0, blocks, values - mean)
    error = math.sqrt(count / (count - 1) * float(excess.square().sum())) / len(values)
    return mean, error


def needed_errors(blocks: int, comparisons: int) -> float:
    """How many standard errors a difference must have.

    Three for one comparison; more for several, so that one of them is wrong as rarely (Bonferroni); and more for few
    blocks, whose standard error is itself uncertain (Student's t, the first terms of its expansion around the normal).

    Args:
        blocks: Blocks there are, 2 or more.
        comparisons: Comparisons made, 1 or more.
    """
    z = NormalDist().inv_cdf(1 - _CHANCE / comparisons)
    free = blocks - 1
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
