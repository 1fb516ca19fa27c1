"""Boundaries, taps and capture layouts: the one way this project numbers hidden states.

A target with N decoder layers has N + 1 *boundaries*. Boundary b is the residual stream that enters
decoder layer b: 0 is the embedding output, N is the last layer's output before the final norm. The
*output id* i of the field ("output of layer i") is boundary i + 1. `final_norm` is a state of its own:
the input of the target's `lm_head`, never equal to boundary N.
"""

from __future__ import annotations

from itertools import groupby, pairwise

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The residual stream as it enters layer `boundary`.
RESIDUAL = "residual"
#: The target's final norm applied to boundary N.
FINAL_NORM = "final_norm"
#: Targets with several residual streams (hyper-connections): the mean over the streams.
STREAM_MEAN = "stream_mean"
#: Targets that keep a bank of earlier residual streams: the stream at the boundary, mixed with those of the bank.
STREAM_MIXTURE = "stream_mixture"
STATES = (RESIDUAL, FINAL_NORM, STREAM_MEAN, STREAM_MIXTURE)
#: What a tap that names only its boundary may be: such targets have no single residual stream.
STREAMS = (RESIDUAL, STREAM_MEAN, STREAM_MIXTURE)

#: No norm between the concatenation and `fc`.
NORM_NONE = "none"
#: One RMSNorm over the whole concatenation (`norm_before_fc`, tensor `input_norm.weight`).
NORM_CONCATENATION = "concatenation"
#: One RMSNorm per chunk (`fc_norm`, tensors `fc_norm.0 ..`).
NORM_PER_CHUNK = "per_chunk"
NORMS = (NORM_NONE, NORM_CONCATENATION, NORM_PER_CHUNK)


class Tap(msgspec.Struct, frozen=True, order=True):
    """One captured state: which boundary, and which state was taken there.

    Attributes:
        boundary: 0 (embedding output) to N (last layer's output, before the final norm).
        state: One of `STATES`. `final_norm` is only possible at boundary N.
    """

    boundary: int
    state: str = RESIDUAL

    @property
    def output_id(self) -> int:
        """The layer whose output this is; -1 for the embedding."""
        return self.boundary - 1

    def label(self) -> str:
        """The tap in both numberings, for messages: "boundary 3 (output of layer 2)"."""
        if self.state == FINAL_NORM:
            return f"final norm (after boundary {self.boundary})"
        where = "embedding output" if self.boundary == 0 else f"output of layer {self.boundary - 1}"
        kind = {STREAM_MEAN: ", mean over streams", STREAM_MIXTURE: ", mixed with earlier streams"}.get(self.state, "")
        return f"boundary {self.boundary} ({where}{kind})"


class CaptureLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a drafter's `fc` reads: taps in the order in which they are concatenated.

    Attributes:
        taps: In concatenation order: the first tap feeds the first columns of `fc.weight`.
        widths: Width of each tap (the target's hidden size), or empty if not known.
        norm: One of `NORMS`: the norm applied between concatenation and `fc`.
    """

    taps: tuple[Tap, ...]
    widths: tuple[int, ...] = ()
    norm: str = NORM_NONE

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Boundaries in concatenation order."""
        return tuple(tap.boundary for tap in self.taps)

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Output ids in concatenation order."""
        return tuple(tap.output_id for tap in self.taps)

    @property
    def fc_input_width(self) -> int | None:
        """Columns of `fc.weight`: the sum of the tap widths, or None if the widths are not known."""
        return sum(self.widths) if self.widths else None

    @property
    def ascending(self) -> bool:
        """Whether taps are concatenated in strictly ascending layer order, as engines do it."""
        return all(a < b for a, b in pairwise(self.taps))

    def check(self, num_layers: int | None = None) -> CaptureLayout:
        """Return self if this layout can exist on a target of `num_layers` layers.

        Raises:
            LayoutError: A boundary outside 0..N, an unknown state or norm, a final norm that is not at N,
                no taps, too many taps, or widths that do not pair with the taps.
        """
        if not 0 < len(self.taps) <= limits.layout_max_taps:
            raise LayoutError(
                "a layout has at least one tap",
                expected=f"1 to {limits.layout_max_taps} taps",
                actual=str(len(self.taps)),
            )
        if self.widths and len(self.widths) != len(self.taps):
            raise LayoutError("one width per tap", expected=str(len(self.taps)), actual=str(len(self.widths)))
        if any(width <= 0 for width in self.widths):
            raise LayoutError("tap widths are positive", expected="> 0", actual=str(min(self.widths)))
        if self.norm not in NORMS:
            raise LayoutError("unknown norm before fc", expected="|".join(NORMS), actual=self.norm)
        for tap in self.taps:
            _check_tap(tap, num_layers)
        return self


def _check_tap(tap: Tap, num_layers: int | None) -> None:
    if tap.state not in STATES:
        raise LayoutError("unknown tap state", expected="|".join(STATES), actual=tap.state)
    top = limits.target_max_layers if num_layers is None else num_layers
    if not 0 <= tap.boundary <= top:
        raise LayoutError(
            "boundary out of range",
            expected=f"0 to {top}",
            actual=f"{tap.boundary} (output of layer {tap.boundary - 1})",
        )
    if tap.state == FINAL_NORM and num_layers is not None and tap.boundary != num_layers:
        raise LayoutError(
            "the final norm is applied to the last boundary only", expected=str(num_layers), actual=str(tap.boundary)
        )


def layout_from_boundaries(
    boundaries: Iterable[int], *, width: int | None = None, norm: str = NORM_NONE, num_layers: int | None = None
) -> CaptureLayout:
    """A layout of residual taps in the given concatenation order.

    Args:
        boundaries: Boundary numbers, in concatenation order.
        width: The target's hidden size, if known.
        norm: One of `NORMS`.
        num_layers: N of the target, if known, for the range check.

    Raises:
        LayoutError: See `CaptureLayout.check`.
    """
    taps = tuple(Tap(boundary) for boundary in boundaries)
    widths = (width,) * len(taps) if width is not None else ()
    return CaptureLayout(taps, widths, norm).check(num_layers)


def layout_from_output_ids(
    output_ids: Iterable[int], *, width: int | None = None, norm: str = NORM_NONE, num_layers: int | None = None
) -> CaptureLayout:
    """As `layout_from_boundaries`, from output ids ("output of layer i"; -1 is the embedding)."""
    return layout_from_boundaries((i + 1 for i in output_ids), width=width, norm=norm, num_layers=num_layers)


def describe_taps(taps: Sequence[Tap]) -> str:
    """Taps in both numberings on one line: "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"."""
    if not taps:
        return "nothing"
    if any(tap.state != RESIDUAL for tap in taps):
        return ", ".join(tap.label() for tap in taps)
    plain = ", ".join(str(tap.boundary) for tap in taps)
    named = []
    for embedding, group in groupby(taps, key=lambda tap: tap.boundary == 0):
        ids = [str(tap.output_id) for tap in group]
        outputs = f"output of layer {ids[0]}" if len(ids) == 1 else f"outputs of layers {', '.join(ids)}"
        named.append("embedding output" if embedding else outputs)
    return f"{'boundary' if len(taps) == 1 else 'boundaries'} {plain} ({', '.join(named)})"
