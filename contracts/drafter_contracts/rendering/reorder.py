"""A layout whose taps come in another order: what a drafter expects once its `fc` was permuted."""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_records import LayoutRecord
    from drafter_contracts.manifest_values import EvaluatedRecord, IdentifiedRecord

    T = TypeVar("T")


def permuted(values: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    """Values with `order[j]` at place j; none stay none.

    Raises:
        LayoutError: `order` is no permutation of the places of the values.
    """
    if not values:
        return ()
    if sorted(order) != list(range(len(values))):
        raise LayoutError("an order names every place once", expected=f"0..{len(values) - 1}", actual=str(list(order)))
    return tuple(values[place] for place in order)


def reordered(manifest: Manifest, order: Sequence[int]) -> Manifest:
    """The contract of a drafter whose `fc` blocks were put in another order; an empty order changes nothing.

    Raises:
        LayoutError: The manifest's layout has another number of taps.
    """
    if not order or manifest.layout is None:
        return manifest
    return msgspec.structs.replace(manifest, layout=_reordered(manifest.layout, order))


def _reordered(record: LayoutRecord, order: Sequence[int]) -> LayoutRecord:
    return msgspec.structs.replace(
        record,
        boundaries=permuted(record.boundaries, order),
        states=permuted(record.states, order),
        widths=permuted(record.widths, order),
        output_ids=permuted(record.output_ids, order),
        identified=_identified(record, order),
        evaluated=_evaluated(record, order),
    )


def _identified(record: LayoutRecord, order: Sequence[int]) -> IdentifiedRecord | None:
    told = record.identified
    return None if told is None else msgspec.structs.replace(told, taps=permuted(told.taps, order))


def _evaluated(record: LayoutRecord, order: Sequence[int]) -> EvaluatedRecord | None:
    """The stated layout moves with the weights; the other ones were tried on the version's own order and stay."""
    told = record.evaluated
    if told is None:
        return None
    stated = msgspec.structs.replace(
        told.stated, boundaries=permuted(told.stated.boundaries, order), states=permuted(told.stated.states, order)
    )
    return msgspec.structs.replace(told, stated=stated)
