"""What `drafters verify` says: one document, and the same for a person."""

from __future__ import annotations

from typing import Literal

import msgspec

from drafter_contracts.layout import describe_taps
from drafter_contracts.values.fingerprints import (
    DIFFERENT,
    SAME,
    UNKNOWN,
    Resemblance,
    TapComparison,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


SCHEMA: Literal["drafters.verification.v1"] = "drafters.verification.v1"


class Verification(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whether states are those of a fingerprint.

    Attributes:
        schema: Name and version of this document.
        drafter: Whose fingerprint: reference, directory or file.
        source: Where the states come from: the engine's URL, or a file.
        engine: "sglang 0.5.23", or "".
        asked_ids: Ids that the engine says it captures; None if it does not say.
        found: "same", "not the same" or "unknown".
        taps: Tap by tap, in ascending layer order, as the states are concatenated.
        chunks: What each state resembles, where there is not one per tap.
        reason: Why not, or why it cannot be told.
        settle: What would settle it.
    """

    schema: Literal["drafters.verification.v1"]
    drafter: str
    source: str
    engine: str = ""
    asked_ids: tuple[int, ...] | None = None
    found: Literal["same", "not the same", "unknown"]
    taps: tuple[TapComparison, ...] = ()
    chunks: tuple[Resemblance, ...] = ()
    reason: str = ""
    settle: str = ""


def verdict(taps: Sequence[TapComparison]) -> Literal["same", "not the same", "unknown"]:
    """The whole from its parts: one that differs decides, then one that cannot be told."""
    found = {one.found for one in taps}
    if DIFFERENT in found or not found:
        return DIFFERENT
    return UNKNOWN if UNKNOWN in found else SAME


def reason_of(taps: Sequence[TapComparison]) -> str:
    """What is fed instead, in both numberings."""
    if all(one.found == SAME for one in taps):
        return ""
    if all(one.resembles.is_it for one in taps) and verdict(taps) == DIFFERENT:
        wanted, got = describe_taps([one.tap for one in taps]), describe_taps([one.resembles.tap for one in taps])
        return f"{got}, not {wanted}"
    return "; ".join(f"{one.tap.label()}: {_instead(one)}" for one in taps if one.found != SAME)


def lines(found: Verification) -> list[str]:
    """The document for a person."""
    where = f"{found.engine} at {found.source}" if found.engine else found.source
    told = [f"{found.found.upper()}  {found.drafter}: {where}"]
    if found.reason:
        told.append(f"  {found.reason}")
    for one in found.taps:
        detail = f"error {_short(one.error)} (same up to {_short(one.tolerance)})"
        detail += "" if one.rows_near == one.rows else f", {one.rows - one.rows_near} of {one.rows} tokens far off"
        if one.found != SAME:
            detail += f"; {_instead(one)}"
            if not 0.9 < one.norm_ratio < 1.1:
                detail += f"; its norm is {one.norm_ratio:.3g} times what it should be"
        told.append(f"  {one.found:<13} {one.tap.label()}: {detail}")
    told += [f"  state {number}: {_resembled(one)}" for number, one in enumerate(found.chunks)]
    if found.asked_ids is not None and found.found != SAME:
        told.append(f"  the engine was given the ids {', '.join(map(str, found.asked_ids))}")
    settles = dict.fromkeys(filter(None, (found.settle, *(one.settle for one in found.taps))))
    told += [f"  next: {settle}" for settle in settles]
    return told


def _instead(one: TapComparison) -> str:
    if one.reason:
        return one.reason
    return f"it is {_resembled(one.resembles)}" if one.resembles.is_it else _resembled(one.resembles)


def _resembled(one: Resemblance) -> str:
    if one.is_it:
        return f"{one.tap.label()}, error {_short(one.error)}"
    return f"none of the target's states; the nearest is {one.tap.label()}, error {_short(one.error)}"


def _short(number: float) -> str:
    return f"{number:.2g}"
