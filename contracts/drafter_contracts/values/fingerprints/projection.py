"""The random projection of a state, exact enough for another implementation to give the same numbers."""

from __future__ import annotations

import base64
import functools
import hashlib
import math

import numpy as np
import torch

from drafter_contracts.fingerprint_check import DIMENSIONS

#: What the stream of signs is made from; `<H>` is the width in decimal.
SEED = "drafters.fingerprint.v1/64x{width}"


@functools.lru_cache(maxsize=2)
def signs(width: int) -> torch.Tensor:
    """The matrix of signs, float64 [64, width] of +1 and -1.

    Bit n of the stream SHAKE-128(SEED), the lowest bit of a byte first, is the sign of row n // width and column
    n % width: 1 is +1, 0 is -1.
    """
    count = DIMENSIONS * width
    stream = hashlib.shake_128(SEED.format(width=width).encode()).digest((count + 7) // 8)
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=count, bitorder="little")
    return torch.from_numpy(bits.reshape(DIMENSIONS, width).astype(np.float64) * 2.0 - 1.0)


def project(states: torch.Tensor) -> torch.Tensor:
    """The projection of states [R, H] of any dtype: float64 [R, 64], the signs' sums over sqrt(64).

    The square of a projection's norm is that of the state's on average, with a relative deviation of at most
    sqrt(2 / 64).
    """
    return states.to(torch.float64) @ signs(states.shape[-1]).T / math.sqrt(DIMENSIONS)


def encode(numbers: torch.Tensor) -> str:
    """Numbers as little-endian float32 in base64, row by row."""
    return base64.b64encode(numbers.to(torch.float32).contiguous().numpy().astype("<f4").tobytes()).decode()


def decode(text: str) -> torch.Tensor:
    """The inverse of `encode`: float64 [rows, 64]; of a record that `check_fingerprint` let pass."""
    numbers = np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float64)
    return torch.from_numpy(numbers).reshape(-1, DIMENSIONS)
