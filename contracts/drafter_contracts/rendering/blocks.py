"""Which tensors of a drafter belong to single taps, and where their parts go when the taps come in another order.

Known by name and confirmed by shape. Whatever might read the concatenation and is not understood stands in the way of
another order: a tensor that is left as it was would meet the wrong state without any message.
"""

from __future__ import annotations

from math import prod

import msgspec

from drafter_contracts.checkpoint.parts import CHUNK_NORMS, CONCATENATION_NORM
from drafter_contracts.checkpoint.skeleton import DTYPE_BYTES
from drafter_contracts.checkpoint.tensors import described, short_name
from drafter_contracts.errors import RenderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drafter_contracts.checkpoint.facts import TensorFact

#: The modules that read the concatenation. vLLM and SGLang: `fc`; DeepSeek-V4's DSPARK stage: `main_proj`.
_FUSIONS = ("fc", "mtp.0.main_proj")
#: Dtypes with one element per column. Packed ones (U8, I32: two or more columns in one element) are not among them.
_PLAIN = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I8")
#: What may stand beside a fusion's weight if it is one number for each row (columns may then move) ...
_PER_ROW = ("weight_scale", "weight_scale_inv", "weight_zero_point")
#: ... or one number alone.
_SINGLE = (*_PER_ROW, "weight_scale_2", "input_scale")
#: P-EAGLE's state for positions that are only drafted: as wide as the concatenation.
_MASKS = ("mask_hidden", "mask_hidden.weight")
#: How the forerunner of `fc_norm` calls its three norms (SGLang 0.5.23, `llama_eagle3.py: legacy_name_map`).
_LEGACY_PLACES = {"low": 0, "mid": 1, "high": 2}
#: Parts of names that speak of the concatenation; elsewhere than expected they are not understood.
_TELLING = {
    "fc", "main_proj", "fc_norm", "input_norm", "mask_hidden", "aux_hidden_norms",
    "aux_norm_low", "aux_norm_mid", "aux_norm_high",
}  # fmt: skip
#: Modules behind the fusion, which never see the concatenation.
_BEHIND = (
    "layers.", "midlayer.", "mtp.", "mtp_layers.", "norm.", "hidden_norm.", "lm_head.", "embed_tokens.", "embedding.",
    "shared_head.", "markov_head.", "confidence_head.", "candidate_selector.", "d2t", "t2d",
)  # fmt: skip


class Move(msgspec.Struct, frozen=True):
    """Where the data of one tensor come from once the taps are in another order.

    Attributes:
        name: The tensor, by its name in the checkpoint.
        source: The tensor of the checkpoint whose data it gets.
        rows: Rows of the data; each consists of the blocks of `widths`.
        widths: Elements of each block of a row as it lies in the checkpoint; empty: the data are taken as they are.
    """

    name: str
    source: str
    rows: int = 1
    widths: tuple[int, ...] = ()


def moves(tensors: Iterable[TensorFact], order: Sequence[int], widths: Sequence[int] = ()) -> tuple[Move, ...]:
    """Where data go when block j of the concatenation is what was its block `order[j]`; tensors not named stay.

    Args:
        tensors: All tensors of the drafter.
        order: A permutation of the taps' places.
        widths: Width of each tap, elements, in the drafter's own order; empty for taps of one width.

    Raises:
        RenderError: Something in the way; everything that is, is named.
    """
    found, faults = _judged(tuple(tensors), tuple(order), tuple(widths))
    if faults:
        raise RenderError(
            f"the taps cannot be put in another order: {'; '.join(faults)}",
            expected="tensors that belong to a tap by name and shape, not packed, scales per row",
            actual=f"{len(faults)} in the way",
        )
    return found


def order_faults(tensors: Iterable[TensorFact], order: Sequence[int], widths: Sequence[int] = ()) -> tuple[str, ...]:
    """Everything that stands in the way of another order, one phrase each; arguments as of `moves`."""
    return _judged(tuple(tensors), tuple(order), tuple(widths))[1]


class _Case(msgspec.Struct):
    """What is being judged, and what was found so far."""

    order: tuple[int, ...]
    widths: tuple[int, ...]
    found: list[Move] = []
    faults: list[str] = []

    @property
    def total(self) -> int:
        return sum(self.widths)

    def refuse(self, tensor: TensorFact, why: str) -> None:
        self.faults.append(f"{described(tensor)} {tensor.dtype}: {why}")


def _judged(
    tensors: tuple[TensorFact, ...], order: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    if sorted(order) != list(range(len(order))) or not order:
        return (), (f"{list(order)} is no order of places",)
    case = _Case(order, widths)
    fusion = _fusion(case, tensors)
    if fusion is None:
        return (), tuple(case.faults)
    norms: dict[str, dict[int, TensorFact]] = {}
    for tensor in sorted(tensors, key=lambda one: one.name):
        if tensor is not fusion:
            _judge(case, tensor, fusion, norms)
    for family, members in norms.items():
        _chunk_norms(case, family, members)
    return tuple(case.found), tuple(case.faults)


def _fusion(case: _Case, tensors: tuple[TensorFact, ...]) -> TensorFact | None:
    """The one matrix that reads the concatenation; its widths are settled with it."""
    found = [tensor for tensor in tensors if short_name(tensor.name) in {f"{name}.weight" for name in _FUSIONS}]
    if len(found) != 1:
        names = [tensor.name for tensor in found] or sorted(
            tensor.name for tensor in tensors if short_name(tensor.name).startswith(_prefixes(_FUSIONS))
        )
        case.faults.append(f"one fc.weight is needed, found {', '.join(names) or 'none'}")
        return None
    fusion = found[0]
    if len(fusion.shape) != 2 or fusion.dtype not in _PLAIN:
        case.refuse(fusion, "no plain matrix: its columns are packed or flat")
        return None
    rows, columns = fusion.shape
    taps = len(case.order)
    if not case.widths and columns % taps == 0:
        case.widths = (columns // taps,) * taps
    if len(case.widths) != taps or case.total != columns or min(case.widths) < 1:
        told = f"taps of widths {list(case.widths)}" if case.widths else f"{taps} taps of one width"
        case.refuse(fusion, f"its columns are not those of {told}")
        return None
    case.found.append(Move(fusion.name, fusion.name, rows, case.widths))
    return fusion


def _prefixes(modules: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}." for name in modules)


def _judge(case: _Case, tensor: TensorFact, fusion: TensorFact, norms: dict[str, dict[int, TensorFact]]) -> None:
    name = short_name(tensor.name)
    module = short_name(fusion.name).removesuffix("weight")
    if name.startswith(module):
        _companion(case, tensor, name.removeprefix(module), fusion)
    elif name == CONCATENATION_NORM:
        _whole(case, tensor)
    elif name.startswith(CHUNK_NORMS):
        family, place = _place(name)
        if place is None or place in norms.get(family, ()):
            case.refuse(tensor, "which tap this norm belongs to is not understood")
        else:
            norms.setdefault(family, {})[place] = tensor
    elif name in _MASKS:
        _whole(case, tensor)
    elif _TELLING & set(name.split(".")) or (not name.startswith(_BEHIND) and _may_read(case, tensor)):
        case.refuse(tensor, "whether it depends on the order of the taps is not known")


def _companion(case: _Case, tensor: TensorFact, part: str, fusion: TensorFact) -> None:
    """What else belongs to the fusion: untouched if it is one number, or one for each row."""
    rows, columns = fusion.shape
    per_row = tensor.shape in {(rows,), (rows, 1)} and rows != columns
    if part == "bias" and tensor.shape == (rows,):
        return
    if (part in _SINGLE and prod(tensor.shape) == 1) or (part in _PER_ROW and per_row):
        return
    case.refuse(tensor, "a quantised fc whose scales are not one for each row cannot be put in another order")


def _whole(case: _Case, tensor: TensorFact) -> None:
    """A vector over the whole concatenation."""
    taps = len(case.order)
    flat = tensor.shape[-1:] == (case.total,)
    by_tap = tensor.shape[-2:] == (taps, case.widths[0]) and len(set(case.widths)) == 1
    if prod(tensor.shape) != case.total or not (flat or by_tap) or tensor.dtype not in _PLAIN:
        case.refuse(tensor, f"not a vector of {case.total} elements, as many as fc has columns")
        return
    case.found.append(Move(tensor.name, tensor.name, 1, case.widths))


def _place(name: str) -> tuple[str, int | None]:
    """The family of a norm, and the place of the tap that it belongs to; None if that cannot be told."""
    family = next(prefix for prefix in CHUNK_NORMS if name.startswith(prefix))
    place, _, part = name.removeprefix(family).partition(".")
    if part != "weight":
        return family, None
    if family == "aux_norm_":
        return family, _LEGACY_PLACES.get(place)
    return family, int(place) if place.isdecimal() and str(int(place)) == place else None


def _chunk_norms(case: _Case, family: str, members: dict[int, TensorFact]) -> None:
    """Norms of single taps: each gets the data of the tap that comes to its place."""
    taps = len(case.order)
    if sorted(members) != list(range(taps)):
        case.faults.append(f"{family}*: one norm for each of {taps} taps is needed, found {sorted(members)}")
        return
    for place, tensor in members.items():
        if tensor.shape != (case.widths[place],) or tensor.dtype not in DTYPE_BYTES:
            case.refuse(tensor, f"not the norm of a tap of width {case.widths[place]}")
    case.found.extend(
        Move(members[place].name, members[source].name) for place, source in enumerate(case.order) if place != source
    )


def _may_read(case: _Case, tensor: TensorFact) -> bool:
    """Whether a tensor of an unknown name has a size that could be the concatenation's or the number of taps."""
    return prod(tensor.shape) == case.total or bool({case.total, len(case.order)} & set(tensor.shape))
