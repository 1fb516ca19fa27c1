"""The drafter: recorded states and tokens in, what it would have drafted out.

Shapes: T tokens, R = T - steps rows, k taps, H_t and H_d the target's and the drafter's width, D draft tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from drafter_contracts.errors import CheckpointError, SampleError
from drafter_contracts.values.drafting.architecture import Architecture
from drafter_contracts.values.drafting.attention import Entries, blocks
from drafter_contracts.values.drafting.layers import ROWS, Layer, Linear, Norm

#: Rows of the head that are converted and multiplied at a time.
VOCABULARY_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """A drafter that runs on recorded states (docs/reference-forward.md).

    Attributes:
        method: "EAGLE3" or "DFLASH".
        architecture: Its shape and switches.
        embedding: [V, H_d], in the dtype it is stored in.
        head: [D, H_d], in the dtype it is stored in.
        layers: Decoder layers.
        norm: Before the head.
        fc: [H_d, k * H_t], or None where the one state goes in as it is.
        fc_norms: Norms before `fc`: none, one of the whole input, or one per tap.
        target_ids: int64 [D], or None where the vocabularies are one.
        dtype: Everything is computed in it.
        notes: What was assumed, and where an engine does otherwise.
    """

    method: str
    architecture: Architecture
    embedding: torch.Tensor
    head: torch.Tensor
    layers: tuple[Layer, ...]
    norm: Norm
    fc: Linear | None
    fc_norms: tuple[Norm, ...]
    target_ids: torch.Tensor | None
    dtype: torch.dtype
    notes: tuple[str, ...]

    @property
    def taps(self) -> int:
        """How many states feed `fc`."""
        return self.architecture.taps

    @property
    def vocab_size(self) -> int:
        """Rows of the head."""
        return len(self.head)

    @property
    def most_steps(self) -> int | None:
        """Tokens that it can draft per step, or None: any number."""
        return None

    def to_target(self, ids: torch.Tensor) -> torch.Tensor:
        """Draft tokens as target tokens, int64 of the same shape."""
        return ids.to(torch.int64) if self.target_ids is None else self.target_ids[ids]

    @torch.no_grad()
    def forward(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> torch.Tensor:
        """Logits of every row and step, each step fed with the tokens that really followed.

        Row t of step j (1 to `steps`) starts from the states at position t, has read the tokens x_{t+1} to x_{t+j},
        and predicts x_{t+1+j}; the target's own choice for that place is the one it makes at position t+j. Rows are
        independent drafts: see `attention`.

        Args:
            states: [T, k * H_t]: the tapped states in concatenation order, not normed by anybody.
            tokens: int64 [T]: x_0 to x_{T-1}.
            steps: At least 1 and less than T.

        Returns:
            [steps, R, D], R = T - steps, over the draft vocabulary: `choices` needs no such memory.

        Raises:
            SampleError: Shapes that do not fit the drafter or each other, or tokens without an embedding.
        """
        self._check(states, tokens, steps)
        rows = len(tokens) - steps
        logits = torch.empty((steps, rows, self.vocab_size), dtype=self.dtype)
        for step, outputs in enumerate(self._unrolled(states, tokens, steps)):
            for first, part in self._head_parts():
                torch.matmul(outputs, part.T, out=logits[step, :, first : first + len(part)])
        return logits

    @torch.no_grad()
    def choices(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> torch.Tensor:
        """The drafter's first choice of every row and step, as target tokens.

        Args:
            states: As `forward`.
            tokens: As `forward`.
            steps: As `forward`.

        Returns:
            int64 [steps, R]. Of equal logits the lower draft token counts.

        Raises:
            SampleError: As `forward`.
            CheckpointError: Logits that are no numbers: a first choice among them would be made up.
        """
        self._check(states, tokens, steps)
        chosen = [self._first_choices(outputs) for outputs in self._unrolled(states, tokens, steps)]
        return self.to_target(torch.stack(chosen))

    def _first_choices(self, outputs: torch.Tensor) -> torch.Tensor:
        best = torch.full((len(outputs),), float("-inf"), dtype=self.dtype)
        chosen = torch.zeros(len(outputs), dtype=torch.int64)
        for first, part in self._head_parts():
            for start, stop in blocks(len(outputs), ROWS):
                values, ids = (outputs[start:stop] @ part.T).max(dim=-1)
                better = values > best[start:stop]
                best[start:stop] = torch.maximum(best[start:stop], values)  # what is no number stays none
                chosen[start:stop] = torch.where(better, ids + first, chosen[start:stop])
        if not bool(torch.isfinite(best).all()):
            raise CheckpointError(
                "the drafter computes no numbers: its weights, or the states that it read, hold none",
                expected="finite logits in every row",
                actual=f"none in {int((~torch.isfinite(best)).sum())} of {len(best)} rows",
            )
        return chosen

    def _head_parts(self) -> Iterator[tuple[int, torch.Tensor]]:
        """First row and the converted rows of consecutive parts of the head: a whole one may not fit in memory."""
        for start, stop in blocks(self.vocab_size, VOCABULARY_ROWS):
            yield start, self.head[start:stop].to(self.dtype)

    def _unrolled(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> Iterator[torch.Tensor]:
        """Normed outputs of each step, [R, H_d]."""
        rows = len(tokens) - steps
        current = torch.cat([self._fused(states[start:stop]) for start, stop in blocks(rows, ROWS)])
        cosine, sine = self.architecture.rope.angles(len(tokens), self.architecture.head_width)
        cosine, sine = cosine.to(self.dtype), sine.to(self.dtype)
        entries = [Entries() for _ in self.layers]
        for step in range(steps):
            embedded: torch.Tensor | None = self.embedding[tokens[step + 1 : step + 1 + rows]].to(self.dtype)
            angles = cosine[step : step + rows], sine[step : step + rows]
            for layer, seen in zip(self.layers, entries, strict=True):
                current = layer(current, embedded, seen, angles)
                embedded = None  # only the first layer reads the token
            outputs = self.norm(current)
            yield outputs
            current = outputs if self.architecture.norm_output else current

    def _fused(self, states: torch.Tensor) -> torch.Tensor:
        """[R, k * H_t] to [R, H_d]."""
        states = states.to(self.dtype)
        if self.fc_norms:
            chunks = states.chunk(len(self.fc_norms), dim=-1)
            states = torch.cat([norm(chunk) for norm, chunk in zip(self.fc_norms, chunks, strict=True)], dim=-1)
        return states if self.fc is None else self.fc(states)

    def _check(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> None:
        wrong = []
        width = self.taps * self.architecture.target_hidden_size
        if tokens.dim() != 1 or tokens.dtype != torch.int64:
            wrong.append(("tokens", "int64 [T]", f"{tokens.dtype} {list(tokens.shape)}"))
        elif tuple(states.shape) != (len(tokens), width):
            wrong.append(("states", f"[{len(tokens)}, {width}], {self.taps} taps", str(list(states.shape))))
        elif not 1 <= steps < len(tokens):
            wrong.append(("steps", f"1 to {len(tokens) - 1}, less than the tokens", str(steps)))
        elif int(tokens.min()) < 0 or int(tokens.max()) >= len(self.embedding):
            range_ = f"{int(tokens.min())} to {int(tokens.max())}"
            wrong.append(("tokens", f"ids from 0 to {len(self.embedding) - 1}", range_))
        for where, expected, actual in wrong:
            raise SampleError("does not fit the drafter", where=where, expected=expected, actual=actual)
