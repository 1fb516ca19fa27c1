"""A reference made ready: norms, projections and noise of every state, in one pass over its bytes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.layout import Tap
from drafter_contracts.values.matching import rows
from drafter_contracts.values.matching.roundoff import Arithmetic, Travel, arithmetic, travel
from drafter_contracts.values.records import Capture


@dataclass(frozen=True)
class Reference:
    """The target's states as matching needs them.

    Attributes:
        capture: The states themselves.
        taps: Their names, K of them.
        small: float32 [K, R, 64]: projections of the first R rows.
        travel: Norms, and what roundings weigh.
        made: How they were recorded.
        signs: float32 [H, 64]: the projection.
    """

    capture: Capture
    taps: tuple[Tap, ...]
    small: torch.Tensor
    travel: Travel
    made: Arithmetic
    signs: torch.Tensor

    @property
    def width(self) -> int:
        """H."""
        return self.capture.record.hidden_size

    def state(self, index: int) -> torch.Tensor:
        """[T', H]: one of the states."""
        return self.capture.states[self.taps[index]]


def prepare(capture: Capture, max_shift: int) -> Reference:
    """Read a reference once.

    Args:
        capture: The states.
        max_shift: Rows that a sample may be shifted by.

    Raises:
        CaptureError: No states, states of another shape than the capture says, or rows that are none.
    """
    taps, width = capture.taps(), capture.record.hidden_size
    wrong = [
        f"{tap.label()} {list(capture.states[tap].shape)}"
        for tap in taps
        if tuple(capture.states[tap].shape) != (len(capture.tokens), width)
    ]
    if wrong or not taps:
        raise CaptureError(
            "the reference's states are not of the shape it says",
            where=capture.record.model or "reference",
            expected=f"states of [{len(capture.tokens)}, {width}]",
            actual=", ".join(wrong) or "no states",
        )
    signs = rows.projection(width)
    norms, small = [], []
    for tap in taps:
        norm, projected = rows.project(capture.states[tap], signs, rows.ESTIMATED_ROWS + max_shift)
        _check_rows(tap, norm, capture)
        norms.append(norm)
        small.append(projected)
    middle = capture.states[taps[len(taps) // 2]]
    return Reference(
        capture=capture,
        taps=taps,
        small=torch.stack(small),
        travel=travel(taps, torch.stack(norms), capture),
        made=arithmetic(middle, capture.record.dtype),
        signs=signs,
    )


def _check_rows(tap: Tap, norms: torch.Tensor, capture: Capture) -> None:
    """Nothing can be held against a row that is not finite, or of zeros: only an embedding may have one of these."""
    wrong = ~torch.isfinite(norms) | ((norms == 0) if tap.boundary else torch.zeros_like(norms, dtype=torch.bool))
    if bool(wrong.any()):
        raise CaptureError(
            f"the reference's {tap.label()} holds rows that are no states",
            where=capture.record.model or "reference",
            expected="finite rows that are not zero",
            actual=f"{int(wrong.sum())} of {len(wrong)} rows are, first row {int(wrong.to(torch.int8).argmax())}",
        )
