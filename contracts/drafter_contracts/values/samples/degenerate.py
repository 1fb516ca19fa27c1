"""Recorded states that are no states: found before anything is told from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from drafter_contracts.errors import DegenerateSampleError, SampleError

#: Elements looked at at once: 1 MiB as float32, which stays in a core's cache.
_BLOCK_ELEMENTS = 256 * 1024
#: Constant columns mean something from this many different tokens on; over fewer, coarse dtypes repeat by chance.
_COLUMN_TOKENS = 8
_WORDS = (torch.int64, torch.int32, torch.int16, torch.uint8)
# Odd, so that no bit of a word is lost; 2^64 over the golden ratio.
_MULTIPLIER = -7046029254386353131


def check_states(states: Sequence[torch.Tensor], where: str, *, tokens: torch.Tensor | None = None) -> None:
    """Refuse states from which nothing can be told, looking at a block of rows at a time.

    A row of zeros is refused wherever it is, padding too: nothing matches it. Equal rows are refused where their
    tokens differ: boundary 0 gives one token the same row everywhere, but no boundary gives two tokens the same.

    Args:
        states: [T, H] each.
        where: The file's name, for the message.
        tokens: [T]; without them rows may repeat, and only a state of one single row is refused.

    Raises:
        DegenerateSampleError: Rows with NaN or infinity, of zeros, of one single value, or equal for different tokens;
            most columns constant; two states that are equal bit for bit. All that was found is named.
        SampleError: Tokens or states of different lengths.
    """
    lengths = {len(state) for state in states} | (set() if tokens is None else {len(tokens)})
    if len(lengths) > 1:
        raise SampleError(
            "tokens and states of different lengths", where=where, expected="one length", actual=str(sorted(lengths))
        )
    found: list[str] = []
    prints: list[torch.Tensor] = []
    for number, state in enumerate(states):
        facts = _Facts(state)
        prints.append(facts.prints)
        found += [f"state {number}: {fault}" for fault in facts.faults(state, tokens)]
    found += _equal_states(states, prints)
    if found:
        raise DegenerateSampleError(
            "the recorded states are no states, nothing can be told from them",
            where=where,
            expected="finite rows that differ where tokens do",
            actual="; ".join(found),
        )


class _Facts:
    """What one pass over a state's rows tells.

    Attributes:
        prints: int64 [T]: equal rows have equal ones.
    """

    def __init__(self, state: torch.Tensor) -> None:
        rows, width = state.shape
        self.prints = torch.empty(rows, dtype=torch.int64)
        self.low = torch.empty(rows)
        self.high = torch.empty(rows)
        self.columns_low = torch.full((width,), float("inf"))
        self.columns_high = torch.full((width,), float("-inf"))
        for start, block in _blocks(state):
            part = slice(start, start + len(block))
            self.prints[part] = _prints(block)
            values = block.to(torch.float32)
            # Both let NaN through; `aminmax` does too, in eight times the time.
            self.low[part], self.high[part] = values.amin(dim=1), values.amax(dim=1)
            torch.minimum(self.columns_low, values.amin(dim=0), out=self.columns_low)
            torch.maximum(self.columns_high, values.amax(dim=0), out=self.columns_high)

    def faults(self, state: torch.Tensor, tokens: torch.Tensor | None) -> Iterator[str]:
        """What is wrong, in words."""
        rows, width = state.shape
        finite = self.low.isfinite() & self.high.isfinite()
        zero = (self.low == 0) & (self.high == 0)
        flat = (self.low == self.high) & ~zero & finite
        if not finite.all():
            yield f"NaN or infinity in {_rows(~finite)}"
        if zero.any():
            yield f"zeros in {_rows(zero)}"
        if width > 1 and flat.any():
            yield f"one single value in {_rows(flat)}"
        repeated = _repeated(state, self.prints, tokens, skip=zero | ~finite)
        if repeated is not None:
            yield repeated
        constant = int((self.columns_low == self.columns_high).sum())
        different = rows if tokens is None else len(torch.unique(tokens))
        if finite.all() and not zero.all() and different >= _COLUMN_TOKENS and 2 * constant > width:
            yield f"{constant} of {width} columns are constant"


def _repeated(
    state: torch.Tensor, prints: torch.Tensor, tokens: torch.Tensor | None, *, skip: torch.Tensor
) -> str | None:
    """Rows that are equal though their tokens differ; without tokens, all rows equal."""
    if tokens is None:
        same = len(state) > 1 and not skip.any() and bool((prints == prints[0]).all())
        return f"all {len(state)} rows are equal" if same else None
    order = torch.argsort(prints, stable=True)
    pairs = [
        (int(first), int(second))
        for first, second in zip(
            order[:-1][_alike(prints, tokens, order)], order[1:][_alike(prints, tokens, order)], strict=True
        )
        if not skip[first] and _same(state[first], state[second])
    ]
    if not pairs:
        return None
    first, second = min(tuple(sorted(pair)) for pair in pairs)
    return f"rows {first} and {second} are equal, their tokens are not ({len(pairs)} such pairs)"


def _alike(prints: torch.Tensor, tokens: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Neighbours in an order of rows whose prints are equal and whose tokens are not."""
    one, other = order[:-1], order[1:]
    return (prints[one] == prints[other]) & (tokens[one] != tokens[other])


def _equal_states(states: Sequence[torch.Tensor], prints: Sequence[torch.Tensor]) -> Iterator[str]:
    for second in range(len(states)):
        for first in range(second):
            one, other = states[first], states[second]
            if one.shape != other.shape or one.dtype != other.dtype or not torch.equal(prints[first], prints[second]):
                continue
            if all(_same(block, other[start : start + len(block)]) for start, block in _blocks(one)):
                yield f"states {first} and {second} are equal bit for bit"


def _blocks(state: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Blocks of rows, with the number of their first."""
    step = max(1, _BLOCK_ELEMENTS // state.shape[1])
    for start in range(0, len(state), step):
        yield start, state[start : start + step]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def _prints(block: torch.Tensor) -> torch.Tensor:
    """A number per row, of its bits alone: exact, so that equal rows have equal ones in any block."""
    block = block.contiguous()
    size = block.shape[1] * block.itemsize
    word = next(word for word in _WORDS if size % word.itemsize == 0 and _aligned(block, word))
    words = block.view(word).to(torch.int64)
    weights = torch.arange(1, words.shape[1] + 1, dtype=torch.int64) * _MULTIPLIER | 1
    words = (words ^ (words >> 29)) * weights
    return (words ^ (words >> 32)).sum(dim=1)


def _aligned(block: torch.Tensor, word: torch.dtype) -> bool:
    return block.storage_offset() * block.itemsize % word.itemsize == 0


def _rows(mask: torch.Tensor) -> str:
    """Rows, counted, and the first of them."""
    return f"{int(mask.sum())} of {len(mask)} rows, first in row {int(mask.to(torch.int8).argmax())}"
