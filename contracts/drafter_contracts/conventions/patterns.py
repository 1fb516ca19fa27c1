"""Well-known id lists: a list that equals one of them says something of who wrote it."""

from __future__ import annotations

from drafter_contracts.errors import LayoutError
from drafter_contracts.numberings import numbering

Ids = tuple[int, ...]


def default_outputs(n: int) -> Ids:
    """The trainers' default on n layers as output ids, [1, n//2-1, n-4]; empty where the target is too shallow."""
    return _default("specforge", n)


def default_boundaries(n: int) -> Ids:
    """The engines' default on n layers as boundaries, [2, n//2, n-3]; empty where the target is too shallow."""
    return _default("vllm", n)


def is_default_outputs(ids: Ids, n: int | None) -> bool:
    """Whether ids are the default written as output ids; without a depth: for some depth."""
    return ids != () and any(ids == default_outputs(depth) for depth in _depths(n, ids[-1] + 4))


def is_default_boundaries(ids: Ids, n: int | None) -> bool:
    """Whether ids are the default written as boundaries; without a depth: for some depth."""
    return ids != () and any(ids == default_boundaries(depth) for depth in _depths(n, ids[-1] + 3))


def is_mixed_default(ids: Ids, n: int | None) -> bool:
    """Whether two ids are the default as outputs and the last one is the default as a boundary: [1, n//2-1, n-3].

    Only a known depth can tell: without it, [1, 29, 57] is the default of 61 layers and the mix of 60.
    """
    return n is not None and default_outputs(n)[:2] == ids[:2] and default_boundaries(n)[2:] == ids[2:] != ()


def even_outputs(n: int, count: int) -> Ids:
    """z-lab's formula for DFLASH: `count` output ids spread evenly from 1 to n-3 (dflash/model.py)."""
    if count == 1:
        return (n // 2,)
    return tuple(round(1 + i * (n - 4) / (count - 1)) for i in range(count))


def is_even(ids: Ids, n: int | None, *, shift: int = 0) -> bool:
    """Whether ids, less `shift`, are z-lab's evenly spread output ids; without a depth: for some depth."""
    if len(ids) < 3:
        return False
    plain = tuple(i - shift for i in ids)
    return any(plain == even_outputs(depth, len(ids)) for depth in _depths(n, plain[-1] + 3))


def _default(name: str, n: int) -> Ids:
    try:
        return numbering(name).default_ids(n)
    except LayoutError:
        return ()


def _depths(n: int | None, implied: int) -> tuple[int, ...]:
    """The known depth, or the one that the last id implies if the list is the default."""
    return (implied if n is None else n,)
