"""How far two recordings of the same state may lie apart: a bound from the dtypes, derived in docs/tolerances.md.

Shapes: K states of the reference, T its rows, N decoder layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.records import Capture

_BF16, _FP16, _FP32 = torch.bfloat16, torch.float16, torch.float32
_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

#: Unit roundoff: half the distance from 1 to the next number.
UNIT = {_E5M2: 2.0**-3, _E4M3: 2.0**-4, _BF16: 2.0**-8, _FP16: 2.0**-11, _FP32: 2.0**-24, torch.float64: 2.0**-53}
#: Half the smallest number above zero: what is lost below the normal range, by element.
UNDERFLOW = {_E5M2: 2.0**-17, _E4M3: 2.0**-10, _FP16: 2.0**-25}
EIGHT_BITS = (_E4M3, _E5M2)

#: Roundings from a layer's input to its output on the longest path, of a Llama layer as transformers computes it.
#: Attention: norm 2, projection 1, rotation 3, weights 1, weighted sum 1, projection 1, addition 1; MLP: norm 2,
#: projection 1, activation 1, product 1, projection 1, addition 1.
LAYER_ROUNDINGS = 17
#: Additions of a layer that are rounded one by one where the sums are kept in the dtype itself, in widths H:
#: two norms, the projections into and out of attention, and into and out of an MLP four times as wide.
LAYER_SUMS = 9
#: Rows of a state that are looked at for its dtype.
_ROWS_FOR_DTYPE = 16
#: Columns from which few different values in a row mean eight bits and not few columns.
_WIDTH_FOR_LEVELS = 64


@dataclass(frozen=True)
class Arithmetic:
    """How a recording was made, as far as its numbers tell.

    Attributes:
        stored: Dtype whose values the recording holds, whatever it was cast to since.
        ran: Dtype in which the target ran.
    """

    stored: torch.dtype
    ran: torch.dtype

    @property
    def name(self) -> str:
        """The coarser of the two, for messages: "bfloat16"."""
        return str(max(self.stored, self.ran, key=UNIT.__getitem__)).removeprefix("torch.")

    def run_variance(self, width: int) -> float:
        """Square of what one layer's roundings add, relative to the stream, root mean square.

        Below 32 bits sums are kept in 32 bits and rounded once; in 32 bits every addition is rounded.
        """
        sums = LAYER_SUMS * width if UNIT[self.ran] <= UNIT[_FP32] else 0
        return (LAYER_ROUNDINGS + sums) * UNIT[self.ran] ** 2


def stored_dtype(state: torch.Tensor) -> torch.dtype:
    """The coarsest dtype that holds a recorded state's values without loss: a cast to a finer one is no precision.

    Args:
        state: [T, H].
    """
    step = max(1, len(state) // _ROWS_FOR_DTYPE)
    rows = state[::step][:_ROWS_FOR_DTYPE]
    if rows.dtype in EIGHT_BITS:
        return rows.dtype
    wide = rows.to(_FP32)
    wide = wide[torch.isfinite(wide)]
    for dtype in (_E4M3, _E5M2, _BF16, _FP16):
        if UNIT[dtype] > UNIT.get(rows.dtype, UNIT[_FP32]) and torch.equal(wide.to(dtype).to(_FP32), wide):
            return dtype
    for dtype, levels in ((_E5M2, 4), (_E4M3, 8)):
        if rows.shape[1] >= _WIDTH_FOR_LEVELS and all(_levels(row.to(_FP32)) <= levels for row in rows):
            return dtype
    return rows.dtype if rows.dtype in UNIT else _FP32


def _levels(row: torch.Tensor) -> int:
    """The most different values between a power of two and the next: scaling a float8 leaves it as many as it had."""
    values = torch.unique(row[torch.isfinite(row)].abs())
    exponents = torch.frexp(values[values > 0]).exponent
    return int(torch.bincount(exponents - exponents.min()).max()) if len(exponents) else 0


def arithmetic(state: torch.Tensor, stated: str = "") -> Arithmetic:
    """How a state was recorded.

    Args:
        state: [T, H].
        stated: Dtype in which the target ran, "bfloat16", if somebody says so.
    """
    stored = stored_dtype(state)
    ran = _BF16 if stored in EIGHT_BITS else stored
    said = getattr(torch, stated.removeprefix("torch."), None) if stated else None
    if said in UNIT and said not in EIGHT_BITS and UNIT[said] > UNIT[ran]:
        ran = said
    return Arithmetic(stored, ran)


@dataclass(frozen=True)
class Travel:
    """What roundings on the way to a state weigh, relative to the state, per row.

    Attributes:
        layers: [K, T]: sum over the layers passed of the stream's squared norm there, over the state's squared norm.
        norms: [K, T]: norm of every row.
        width: H.
    """

    layers: torch.Tensor
    norms: torch.Tensor
    width: int

    def noise(
        self,
        index: int,
        rows: slice,
        sample: Arithmetic,
        reference: Arithmetic,
        norms: torch.Tensor,
        *,
        mapped: bool = False,
    ) -> torch.Tensor:
        """Root mean square of the relative error between two recordings of one state, per row.

        Args:
            index: Which state.
            rows: Which rows of the reference.
            sample: How the one was made.
            reference: How the other was made.
            norms: [T]: norms of the one's rows, for what its dtype loses near zero.
            mapped: One of them was scaled or rotated since: a sum of H products, in float32 at best.

        Returns:
            float32 [T].
        """
        run = sample.run_variance(self.width) + reference.run_variance(self.width)
        stored = UNIT[sample.stored] ** 2 + UNIT[reference.stored] ** 2
        lost = self.width * UNDERFLOW.get(sample.stored, 0.0) ** 2 / norms.square().clamp_min(torch.finfo(_FP32).tiny)
        product = self.width * UNIT[_FP32] ** 2 if mapped else 0.0
        return (self.layers[index, rows] * run + stored + lost + product).sqrt()


def travel(taps: tuple[Tap, ...], norms: torch.Tensor, capture: Capture) -> Travel:
    """What roundings on the way to each state weigh.

    A rounding in a layer is at most the unit roundoff times the larger of the stream's norms before and after it, and
    stays in the stream. Where a boundary is not captured, its norm is taken to be that of its larger captured
    neighbour.

    Args:
        taps: The states.
        norms: [K, T].
        capture: Where they are from.
    """
    layers = capture.record.layers
    rows = {tap.boundary: norm for tap, norm in zip(taps, norms, strict=True) if tap.state != FINAL_NORM}
    known = sorted(rows)
    passed = torch.zeros(layers + 1, norms.shape[1])
    stream = [_norm_at(boundary, known, rows, norms) for boundary in range(layers + 1)]
    for boundary in range(1, layers + 1):
        passed[boundary] = passed[boundary - 1] + torch.maximum(stream[boundary - 1], stream[boundary]).square()
    weights = []
    for tap, norm in zip(taps, norms, strict=True):
        # A norm keeps relative errors, so the final norm's are those of the stream before it.
        at = stream[tap.boundary] if tap.state == FINAL_NORM and known else norm
        weights.append(passed[tap.boundary] / at.square().clamp_min(torch.finfo(_FP32).tiny))
    return Travel(torch.stack(weights), norms, capture.record.hidden_size)


def _norm_at(boundary: int, known: list[int], rows: dict[int, torch.Tensor], norms: torch.Tensor) -> torch.Tensor:
    """[T]: the stream's norm at a boundary, captured or between captured ones."""
    if boundary in rows:
        return rows[boundary]
    below = [number for number in known if number < boundary][-1:]
    above = [number for number in known if number > boundary][:1]
    near = [rows[number] for number in (*below, *above)]
    return torch.stack(near).amax(0) if near else norms[0]


#: Half of the rows, nine in ten, all of them: what their errors may be, in root mean squares.
CHANCE = 1e-6


def factor(part: float, rows: int) -> float:
    """By how much the errors of this part of the rows may exceed their root mean square.

    For half of them by Markov's inequality; beyond, by the bound of Azuma and Hoeffding for vectors (Pinelis 1994):
    a row exceeds x with a chance of at most 2 exp(-x^2 / 2). All rows together do so with a chance of `CHANCE`.

    Args:
        part: 0.5, or more; 1 means every row.
        rows: How many there are.
    """
    if part <= 0.5:
        return math.sqrt(2.0)
    beyond = 1.0 - part if part < 1.0 else CHANCE / rows
    return math.sqrt(2.0 * math.log(2.0 / beyond))
