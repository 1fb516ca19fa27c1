"""How far the same state may lie apart when two programs compute it: from dtypes and depth, not tuned per model."""

from __future__ import annotations

import math

import torch

#: Unit roundoff: half the distance of 1 to the next number.
UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}
#: Below this nothing is told apart: long sums in float32 differ by so much when their order does.
FLOOR = 1e-4
#: Standard deviations of the walk below that are still the same state; covers what a row amplifies, and the
#: projection's own deviation of at most an eighth.
_DEVIATIONS = 3.0


def tolerance(boundary: int, *dtypes: str) -> float:
    """Relative error up to which two records of one state are the same.

    A layer rounds the stream twice, once per addition: rounding errors are a random walk of 1 + 2 b steps of one
    unit roundoff, and those of both sides add up as squares.

    Args:
        boundary: b.
        dtypes: In which each side was computed; one that is not known is taken for bfloat16.
    """
    squares = sum(UNIT_ROUNDOFF.get(dtype, UNIT_ROUNDOFF["bfloat16"]) ** 2 for dtype in dtypes)
    return max(FLOOR, _DEVIATIONS * math.sqrt(squares * (1 + 2 * boundary)))


def dtype_of(states: torch.Tensor) -> str:
    """Dtype in which states were computed: the tensor's, or the narrowest that holds each of its numbers.

    An engine answers in decimal digits, which name no dtype.
    """
    if states.dtype not in (torch.float32, torch.float64):
        return str(states.dtype).removeprefix("torch.")
    for narrow in (torch.bfloat16, torch.float16):
        if torch.equal(states.to(narrow).to(states.dtype), states):
            return str(narrow).removeprefix("torch.")
    return "float32"
