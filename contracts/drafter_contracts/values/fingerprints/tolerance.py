"""How far the same state may lie apart when two programs compute it: the bound of `matching`, from few norms."""

from __future__ import annotations

import torch

from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.values.matching.roundoff import UNIT, Arithmetic, arithmetic, factor, travel
from drafter_contracts.values.records import Capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.layout import Tap
    from drafter_contracts.manifest_values import FingerprintRecord

#: Below this nothing is told apart: sums in float32 differ by so much where a kernel's order or precision does.
LEAST = 1e-4
#: A median of projected errors lies below the true one by less than this; see docs/fingerprint.md.
_PROJECTED = 1.25


class Roundings:
    """What roundings on the way to each state weigh, by the last token's norms.

    Args:
        fingerprint: The record.
        taps: The states that it knows of.
        norms: float64 [K]: norm of the last token's state at each.
    """

    def __init__(self, fingerprint: FingerprintRecord, taps: tuple[Tap, ...], norms: torch.Tensor) -> None:
        record = ReferenceRecord(kind="capture", layers=fingerprint.layers, hidden_size=fingerprint.width)
        known = Capture(record=record, tokens=torch.zeros(1, dtype=torch.int64), states={})
        self._taps = taps
        self._travel = travel(taps, norms[:, None].to(torch.float32), known)
        dtype = getattr(torch, fingerprint.dtype, None) if fingerprint.dtype else None
        made = dtype if dtype in UNIT else torch.bfloat16  # the coarsest in which targets run, if it is not said
        self._made = Arithmetic(made, made)

    def tolerance(self, tap: Tap, given: torch.Tensor) -> float:
        """Median relative error, over the rows, up to which a state [R, H] is the tap's."""
        norms = given[-1:].to(torch.float32).norm(dim=1)
        noise = self._travel.noise(self._taps.index(tap), slice(0, 1), arithmetic(given), self._made, norms)
        return max(LEAST, _PROJECTED * factor(0.5, len(given)) * float(noise[0]))
