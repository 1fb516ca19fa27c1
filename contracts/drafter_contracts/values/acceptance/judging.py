"""What the scores of several layouts say about the stated one; where they do not tell, what would."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from drafter_contracts.evidence.documents import LayoutScore
from drafter_contracts.values.acceptance.blocks import FEWEST_BLOCKS, needed_errors
from drafter_contracts.values.acceptance.layouts import STATED, is_single_step
from drafter_contracts.values.acceptance.scores import AS_RECORDED, Measurement

#: Tokens per step below which a difference is of no use to anybody, however sure it is.
RELEVANT = 0.02
#: More than so many times the rows are not asked for: the layouts are the same to this drafter.
_MOST_TIMES = 50


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict (see `Evaluation`), why in one sentence, and what else a reader should know."""

    verdict: Literal["stated", "other", "unknown"]
    reason: str
    notes: tuple[str, ...] = ()


def judge(measured: Measurement) -> Judgement:
    """The verdict on the first of the scores.

    "other": a layout is better, by so many standard errors of the paired difference that chance does not explain the
    best of all that were tried, and by a relevant amount. "stated": none is, the drafter does draft, and every layout
    that a confusion of numberings, configs or orders makes is behind by more than chance explains. A single tap moved
    by one layer (`is_single_step`) need not be: where acceptance does not tell it from the stated layout, the reason
    names it. Else "unknown".
    """
    notes = _notes(measured)
    first, *others = measured.scores
    if first.name != STATED:
        return Judgement(verdict="unknown", reason=_unstated(measured), notes=notes)
    if measured.blocks < FEWEST_BLOCKS:
        reason = f"{measured.rows} rows are too few to compare layouts; more tokens settle it"
        return Judgement(verdict="unknown", reason=reason, notes=notes)
    compared = [*others, *([] if measured.recorded is None else [measured.recorded])]
    errors = needed_errors(measured.blocks, max(len(compared), 1))
    if not any(_drafts(score, measured.chance, errors) for score in (first, *compared)):
        return Judgement(verdict="unknown", reason=_by_chance(measured, (first, *compared)), notes=notes)
    better = [one for one in compared if _ahead(one, errors) and _drafts(one, measured.chance, errors)]
    named = [one for one in better if one.name != AS_RECORDED]
    if named:
        return Judgement(verdict="other", reason=_better(named[0], first), notes=notes)
    if better:
        reason = (
            "on the samples' own states the drafter does better than on those of the stated layout,"
            f" {_two(better[0], first)}, and no layout tried explains it; drafters identify says which states they are"
        )
        return Judgement(verdict="unknown", reason=reason, notes=notes)
    return _stated(measured, others, errors, notes)


def _by_chance(measured: Measurement, scores: tuple[LayoutScore, ...]) -> str:
    """No layout lets the drafter do better than chance; or there are too few rows to see it."""
    most = max(scores, key=lambda score: score.length - measured.chance[score.name])
    chance = measured.chance[most.name]
    if most.length - chance > RELEVANT:
        return (
            f"{measured.rows} rows do not tell from chance whether the drafter is accepted at all: {most.length:.2f}"
            f" tokens per step at most, {chance:.2f} by chance; more tokens do, or else {_NEVER}"
        )
    reason = f"the drafter is never accepted under any layout tried: {most.length:.2f} tokens per step at most"
    return f"{reason}, as by chance; {_NEVER}"


_NEVER = "drafters identify compares the states themselves, and --layouts tries others"


def _stated(measured: Measurement, others: list[LayoutScore], errors: float, notes: tuple[str, ...]) -> Judgement:
    first = measured.scores[0]
    if not _drafts(first, measured.chance, errors):
        reason = f"under the stated layout the drafter is accepted as by chance, {first.length:.2f} tokens per step"
        return Judgement(verdict="unknown", reason=f"{reason}; {_NEVER}", notes=notes)
    if all(is_single_step(one.name) for one in others):
        reason = "no layout was tried that a confusion could make of the stated one; --layouts names some"
        return Judgement(verdict="unknown", reason=reason, notes=notes)
    # All of them have to be behind, so each is asked for itself: no allowance for the best of many.
    errors = needed_errors(measured.blocks, 1)
    near = [one for one in others if -one.behind <= errors * one.behind_deviation]
    confused = [one for one in near if not is_single_step(one.name)]
    if confused:
        reason = (
            f"{_named(confused)} cannot be told from the stated layout, {_two(confused[0], first)};"
            f" {_settle(measured, confused, errors)}"
        )
        return Judgement(verdict="unknown", reason=reason, notes=notes)
    following = next(one for one in others if not is_single_step(one.name))
    reason = (
        f"no layout is better than the stated one, {first.length:.2f} tokens per step; of other numberings and orders"
        f" {following.name} comes next with {following.length:.2f}"
    )
    if near:
        reason += f"; acceptance does not tell {_named(near)} from it, drafters identify does"
    return Judgement(verdict="stated", reason=reason, notes=notes)


def _named(scores: list[LayoutScore]) -> str:
    names = ", ".join(one.name for one in scores[:3])
    return f"{names} and {len(scores) - 3} more" if len(scores) > 3 else names


def _drafts(score: LayoutScore, chance: dict[str, float], errors: float) -> bool:
    """Whether a drafter is accepted more often than its words' frequencies explain."""
    return score.length - chance[score.name] > max(errors * score.deviation, RELEVANT)


def _ahead(score: LayoutScore, errors: float) -> bool:
    return score.behind > max(errors * score.behind_deviation, RELEVANT)


def _apart(score: LayoutScore, blocks: int) -> bool:
    """Whether a single layout differs from the stated one, to whichever side."""
    if blocks < FEWEST_BLOCKS:
        return False
    return abs(score.behind) > max(needed_errors(blocks, 1) * score.behind_deviation, RELEVANT)


def _settle(measured: Measurement, near: list[LayoutScore], errors: float) -> str:
    """How many rows would tell them apart, if what was seen so far goes on."""
    times = max((errors * one.behind_deviation / abs(one.behind)) ** 2 if one.behind else math.inf for one in near)
    if times > _MOST_TIMES:
        return "to this drafter they may be the same; drafters identify compares the states themselves"
    rows = times * measured.rows
    step = 10 ** max(math.floor(math.log10(rows)) - 1, 0)
    return f"about {math.ceil(rows / step) * step} rows would tell ({measured.rows} so far): give more tokens"


def _better(other: LayoutScore, first: LayoutScore) -> str:
    return f"{other.name}, boundaries {list(other.boundaries)}, is better than the stated layout, {_two(other, first)}"


def _two(other: LayoutScore, first: LayoutScore) -> str:
    return f"{other.length:.2f} against {first.length:.2f} tokens per step"


def _unstated(measured: Measurement) -> str:
    best = measured.scores[0]
    return (
        f"no layout is stated; of those tried boundaries {list(best.boundaries)} are best, {best.length:.2f} tokens per"
        " step; --boundaries or --output-ids states one"
    )


def _notes(measured: Measurement) -> tuple[str, ...]:
    first = measured.scores[0]
    notes = [f"by chance, first choices shuffled among the rows: {measured.chance[first.name]:.2f} tokens per step"]
    notes.append(
        f"the text is the target's own first choice at {measured.greedy:.1%} of its tokens; elsewhere steps after the"
        " first take the text as given"
    )
    recorded = measured.recorded
    if recorded is not None and first.name == STATED and _apart(recorded, measured.blocks):
        notes.append(
            f"the samples' own states are not those of the stated layout: {_two(recorded, first)};"
            " drafters identify says which they are"
        )
    if measured.left_out:
        notes.append(f"not tried, the reference lacks their states: {', '.join(name for name, _ in measured.left_out)}")
    return tuple(notes)
