"""Why a drafter is not accepted: causes, how sure each is, and the order in which to look at them. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from drafter_contracts.acceptance.records import AS_PROMISED, COLLAPSED, DEGRADED, TOO_LITTLE, Judgement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The rules of the check say so, by the engine's own source.
PROVED: Literal["proved"] = "proved"
#: The engine, its log or a file says so itself.
SEEN: Literal["seen"] = "seen"
#: It differs from what was promised or recorded; whether that costs acceptance nothing here tells.
POSSIBLE: Literal["possible"] = "possible"
Confidence = Literal["proved", "seen", "possible"]
CONFIDENCES: tuple[Confidence, ...] = ("proved", "seen", "possible")

NOTHING: Literal["nothing wrong found"] = "nothing wrong found"
FOUND: Literal["cause found"] = "cause found"
UNTOLD: Literal["cannot be told"] = "cannot be told"
Word = Literal["nothing wrong found", "cause found", "cannot be told"]

#: The cause that is named where acceptance is bad and everything that could be looked at is right.
UNEXPLAINED = "UNEXPLAINED"
#: What is looked at by values: the last word on layers, where it can be had.
STATES = "the states fed, by their numbers"
#: Acceptance is other than promised, or none at all.
BAD = (DEGRADED, COLLAPSED)
#: Beginnings of codes, in the order in which their causes explain a bad acceptance best.
_FIRST = (
    "ACCEPTANCE_SIMULATED",
    "SIMULATED_",
    "SPECULATION_OFF",
    "STATES_",
    "CAPTURE_",
    "FC_",
    "DRAFTER_",
    "DRAFT_",
    "NORM_",
    "METHOD_",
    "LAYOUT_",
    "TARGET_",
    "SPECULATION_",
)


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that is wrong, or may be.

    Attributes:
        code: Stable code: a rule's, or one of the doctor's own (docs/doctor.md).
        message: One sentence; layers in both numberings.
        confidence: How sure it is.
        evidence: What was read where, one line each.
        next: The one thing to do next.
        catalogue: Entries of the catalogue of field failures (R01 ...).
    """

    code: str
    message: str
    confidence: Confidence
    evidence: tuple[str, ...] = ()
    next: str = ""
    catalogue: tuple[str, ...] = ()


class Open(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that could not be looked at.

    Attributes:
        what: What.
        why: Why not.
        settle: What would settle it.
        decides: Whether nothing can be called right without it.
    """

    what: str
    why: str
    settle: str
    decides: bool = False


class Diagnosis(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a doctor says of one running engine.

    Attributes:
        schema: Name and version of this document.
        word: The whole in two or three words.
        source: Which engine: its URL, or the log and the launch.
        engine: "sglang 0.5.23".
        drafter: Which drafter.
        target: Which target.
        causes: Likeliest first.
        checked: What was looked at and found right, one line each.
        open: What could not be looked at.
        acceptance: Seen against promised; None where nothing was read.
        context: Where everything was taken from.
    """

    schema: Literal["drafters.diagnosis.v1"]
    word: Word
    source: str
    engine: str = ""
    drafter: str = ""
    target: str = ""
    causes: tuple[Cause, ...] = ()
    checked: tuple[str, ...] = ()
    open: tuple[Open, ...] = ()
    acceptance: Judgement | None = None
    context: dict[str, str] = {}


def rank(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The causes, likeliest first: the surer, then those that explain most; one of each code and message."""
    once: dict[tuple[str, str], Cause] = {}
    for one in causes:
        once.setdefault((one.code, one.message), one)
    return tuple(sorted(once.values(), key=_place))


def _place(cause: Cause) -> tuple[int, int]:
    weight = next((place for place, start in enumerate(_FIRST) if cause.code.startswith(start)), len(_FIRST))
    return CONFIDENCES.index(cause.confidence), weight


def is_bad(judgement: Judgement | None) -> bool:
    """Whether the acceptance seen is other than it should be."""
    return judgement is not None and (judgement.word in BAD or judgement.never_accepted)


def conclude(
    causes: Iterable[Cause], left_open: Sequence[Open], judgement: Judgement | None
) -> tuple[Word, tuple[Cause, ...]]:
    """The word, and the ranked causes it rests on.

    What is only possible is a cause where acceptance is bad; where it is as promised it costs nothing, and where it is
    not known it is said and does not decide. Bad acceptance with nothing that explains it is a finding of its own.

    Args:
        causes: Everything found, in any order.
        left_open: What could not be looked at.
        judgement: Seen against promised, or None.
    """
    ranked = rank(causes)
    bad = is_bad(judgement)
    if any(one.confidence != POSSIBLE for one in ranked):
        return FOUND, ranked
    if bad:
        return FOUND, ranked or (_unexplained(judgement, left_open),)
    if judgement is not None and judgement.word == AS_PROMISED:
        return (UNTOLD if any(one.decides for one in left_open) else NOTHING), ranked
    untold = judgement is None or judgement.word == TOO_LITTLE or any(one.decides for one in left_open)
    return (UNTOLD if untold else NOTHING), ranked


def _unexplained(judgement: Judgement | None, left_open: Sequence[Open]) -> Cause:
    settle = next((one.settle for one in left_open if one.what == STATES), "")
    return Cause(
        code=UNEXPLAINED,
        message="acceptance is bad, and everything that could be looked at is right",
        confidence=SEEN,
        evidence=(judgement.reason,) if judgement is not None and judgement.reason else (),
        next=settle or "drafters verify REFERENCE --url URL, against a canary that returns its states",
        catalogue=("R24", "R26", "R27"),
    )
