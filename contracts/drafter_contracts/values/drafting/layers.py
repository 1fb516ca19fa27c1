"""A drafter's decoder layers on many rows at once. Shapes: R rows, H the drafter's width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from drafter_contracts.values.drafting.attention import Entries, attend, block_rows, blocks
from drafter_contracts.values.drafting.rope import rotate

#: Rows of one block of matrix products: what bounds memory between the layers.
ROWS = 1024
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "swish": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda states: functional.gelu(states, approximate="tanh"),
    "relu": functional.relu,
}


@dataclass(frozen=True)
class Norm:
    """RMSNorm, computed in float32 as Llama's is.

    Attributes:
        weight: [width].
        epsilon: Added to the mean square.
    """

    weight: torch.Tensor
    epsilon: float

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Normed states, in the dtype they came in."""
        exact = states.to(torch.float32)
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * exact.to(states.dtype)


@dataclass(frozen=True)
class Linear:
    """A matrix product with an optional bias.

    Attributes:
        weight: [out, in].
        bias: [out], or None.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None = None

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out]."""
        return functional.linear(states, self.weight, self.bias)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer.

    Attributes:
        query: The first layer reads embedding and state, 2 H wide.
        key: As `query`.
        value: As `query`.
        output: From the heads to H.
        gate: Of the MLP.
        up: Of the MLP.
        down: Of the MLP.
        embedding_norm: Norm of the embedding; None for all layers but the first, which see no embedding.
        state_norm: Norm of the state.
        mlp_norm: Norm before the MLP.
        query_norm: Norm of each head's query, or None.
        key_norm: Norm of each head's key, or None.
        head_width: Of one head.
        activation: A key of `ACTIVATIONS`.
        residual_is_normed: The residual starts from the normed state; only a first layer's ever does.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    gate: Linear
    up: Linear
    down: Linear
    embedding_norm: Norm | None
    state_norm: Norm
    mlp_norm: Norm
    query_norm: Norm | None
    key_norm: Norm | None
    head_width: int
    activation: str
    residual_is_normed: bool = False

    def __call__(
        self,
        states: torch.Tensor,
        embedded: torch.Tensor | None,
        entries: Entries,
        angles: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """The layer's output for one step.

        Args:
            states: [R, H].
            embedded: [R, H] of the tokens, for a first layer.
            entries: This layer's keys and values of the steps before; the new ones are added.
            angles: Cosine and sine of the rows' positions, each [R, head width].

        Returns:
            [R, H].
        """
        parts = [
            self.project(
                states[start:stop],
                None if embedded is None else embedded[start:stop],
                (angles[0][start:stop], angles[1][start:stop]),
            )
            for start, stop in blocks(len(states), ROWS)
        ]
        residual = torch.cat([part[0] for part in parts])
        queries, keys, values = (torch.cat([part[index] for part in parts], dim=1) for index in (1, 2, 3))
        entries.add(keys, values)
        size = block_rows(len(states), queries.shape[0], ROWS)
        return torch.cat(
            [
                self.finish(residual[start:stop], attend(queries[:, start:stop], entries, start))
                for start, stop in blocks(len(states), size)
            ]
        )

    def project(
        self, states: torch.Tensor, embedded: torch.Tensor | None, angles: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Residual [R, H], then queries, keys and values, each [heads, R, head width]."""
        normed = self.state_norm(states)
        residual = normed if self.residual_is_normed else states
        if self.embedding_norm is not None and embedded is not None:
            normed = torch.cat((self.embedding_norm(embedded), normed), dim=-1)
        queries = self.query(normed).view(len(states), -1, self.head_width)
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        return residual, rotate(queries.transpose(0, 1), *angles), *self.context(normed, angles)

    def context(
        self, states: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of states as they are, each [key heads, R, head width]."""
        keys, values = (
            projection(states).view(len(states), -1, self.head_width) for projection in (self.key, self.value)
        )
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        return rotate(keys.transpose(0, 1), *angles), values.transpose(0, 1)

    def finish(self, residual: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """The layer's output [R, H], from its residual and what attention read."""
        states = residual + self.output(read)
        normed = self.mlp_norm(states)
        return states + self.down(ACTIVATIONS[self.activation](self.gate(normed)) * self.up(normed))
