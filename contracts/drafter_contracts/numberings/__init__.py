"""The layer numberings of the field, and the conversion of each to taps and back.

The same number names different states: "2" is the input of layer 2 in vLLM's config key and the output of
layer 2 in SGLang's. Each numbering is one row of `table.NUMBERINGS`: how an id becomes a boundary, which ids
exist on a target of N layers, what is special at the ends, what the producer does when no ids are given, who
uses it in which versions, under which key, and the source that says so. `docs/numberings.md` is made from it.
"""

from __future__ import annotations

from drafter_contracts.errors import LayoutError
from drafter_contracts.numberings.numbering import ASCENDING, LISTED, Numbering, Special
from drafter_contracts.numberings.table import NUMBERINGS

__all__ = ["ASCENDING", "LISTED", "NUMBERINGS", "Numbering", "Special", "numbering"]


def numbering(name: str) -> Numbering:
    """The numbering of this name.

    Raises:
        LayoutError: There is none.
    """
    found = NUMBERINGS.get(name)
    if found is None:
        raise LayoutError("unknown numbering", expected=", ".join(NUMBERINGS), actual=name)
    return found
