"""From draft tokens to target tokens. Shapes: D draft tokens, V target tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from drafter_contracts.errors import ContradictionError, UnsupportedDrafterError

OFFSET, ABSOLUTE, NONE = "offset", "absolute", "none"


@dataclass(frozen=True, kw_only=True)
class Maps:
    """What a drafter says of its vocabulary.

    Attributes:
        where: The drafter's directory, for messages.
        size: D: rows of the head.
        target_size: V: rows of the target's embedding.
        config_size: `vocab_size` of the drafter's config, or None.
        encoding: How `d2t` is written: "offset" (target = i + d2t[i]), "absolute", or "" where nobody says it.
        d2t: int [D], or None.
        t2d: bool [V], or None.
    """

    where: str
    size: int
    target_size: int
    config_size: int | None = None
    encoding: str = ""
    d2t: torch.Tensor | None = None
    t2d: torch.Tensor | None = None


def target_ids(maps: Maps) -> torch.Tensor | None:
    """Target id of every draft token, int64 [D]; None where the two vocabularies are one.

    Raises:
        ContradictionError: A map of another length, ids that are out of range or repeated, or two maps that disagree.
        UnsupportedDrafterError: A reduced vocabulary without a map, or with one that nobody filled in.
    """
    if maps.d2t is None:
        return _without_d2t(maps)
    written = maps.d2t.to(torch.int64).flatten()
    if len(written) != maps.size:
        raise ContradictionError(
            "d2t has not one entry per draft token",
            where=maps.where,
            expected=f"{maps.size} rows of the head",
            actual=f"d2t [{len(written)}]",
        )
    selected = None if maps.t2d is None else maps.t2d.flatten().nonzero().flatten()
    if maps.size < maps.target_size and not written.any() and not _is_start(selected, maps.size):
        raise UnsupportedDrafterError(
            "d2t is all zeros though the vocabulary is reduced: nobody filled it in, and which tokens the drafter "
            "proposes is not known; the map it was trained with settles it",
            where=maps.where,
            expected=f"target ids of {maps.size} draft tokens",
            actual="d2t of zeros",
        )
    encoding = maps.encoding or OFFSET
    readings = {OFFSET: written + torch.arange(len(written)), ABSOLUTE: written}
    problems = {name: _problem(ids, maps, selected) for name, ids in readings.items()}
    if encoding not in readings:
        raise ContradictionError(
            "d2t is there, and the manifest says that the vocabularies are one",
            where=maps.where,
            expected="vocab_mapping offset or absolute",
            actual=encoding,
        )
    if problems[encoding]:
        other = next(name for name in readings if name != encoding)
        advice = "" if problems[other] else f"; read as {other} it fits: vocab_mapping of the manifest can say so"
        raise ContradictionError(
            f"d2t, read as {encoding}, {problems[encoding]}{advice}",
            where=maps.where,
            expected=f"distinct target ids below {maps.target_size}",
            actual=f"d2t {written[:5].tolist()}...",
        )
    return readings[encoding]


def _without_d2t(maps: Maps) -> torch.Tensor | None:
    if maps.size in (maps.target_size, maps.config_size):
        return None
    if maps.t2d is not None:
        selected = maps.t2d.flatten().nonzero().flatten()
        if len(selected) == maps.size and len(maps.t2d.flatten()) <= maps.target_size:
            return selected
    raise UnsupportedDrafterError(
        "a draft vocabulary that is not the target's, and no d2t that says which tokens it holds",
        where=maps.where,
        expected=f"d2t [{maps.size}], or a head of {maps.target_size} rows",
        actual=f"a head of {maps.size} rows",
    )


def _is_start(selected: torch.Tensor | None, size: int) -> bool:
    return selected is not None and torch.equal(selected, torch.arange(size))


def _problem(ids: torch.Tensor, maps: Maps, selected: torch.Tensor | None) -> str:
    """What is wrong with a reading, or ""."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= maps.target_size:
        return f"names target ids from {low} to {high}"
    if len(torch.unique(ids)) != len(ids):
        return "names a target id more than once"
    if selected is not None and not torch.equal(ids.sort().values, selected):
        return "names other target ids than t2d does"
    return ""
