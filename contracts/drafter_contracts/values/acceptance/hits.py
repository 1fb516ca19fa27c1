"""Where a drafter's first choice is the target's: one row per position drafted from, one column per drafted token.

Shapes: T tokens, K drafted tokens, R = T - K rows. Row t is what an engine knows once it has chosen token t + 1:
states 0..t and tokens 0..t + 1. Step j (1..K) is held against the target's own choice after token t + j.

Steps after the first are teacher-forced: they are given the text's tokens, not the drafter's. Where the text is the
target's own greedy text, that changes nothing up to the first miss, and an engine asks no further. Where the text
departs from the target's choices, the text is taken as given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from drafter_contracts.errors import CaptureError, LayoutError, SampleError
from drafter_contracts.layout import CaptureLayout, describe_taps
from drafter_contracts.values.records import Capture


class Drafts(Protocol):
    """What is asked of a drafter; `drafter_contracts.values.drafting.Drafter` does it."""

    @property
    def taps(self) -> int:
        """States that `fc` reads."""

    def choices(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> torch.Tensor:
        """First choices as target ids, int64 [steps, T - steps], for states [T, taps * H] and tokens [T]."""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Some tokens with the target's states on them.

    Attributes:
        capture: The target's states and choices.
        recorded: What somebody else recorded for the same tokens as input of `fc`, one [T, H] per tap; or None.
        mask: bool [T]: only rows all of whose predicted tokens are included count; None for all rows.
    """

    capture: Capture
    recorded: tuple[torch.Tensor, ...] | None = None
    mask: torch.Tensor | None = None

    def rows(self, steps: int) -> int:
        """R, 0 for a passage too short to draft from."""
        return max(len(self.capture.tokens) - steps, 0)

    def counted(self, steps: int) -> torch.Tensor:
        """The rows that count: bool [R]."""
        rows = self.rows(steps)
        counted = torch.ones(rows, dtype=torch.bool)
        if self.mask is not None:
            # The last row's last token lies behind the end: nothing is known of it, so the mask does not exclude it.
            mask = torch.cat([self.mask.to("cpu", torch.bool), torch.ones(1, dtype=torch.bool)])
            for step in range(1, steps + 1):
                counted &= mask[1 + step : 1 + step + rows]
        return counted


@dataclass(frozen=True, kw_only=True)
class Hits:
    """A drafter's first choices in one passage under one layout, all of shape [K, R].

    Attributes:
        drafted: Its first choices, as target ids.
        chosen: The target's.
    """

    drafted: torch.Tensor
    chosen: torch.Tensor

    @property
    def right(self) -> torch.Tensor:
        """Where they are the same, bool."""
        return self.drafted == self.chosen

    @property
    def accepted(self) -> torch.Tensor:
        """First choices that are right in a row, from the first on: int64 [R]."""
        return self.right.long().cumprod(0).sum(0)


def hits_of(drafter: Drafts, states: Sequence[torch.Tensor], capture: Capture, steps: int) -> Hits:
    """Run a drafter over a passage.

    Args:
        drafter: The drafter.
        states: [T, H] per tap, in concatenation order.
        capture: The tokens and the target's choices.
        steps: K.

    Raises:
        CaptureError: The capture holds no choices of the target.
    """
    if capture.choices is None:
        raise CaptureError(
            "the reference does not hold the target's choices, which drafts are held against",
            expected="a capture with the target's first choice after every token",
            actual="none",
        )
    fused = torch.cat([state.float() for state in states], dim=-1)
    drafted = drafter.choices(fused, capture.tokens, steps).cpu()
    rows = drafted.shape[1]
    choices = capture.choices.cpu()
    chosen = torch.stack([choices[step : step + rows] for step in range(1, steps + 1)])
    return Hits(drafted=drafted, chosen=chosen)


def states_of(capture: Capture, layout: CaptureLayout) -> tuple[torch.Tensor, ...] | None:
    """A layout's states [T, H] in a capture, in concatenation order; None if one is not there."""
    if any(tap not in capture.states for tap in layout.taps):
        return None
    return tuple(capture.states[tap] for tap in layout.taps)


def check_taps(drafter: Drafts, layouts: Iterable[tuple[str, CaptureLayout]]) -> None:
    """Refuse layouts that are not as wide as `fc`.

    Raises:
        LayoutError: Naming every one of them.
    """
    wrong = [f"{name}: {describe_taps(layout.taps)}" for name, layout in layouts if len(layout.taps) != drafter.taps]
    if wrong:
        raise LayoutError(
            "the layout does not fit the drafter's fc", expected=f"{drafter.taps} taps", actual="; ".join(wrong)
        )


def too_short(steps: int) -> SampleError:
    """The error for passages of which no row counts."""
    return SampleError(
        "too few tokens to draft from",
        expected=f"more than {steps} tokens, and {steps} in a row that the mask includes where masks count",
        actual="no such row in any sample",
    )
