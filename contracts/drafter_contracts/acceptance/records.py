"""Values of the third gate: readings of an engine, the conditions under which they are had, and the judgement.

*Length* is everywhere the mean number of tokens per verify step, the target's own (bonus) token included: 1 is an
engine whose drafter is never right. It is the one figure that all releases report alike.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from drafter_contracts.value_types import Count, Size

AS_PROMISED: Final = "as promised"
DEGRADED: Final = "degraded"
COLLAPSED: Final = "collapsed"
TOO_LITTLE: Final = "too little seen"
NOT_PROMISED: Final = "nothing promised"
Word = Literal["as promised", "degraded", "collapsed", "too little seen", "nothing promised"]

Length = Annotated[float, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Conditions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Under what an acceptance is had. Empty or None: not known.

    Attributes:
        engine: "sglang" or "vllm".
        release: "0.5.23".
        method: Method of speculation, as `checkpoint.facts.METHODS` writes it.
        steps: `--speculative-num-steps` in force.
        topk: `--speculative-eagle-topk` in force.
        draft_tokens: `--speculative-num-draft-tokens` in force, the root included.
        target_model: The target's name.
        target_revision: Commit of its repository.
        target_dtype: Dtype in which it runs.
        target_quantization: Its quantisation.
        workload: What is generated: a dataset's or a service's name.
        temperature: Sampling temperature.
    """

    engine: str = ""
    release: str = ""
    method: str = ""
    steps: Count | None = None
    topk: Count | None = None
    draft_tokens: Count | None = None
    target_model: str = ""
    target_revision: str = ""
    target_dtype: str = ""
    target_quantization: str = ""
    workload: str = ""
    temperature: float | None = None


class Reading(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One report of an engine: a log line, or the difference of two answers.

    Attributes:
        length: Mean tokens per verify step since the report before.
        verify_steps: Verify steps that it is the mean of; None where the engine does not tell.
        time: When, Unix seconds; None if the source does not say.
        positions: Share of steps in which at least the first, second, ... drafted token was accepted; empty if
            not told.
        rank: Data-parallel rank, or "".
        running: Requests in the batch, or None.
        source: Where it was read.
    """

    length: float
    verify_steps: Size | None = None
    time: float | None = None
    positions: tuple[float, ...] = ()
    rank: str = ""
    running: int | None = None
    source: Literal["log", "server info", "metrics"] = "log"


class EngineState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a running engine says of itself.

    Attributes:
        engine: "sglang" or "vllm".
        release: Its version, or "".
        arguments: Its effective arguments, as it reports them.
        conditions: What of them decides an acceptance.
        lengths: Per data-parallel rank: the engine's own mean length since its start; None per rank that told none.
            In the order in which the ranks answered: SGLang does not number them.
        simulated: Why its figures are made up (`SGLANG_SIMULATE_ACC_LEN`), or "".
        speculating: Whether speculation is in force; None if it does not tell.
    """

    engine: str
    release: str = ""
    arguments: dict[str, Any] = {}
    conditions: Conditions = Conditions()
    lengths: tuple[float | None, ...] = ()
    simulated: str = ""
    speculating: bool | None = None


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What one engine was seen to accept in one hour or less: what is sent to a registry.

    Attributes:
        hour: Beginning of the hour, ISO 8601, UTC ("2026-11-29T14:00:00Z").
        instance: Which engine, as its operator calls it; never more than a name.
        conditions: Under what.
        readings: Reports of the engine in it.
        verify_steps: Verify steps in all; None if the engine does not tell.
        length: Mean over the readings, each by its verify steps where they are told.
        lowest: Lowest reading.
        highest: Highest reading.
        positions: As `Reading.positions`, mean.
    """

    hour: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:00:00Z$")]
    instance: Annotated[str, msgspec.Meta(max_length=128)] = ""
    conditions: Conditions = Conditions()
    readings: Count
    verify_steps: Size | None = None
    length: Length
    lowest: Length
    highest: Length
    positions: tuple[Share, ...] = ()


class Judgement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Seen against promised.

    Attributes:
        word: The verdict.
        never_accepted: The length is about 1: no drafted token is accepted.
        seen: Mean length seen (over blocks of readings, as the bounds are), or None if nothing was.
        low: Lower bound of the true length, valid at every moment with the error rate `alpha`.
        high: Upper bound, likewise.
        alpha: Chance that the bounds are ever wrong.
        readings: Readings judged.
        verify_steps: Verify steps in them; None if not told.
        promised: Promised length, or None.
        promise: Which promise, in words.
        differs: How its conditions differ from those seen, one line each.
        reason: The verdict in one sentence.
        settle: What would settle `too little seen` or `nothing promised`, or "".
    """

    word: Word
    never_accepted: bool = False
    seen: float | None = None
    low: float | None = None
    high: float | None = None
    alpha: float
    readings: int
    verify_steps: int | None = None
    promised: float | None = None
    promise: str = ""
    differs: tuple[str, ...] = ()
    reason: str = ""
    settle: str = ""
