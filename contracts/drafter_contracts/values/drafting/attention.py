"""Attention of rows that are drafted in parallel, as if each had been drafted alone ("training-time test").

The row t of step 1 sees rows 0 to t of step 1. In step j it sees those same entries and its own of steps 2 to j: what
a drafter that starts from row t and drafts j tokens one after another has in its cache. Entries that other rows
drafted are never in it, because an engine drops them after verification.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

#: Most scores of one block of rows, elements (128 MiB in float32).
SCORES_MAX = 1 << 25


class Entries:
    """Keys and values of one layer, one pair per step so far: each [key heads, rows, width]."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def add(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Take the next step's."""
        self.keys.append(keys)
        self.values.append(values)


def blocks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """First row and the one after the last of consecutive blocks."""
    for start in range(0, rows, size):
        yield start, min(start + size, rows)


def block_rows(rows: int, heads: int, most: int) -> int:
    """Rows of a block whose scores against all earlier rows stay below `SCORES_MAX`; at most `most`."""
    return max(1, min(most, SCORES_MAX // max(1, heads * rows)))


def attend(queries: torch.Tensor, entries: Entries, start: int) -> torch.Tensor:
    """What a block of rows of the newest step reads.

    Args:
        queries: [heads, block, width], turned by their positions.
        entries: With the newest step's entries in it.
        start: Row of the first query.

    Returns:
        [block, heads * width].
    """
    heads, size, width = queries.shape
    stop = start + size
    past, past_values = entries.keys[0][:, :stop], entries.values[0][:, :stop]
    groups = past.shape[0]
    grouped = queries.reshape(groups, heads // groups, size, width) * width**-0.5
    scores = (grouped.flatten(1, 2) @ past.transpose(1, 2)).view(groups, -1, size, stop)
    later = torch.arange(stop) > torch.arange(start, stop)[:, None]
    scores = scores.masked_fill_(later, float("-inf"))
    own = [(grouped * keys[:, None, start:stop]).sum(-1, keepdim=True) for keys in entries.keys[1:]]
    weights = torch.softmax(torch.cat((scores, *own), dim=-1), dim=-1, dtype=torch.float32).to(queries.dtype)
    read = (weights[..., :stop].flatten(1, 2) @ past_values).view(groups, -1, size, width)
    for step, values in enumerate(entries.values[1:]):
        read = read + weights[..., stop + step, None] * values[:, None, start:stop]
    return read.reshape(heads, size, width).transpose(0, 1).reshape(size, heads * width)
