"""The fields of one sample, checked: every one that does not fit is named at once, with what it should have been."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from drafter_contracts import limits
from drafter_contracts.errors import SampleError

#: Dtypes that states are recorded in, and kept in.
STATE_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def describe(value: object) -> str:
    """A value in a few words: dtype and shape, or its type."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


class Fields:
    """One sample's fields, taken one by one.

    Args:
        content: Key to value, as the file has them.
        where: The file's name, for messages.
        row: Which of a batch is taken; None where the file holds one sample, with or without a leading dimension of 1.
    """

    def __init__(self, content: Mapping[str, Any], where: str, row: int | None = None) -> None:
        self.content = content
        self.where = where
        self.row = row
        self.tokens = torch.empty(0, dtype=torch.int64)
        self._problems: list[tuple[str, str, str]] = []

    def wrong(self, key: str, expected: str, actual: str) -> None:
        """Note a field that does not fit."""
        self._problems.append((key, expected, actual))

    def take_tokens(self, key: str) -> None:
        """Take the tokens, which say how many rows everything has: integers, a tensor or a list."""
        value = self._one(key, 1, _tensor(self.content.get(key)))
        if value is None:
            return
        if value.dtype not in _INTEGERS:
            self.wrong(key, "integers", describe(value))
        elif not 1 <= len(value) <= limits.sample_max_tokens:
            self.wrong(key, f"1 to {limits.sample_max_tokens} tokens", str(len(value)))
        elif int(value.min()) < 0:
            self.wrong(key, "token ids from 0", str(int(value.min())))
        else:
            self.tokens = value.to(torch.int64)

    def cut(self, key: str) -> None:
        """Cut off the padding that an attention mask, if there is one, says is at the end."""
        mask = None if key not in self.content else self._one(key, 1, _tensor(self.content[key]))
        if mask is None:
            return
        if len(mask) != len(self.tokens):
            self.wrong(key, f"[{len(self.tokens)}]", describe(mask))
            return
        kept = int((mask != 0).sum())
        if not kept or bool((mask[:kept] == 0).any()):
            self.wrong(key, "ones, then zeros for padding at the end", f"{kept} ones elsewhere")
            return
        self.tokens = self.tokens[:kept]
        self.padded = len(mask)

    padded: int | None = None

    def state(self, key: str, value: object = None) -> torch.Tensor | None:
        """States [T, W], or [1, T, W]; None, and noted, if they do not fit.

        Args:
            key: Its name.
            value: The value, if it does not lie under that name itself.
        """
        state = self._one(key, 2, self.content.get(key) if value is None else value)
        return None if state is None else self._rows(key, state)

    def stacked(self, key: str) -> tuple[torch.Tensor, ...]:
        """States [T, L, H], as L views [T, H]; empty, and noted, if they do not fit."""
        state = self._one(key, 3, self.content.get(key))
        if state is None or self._rows(key, state) is None:
            return ()
        if not 1 <= state.shape[1] <= limits.layout_max_taps + 1:
            self.wrong(key, f"1 to {limits.layout_max_taps + 1} states", str(state.shape[1]))
            return ()
        return tuple(state[:, index] for index in range(state.shape[1]))

    def loss_mask(self, key: str = "loss_mask") -> torch.Tensor | None:
        """The loss mask as bool [T], if there is one."""
        if self.content.get(key) is None:
            return None
        mask = self._one(key, 1, _tensor(self.content[key]))
        if mask is None:
            return None
        if len(mask) != (self.padded or len(self.tokens)):
            self.wrong(key, f"[{self.padded or len(self.tokens)}]", describe(mask))
            return None
        return mask[: len(self.tokens)] != 0

    def finish(self) -> None:
        """Refuse the sample if anything did not fit.

        Raises:
            SampleError: It names every field, what was expected and what was found.
        """
        if not self._problems:
            return
        keys = ", ".join(dict.fromkeys(key for key, _, _ in self._problems))
        raise SampleError(
            f"what the file holds does not fit: {keys}",
            where=self.where,
            expected="; ".join(f"{key}: {expected}" for key, expected, _ in self._problems),
            actual="; ".join(f"{key}: {actual}" for key, _, actual in self._problems),
        )

    def _one(self, key: str, dimensions: int, value: object) -> torch.Tensor | None:
        """The value without its leading dimension, or the chosen row of it."""
        wanted = f"a tensor of {dimensions} dimensions"
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            self.wrong(key, wanted, "nothing" if value is None else describe(value))
            return None
        value = value.detach()
        if self.row is not None:
            if value.dim() == dimensions + 1 and self.row < len(value):
                return value[self.row]
        elif value.dim() == dimensions:
            return value
        elif value.dim() == dimensions + 1 and len(value) == 1:
            return value[0]
        self.wrong(key, wanted if self.row is None else f"{wanted} per sample", describe(value))
        return None

    def _rows(self, key: str, state: torch.Tensor) -> torch.Tensor | None:
        if state.dtype not in STATE_DTYPES:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in STATE_DTYPES)
            self.wrong(key, names, describe(state))
            return None
        rows = self.padded or len(self.tokens)
        if len(self.tokens) and len(state) != rows:
            self.wrong(key, f"{rows} rows, as there are tokens", describe(state))
            return None
        if not state.shape[-1]:
            self.wrong(key, "a width", describe(state))
            return None
        if state.numel() * state.itemsize > state.untyped_storage().nbytes():
            self.wrong(key, "no more elements than the file has", describe(state))
            return None
        return state[: len(self.tokens)] if len(self.tokens) else state


def _tensor(value: object) -> object:
    """A list of whole numbers as a tensor; anything else as it is."""
    if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        try:
            return torch.tensor(value, dtype=torch.int64)
        except (OverflowError, RuntimeError, ValueError):
            return value
    return value
