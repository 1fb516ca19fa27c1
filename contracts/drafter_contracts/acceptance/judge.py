"""Seen against promised, in one word whose error rate is known. docs/acceptance.md has the words' exact meaning."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from drafter_contracts.acceptance.blocks import (
    BLOCK_READINGS,
    BLOCK_STEPS,
    Blocks,
    amount,
    blocks,
    counting,
    impossible,
)
from drafter_contracts.acceptance.confidence import Mean, needed
from drafter_contracts.acceptance.promises import Promise, Promised, drafted_tokens, drafts_block, nearest
from drafter_contracts.acceptance.records import (
    AS_PROMISED,
    COLLAPSED,
    DEGRADED,
    NOT_PROMISED,
    TOO_LITTLE,
    Conditions,
    Judgement,
    Reading,
    Word,
)
from drafter_contracts.manifest_records import Acceptance

#: Chance that a word is wrong, however long and often one looks.
ALPHA = 0.01
#: Share of the promised gain (length less 1) that must be there; of an estimate on recorded states less.
KEPT = 0.9
KEPT_OF_ESTIMATE = 0.8
#: Less than this share of it is a collapse.
LEFT = 0.5
#: Bounds this near to the border, as shares of the promised gain, decide by the mean: on which side matters no more.
INDIFFERENT = 0.05
#: Never accepted: a mean below the first, and an upper bound below the second (tokens per step).
NEVER_SEEN = 1.1
NEVER_HIGH = 1.5
#: Fewer blocks decide nothing, whatever they say.
LEAST_BLOCKS = 10
#: No forecast beyond so many times what was seen.
_FORECAST = 200.0
_LOOK = "`drafters doctor` looks for the cause"


class _Told(msgspec.Struct, frozen=True):
    """A word, and whether it is one of no drafted token accepted, or of bounds that lie about the border.

    `lately`: of so many last readings alone; 0 if of all. `reached`: `seen`, `low` and `high` of these.
    """

    word: Word
    never: bool = False
    about: bool = False
    lately: int = 0
    reached: tuple[float, float, float] | None = None


class _Bands(msgspec.Struct, frozen=True):
    """Borders between the words as observations, shares of the K drafted tokens; none where nothing is promised."""

    drafted: int
    gain: float | None
    kept: float

    def at(self, share: float) -> float:
        """The observation at which this share of the promised gain is there."""
        return share * (self.gain or 0.0) / self.drafted


def judge(
    readings: Iterable[Reading],
    promises: Iterable[Promise | Acceptance],
    conditions: Conditions,
    *,
    alpha: float = ALPHA,
    simulated: str = "",
) -> Judgement:
    """What is seen against the nearest promise.

    Args:
        readings: In the order in which they came, all under the same conditions. They are judged together: hand over
            a window (an hour, say). A collapse at its end is looked for; less than that shows only when all is worse.
        promises: All that there are for this drafter.
        conditions: Under which the engine runs.
        alpha: Chance that the bounds are ever wrong, however often this is asked while readings are added.
        simulated: Why the engine's figures are made up, or "".
    """
    readings = tuple(readings)
    promised = nearest(promises, conditions)
    counted = blocks(readings)
    base = Judgement(
        word=TOO_LITTLE,
        alpha=alpha,
        readings=counted.readings,
        verify_steps=counted.verify_steps,
        promised=promised.length if promised else None,
        promise=promised.shown() if promised else "",
        differs=promised.differs if promised else (),
    )
    if simulated:
        reason = f"the engine's acceptance is made up ({simulated}): nothing of it counts"
        return _with(base, reason=reason, settle="start the engine without it")
    if counted.seen is None:
        reason, settle = "no reading in which anything was verified", "send the engine requests"
        return _with(base, reason=reason, settle=settle)
    drafted = _drafted(conditions, readings, promised)
    wrong = impossible(counting(readings), drafted)
    if wrong:
        settle = "say how many tokens are drafted per step (the engine's own arguments tell it), or mend the source"
        return _with(base, reason=wrong, settle=settle)
    base = _with(base, seen=counted.seen)
    if drafted is None:
        reason = f"{counted.seen:.2f} tokens per step seen, and nothing says how many are drafted"
        settle = "state the steps in force (the engine's own arguments tell them), or record them in the promise"
        return _with(base, reason=reason, settle=settle)
    return _judged(base, counted, drafted, promised)


def _drafted(conditions: Conditions, readings: tuple[Reading, ...], promised: Promised | None) -> int | None:
    """Drafted tokens per path: of the engine, by its readings' positions, or by the promise."""
    longest = max((len(reading.positions) for reading in readings), default=0)
    block = drafts_block(conditions)
    known = drafted_tokens(conditions.steps, conditions.draft_tokens, (0.0,) * longest, block=block)
    return known if known is not None or promised is None else promised.drafted


def _judged(base: Judgement, counted: Blocks, drafted: int, promised: Promised | None) -> Judgement:
    mean = _mean(counted.lengths, drafted)
    low, high = (1 + bound * drafted for bound in mean.bounds(base.alpha))
    # What the bounds are of: full blocks, each alike.
    seen = 1 + mean.mean * drafted if mean.count else base.seen
    base = _with(base, seen=seen, low=low, high=high)
    gain = promised.length - 1 if promised and promised.length is not None else None
    bands = _Bands(drafted, gain, KEPT_OF_ESTIMATE if promised and promised.teacher_forced else KEPT)
    told = _told(mean, bands, base.alpha)
    if told is None or told.word != COLLAPSED:
        told = _lately(counted, bands, base.alpha) or told
    if told is not None:
        reason = _reason(base, bands, told)
        if told.reached is not None:
            seen, low, high = told.reached
            base = _with(base, seen=seen, low=low, high=high)
        return _with(base, word=told.word, never_accepted=told.never, reason=reason)
    if gain is None and mean.count >= LEAST_BLOCKS:
        return _unpromised(base, promised)
    reason = f"{_figures(base)}: too little to tell"
    return _with(base, reason=reason, settle=_forecast(mean, bands, base, counted))


def _mean(lengths: Iterable[float], drafted: int) -> Mean:
    mean = Mean()
    for length in lengths:
        mean.add((length - 1) / drafted)
    return mean


def _told(mean: Mean, bands: _Bands, alpha: float, times: float = 1.0) -> _Told | None:
    """The word that the bounds allow, or None; `times`: as if everything had been seen so often."""
    if mean.count * times < LEAST_BLOCKS:
        return None
    enough = needed(alpha)

    # The mean itself is looked at first because it costs nothing: there is no evidence against what it agrees with.
    def above(candidate: float) -> bool:
        return mean.mean > candidate and mean.above(candidate, times=times) >= enough

    def below(candidate: float) -> bool:
        return mean.mean < candidate and mean.below(candidate, times=times) >= enough

    collapsed = _collapsed(mean, bands, enough + math.log(2), times)
    if collapsed is not None or bands.gain is None:
        return collapsed
    border = bands.at(bands.kept)
    if above(border):
        return _Told(AS_PROMISED)
    if below(border):
        return _Told(DEGRADED)
    if above(bands.at(bands.kept - INDIFFERENT)) and below(bands.at(bands.kept + INDIFFERENT)):
        return _Told(AS_PROMISED if mean.mean >= border else DEGRADED, about=True)
    return None


def _collapsed(mean: Mean, bands: _Bands, enough: float, times: float = 1.0) -> _Told | None:
    """Whether nothing, or less than `LEFT` of the promised gain, is accepted by this much evidence."""
    never = (NEVER_HIGH - 1) / bands.drafted
    # Of a drafter that is promised next to nothing, next to nothing is as promised.
    little = bool(bands.gain) and mean.mean >= bands.at(LEFT)
    if not little and mean.mean < (NEVER_SEEN - 1) / bands.drafted and mean.below(never, times=times) >= enough:
        return _Told(COLLAPSED, never=True)
    left = bands.at(LEFT)  # 0 where nothing is promised: no mean is below it
    if mean.mean < left and mean.below(left, times=times) >= enough:
        return _Told(COLLAPSED)
    return None


def _lately(counted: Blocks, bands: _Bands, alpha: float) -> _Told | None:
    """Whether what came last is a collapse, whatever was before: from each `LEAST_BLOCKS`-th block on.

    A quarter of `alpha` is for these looks; the k-th of them has 1 / (k * (k + 1)) of it, which adds up to all. The
    longest stretch is told, but one in which nothing is accepted before any other.
    """
    longest = None
    for number, start in enumerate(range(LEAST_BLOCKS, len(counted.lengths) - LEAST_BLOCKS + 1, LEAST_BLOCKS), 1):
        tail = _mean(counted.lengths[start:], bands.drafted)
        part = alpha / (2 * number * (number + 1))
        told = _collapsed(tail, bands, needed(part))
        if told is not None:
            reached = tuple(1 + bands.drafted * value for value in (tail.mean, *tail.bounds(part)))
            lately = counted.ends[-1] - counted.ends[start - 1]
            told = msgspec.structs.replace(told, lately=lately, reached=reached)
            if told.never:
                return told
            longest = longest or told
    return longest


def _reason(base: Judgement, bands: _Bands, told: _Told) -> str:
    if told.reached is not None:
        seen, _, high = told.reached
        words = "never accepted lately" if told.never else "collapsed lately"
        promised = f", {base.promised:.2f} promised" if base.promised is not None else ""
        last = f"{seen:.2f} tokens per step in the last {told.lately} readings, {high:.2f} at most"
        return f"{words}: {last}; {_seen(base)} in all {base.readings}{promised}; {_LOOK}"
    if told.never:
        promised = f"; {base.promised:.2f} were promised" if base.promised is not None else ""
        return f"never accepted: {_seen(base)}, and an engine without a drafter gives 1{promised}; {_LOOK}"
    missing = f"{1 - bands.kept:.0%} of the promised gain"
    if told.about:
        words = f"about {missing} is missing, which is as much as may be"
    elif told.word == AS_PROMISED:
        words = f"no more than {missing} is missing"
    elif told.word == DEGRADED:
        words = f"more than {missing} is missing"
    else:
        words = f"more than {1 - LEFT:.0%} of the promised gain is missing"
    return f"{_figures(base)}: {words}" + ("" if told.word == AS_PROMISED else f"; {_LOOK}")


def _unpromised(base: Judgement, promised: Promised | None) -> Judgement:
    if promised is None:
        reason = f"{_seen(base)}; no acceptance was ever promised for this drafter"
        settle = "measure it where it is right, and record that: drafters acceptance add; or drafters evaluate"
    else:
        reason = f"{_seen(base)}; the nearest promise cannot be compared: {promised.obstacle}"
        settle = promised.settle
    return _with(base, word=NOT_PROMISED, reason=reason, settle=settle)


def _seen(base: Judgement) -> str:
    """As "2.40 tokens per step seen (2.31 to 2.52 at 99 %)"."""
    return f"{base.seen:.2f} tokens per step seen ({base.low:.2f} to {base.high:.2f} at {100 * (1 - base.alpha):g} %)"


def _figures(base: Judgement) -> str:
    return f"{_seen(base)}, {base.promised:.2f} promised" if base.promised is not None else _seen(base)


def _forecast(mean: Mean, bands: _Bands, base: Judgement, counted: Blocks) -> str:
    """How many more readings would tell, if they are as those before."""
    if not mean.count:
        more = LEAST_BLOCKS * BLOCK_READINGS
        return f"some {more} readings of {BLOCK_STEPS // BLOCK_READINGS} verify steps or more, or longer ones"
    times = 1.0
    while times < _FORECAST:
        times *= 1.5
        done = bands.gain is None and mean.count * times >= LEAST_BLOCKS
        if done or _told(mean, bands, base.alpha, times) is not None:
            grown = amount(math.ceil(mean.count * times)) / amount(mean.count)
            more = max(math.ceil(counted.readings * (grown - 1)), 1)
            return f"about {more} more readings, if they are as these"
    return f"more than {counted.readings * _FORECAST:.0f} more readings: it lies on the border between two words"


def _with(base: Judgement, **fields: object) -> Judgement:
    return msgspec.structs.replace(base, **fields)
