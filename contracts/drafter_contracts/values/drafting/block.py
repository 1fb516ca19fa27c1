"""DFLASH: a whole block drafted at once from one token and masks. Shapes as in `drafter`; B tokens in a block.

The context of a block that starts after position t are the states of positions 0 to t: fused and normed once, they give
keys and values to every layer, each at its own position, with no token beside them. The block is the token x_{t+1} and
masks, at positions t+1 to t+B; its entries see the context and all of each other. Mask number j predicts x_{t+1+j}.
Source: z-lab/dflash, `dflash/model.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from drafter_contracts.errors import SampleError
from drafter_contracts.values.drafting.attention import SCORES_MAX, blocks
from drafter_contracts.values.drafting.drafter import Drafter
from drafter_contracts.values.drafting.layers import ROWS, Norm

_Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class BlockDrafter(Drafter):
    """A DFLASH drafter. A step is the number of a mask in the block; only the first token of a block is given.

    Attributes:
        context_norm: After `fc`.
        block_size: B, the token that is given included. Always a whole block is drafted, as in training.
        mask_token_id: The token that stands for what is drafted.
    """

    context_norm: Norm
    block_size: int
    mask_token_id: int

    @property
    def most_steps(self) -> int:
        """The masks of a block."""
        return self.block_size - 1

    def _check(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> None:
        super()._check(states, tokens, steps)
        if steps > self.most_steps:
            raise SampleError(
                "does not fit the drafter",
                where="steps",
                expected=f"1 to {self.most_steps}, the masks of a block",
                actual=str(steps),
            )

    def _unrolled(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> Iterator[torch.Tensor]:
        rows, size = len(tokens) - steps, self.block_size
        cosine, sine = self.architecture.rope.angles(rows + size, self.architecture.head_width)
        angles = cosine.to(self.dtype), sine.to(self.dtype)
        context = torch.cat([self.context_norm(self._fused(states[start:stop])) for start, stop in blocks(rows, ROWS)])
        entries = [layer.context(context, (angles[0][:rows], angles[1][:rows])) for layer in self.layers]
        scores = self.architecture.heads * size * (rows + size)
        together = max(1, min(ROWS // size, SCORES_MAX // scores))
        parts = [
            self._drafted(tokens[start + 1 : stop + 1], start, entries, angles)[:, 1 : steps + 1]
            for start, stop in blocks(rows, together)
        ]
        yield from torch.cat(parts).unbind(dim=1)

    def _drafted(self, given: torch.Tensor, start: int, entries: list[_Pair], angles: _Pair) -> torch.Tensor:
        """Normed outputs of consecutive blocks, [blocks, B, H_d].

        Args:
            given: [blocks], the first token of each.
            start: Last position of the first block's context.
            entries: Keys and values of the context, per layer.
            angles: Of all positions.
        """
        size = self.block_size
        tokens = torch.full((len(given), size), self.mask_token_id)
        tokens[:, 0] = given
        places = (torch.arange(start, start + len(given))[:, None] + torch.arange(1, size + 1)).flatten()
        turned = angles[0][places], angles[1][places]
        current = self.embedding[tokens.flatten()].to(self.dtype)
        for layer, context in zip(self.layers, entries, strict=True):
            residual, *own = layer.project(current, None, turned)
            current = layer.finish(residual, attend_blocks(own, context, start, size))
        return self.norm(current).view(len(given), size, -1)


def attend_blocks(own: list[torch.Tensor], context: _Pair, start: int, size: int) -> torch.Tensor:
    """What the entries of consecutive blocks read.

    Args:
        own: Their queries, keys and values, each [heads, blocks * B, width].
        context: Keys and values of the context, each [key heads, positions, width].
        start: Last position that the first block sees of it; each further block sees one more.
        size: B.

    Returns:
        [blocks * B, heads * width].
    """
    heads, rows, width = own[0].shape
    groups, count = own[1].shape[0], rows // size
    stop = start + count
    queries = own[0].reshape(groups, heads // groups, count, size, width) * width**-0.5
    keys, values = (part.reshape(groups, 1, count, size, width) for part in own[1:])
    past = (queries.flatten(1, 3) @ context[0][:, :stop].transpose(1, 2)).view(groups, -1, count, size, stop)
    later = torch.arange(stop) > torch.arange(start, stop)[:, None]
    past = past.masked_fill_(later[:, None], float("-inf"))
    inside = queries @ keys.transpose(-1, -2)
    weights = torch.softmax(torch.cat((past, inside), dim=-1), dim=-1, dtype=torch.float32).to(queries.dtype)
    read = (weights[..., :stop].flatten(1, 3) @ context[1][:, :stop]).view(queries.shape)
    read = read + weights[..., stop:] @ values
    return read.reshape(heads, rows, width).transpose(0, 1).reshape(rows, heads * width)
