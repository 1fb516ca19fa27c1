"""The word: what it takes, what it says, and how often it is wrong."""

from __future__ import annotations

import importlib.util
import os
import random

import msgspec
import pytest

from drafter_contracts.acceptance.judge import KEPT, LEAST_BLOCKS, judge
from drafter_contracts.acceptance.promises import Promise
from drafter_contracts.acceptance.records import (
    AS_PROMISED,
    COLLAPSED,
    DEGRADED,
    NOT_PROMISED,
    TOO_LITTLE,
    Conditions,
    Reading,
)
from drafter_contracts.manifest_records import Acceptance


def _load(name):
    """A file beside this one: tests are imported one by one."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


simulating = _load("simulating")
CONDITIONS, PROMISE, PROMISED = simulating.CONDITIONS, simulating.PROMISE, simulating.PROMISED
judged, readings = simulating.judged, simulating.readings


def seen(length, count, deviation=0.3, seed=1):
    return simulating.lengths(random.Random(seed), length, deviation, 0.0, count)  # noqa: S311 - drawn again the same


@pytest.mark.parametrize(
    ("length", "count", "word"),
    [
        (PROMISED, 900, AS_PROMISED),
        (3.2, 900, AS_PROMISED),
        (2.4, 1500, DEGRADED),
        (2.0, 600, DEGRADED),
        (1.3, 600, COLLAPSED),
    ],
)
def test_the_word_for_a_length(length, count, word):
    found = judged(seen(length, count))
    assert (found.word, found.never_accepted, found.settle) == (word, False, "")
    assert found.low < found.seen < found.high
    assert found.low <= length <= found.high
    assert (found.promised, found.readings, found.verify_steps) == (PROMISED, count, None)


def test_never_from_a_handful():
    for length in (1.0, 2.0, PROMISED, 4.0):
        for count in range(5 * LEAST_BLOCKS):
            assert judged([length] * count).word == TOO_LITTLE
    handful = [Reading(length=1.0, verify_steps=1)] * 300
    assert judge(handful, [PROMISE], CONDITIONS).word == TOO_LITTLE


def test_a_reading_of_many_steps_is_one_reading():
    three = [Reading(length=1.0, verify_steps=1_000_000)] * 3
    assert judge(three, [PROMISE], CONDITIONS).word == TOO_LITTLE


def test_the_sentence_says_what_was_seen_the_bounds_and_the_promise():
    found = judge(readings(seen(2.0, 600)), [Promise(acceptance=PROMISE, where="manifest")], CONDITIONS)
    assert found.reason.startswith(f"2.01 tokens per step seen ({found.low:.2f} to {found.high:.2f} at 99 %), 2.75 ")
    assert found.reason.endswith("more than 10% of the promised gain is missing; `drafters doctor` looks for the cause")
    assert found.promise == "2.75, sglang 0.5.23, steps 3, topk 1, draft tokens 4 (manifest)"
    assert "no more than 10% of the promised gain is missing" in judged(seen(PROMISED, 900)).reason
    assert "more than 50% of the promised gain is missing" in judged(seen(1.3, 600)).reason


def test_differences_of_the_conditions_are_handed_on():
    conditions = msgspec.structs.replace(CONDITIONS, release="0.5.9", target_quantization="fp8")
    found = judge(readings(seen(2.0, 600)), [PROMISE], conditions)
    assert found.differs == (
        "target quantization: the promise does not say, fp8 is seen",
        "release: promised for 0.5.23, 0.5.9 is seen",
    )


def test_a_little_better_or_worse_than_the_border_is_told_in_time():
    """The truth lies exactly between two words: either is right then, and one is said."""
    border = 1 + KEPT * (PROMISED - 1)
    found = judged([border] * 8000)
    assert found.word in (AS_PROMISED, DEGRADED)
    assert "about 10% of the promised gain is missing" in found.reason
    for near in (0.005, 0.02):
        assert judged([border - near] * 8000).word == DEGRADED
        assert judged([border + near] * 8000).word == AS_PROMISED


@pytest.mark.parametrize("promises", [[], [PROMISE], [msgspec.structs.replace(PROMISE, topk=4)]])
def test_never_accepted_needs_no_promise(promises):
    found = judge([Reading(length=1.0)] * 300, promises, CONDITIONS)
    assert (found.word, found.never_accepted) == (COLLAPSED, True)
    assert found.reason.startswith("never accepted: 1.00 tokens per step seen (1.00 to ")
    assert "an engine without a drafter gives 1" in found.reason
    assert ("2.75 were promised" in found.reason) == (promises == [PROMISE])


def test_seldom_accepted_is_not_never():
    found = judge(readings(seen(1.25, 1500, 0.1)), [], CONDITIONS)
    assert (found.word, found.never_accepted) == (NOT_PROMISED, False)
    assert found.high < 1.5


def test_a_mean_near_one_is_not_never_before_it_is_sure():
    found = judge([Reading(length=1.0)] * 60, [], CONDITIONS)
    assert (found.word, found.never_accepted) == (NOT_PROMISED, False)
    assert found.high > 1.5


def test_nothing_promised_says_what_is_seen_and_what_to_do():
    found = judge(readings(seen(2.4, 600)), [], CONDITIONS)
    assert (found.word, found.promised) == (NOT_PROMISED, None)
    assert found.low < 2.4 < found.high
    assert "drafters acceptance add" in found.settle


def test_a_promise_that_cannot_be_compared_is_no_promise():
    tree = msgspec.structs.replace(PROMISE, topk=4, draft_tokens=16)
    found = judge(readings(seen(2.4, 600)), [tree], CONDITIONS)
    assert (found.word, found.promised) == (NOT_PROMISED, None)
    assert "it is for topk 4; topk 1 is in force" in found.reason
    assert found.settle.startswith("measure at these settings")


def test_an_estimate_on_recorded_states_has_a_wider_band():
    estimate = msgspec.structs.replace(PROMISE, measured="teacher-forced")
    values = readings(seen(1 + 0.86 * (PROMISED - 1), 3000, 0.2))
    assert judge(values, [PROMISE], CONDITIONS).word == DEGRADED
    found = judge(values, [estimate], CONDITIONS)
    assert found.word == AS_PROMISED
    assert "no more than 20% of the promised gain is missing" in found.reason
    assert found.differs[0].startswith("teacher-forced")


def test_made_up_figures_void_everything():
    found = judge([Reading(length=1.0)] * 900, [PROMISE], CONDITIONS, simulated="SGLANG_SIMULATE_ACC_LEN=2.5")
    assert (found.word, found.never_accepted, found.low) == (TOO_LITTLE, False, None)
    assert "SGLANG_SIMULATE_ACC_LEN=2.5" in found.reason
    assert found.settle


def test_nothing_seen():
    for idle in ([], [Reading(length=0.0)] * 900, [Reading(length=2.0, verify_steps=0)] * 900):
        found = judge(idle, [PROMISE], CONDITIONS)
        assert (found.word, found.seen, found.readings) == (TOO_LITTLE, None, 0)
        assert found.settle == "send the engine requests"


def test_an_impossible_length_decides_nothing():
    found = judge(readings([4.5] * 900), [PROMISE], CONDITIONS)
    assert (found.word, found.seen) == (TOO_LITTLE, None)
    assert "3 drafted tokens give 4 at most" in found.reason
    assert judge(readings([float("nan")] * 900), [PROMISE], CONDITIONS).word == TOO_LITTLE


@pytest.mark.parametrize(
    ("conditions", "promises", "positions", "high"),
    [
        (Conditions(steps=3), [], (), 4),
        (Conditions(draft_tokens=6), [], (), 6),
        (Conditions(), [], (0.5, 0.3), 3),
        (Conditions(), [Acceptance(length=2.0, steps=7)], (), 8),
        (Conditions(), [], (), None),
    ],
)
def test_how_many_are_drafted_is_known_by_the_first_that_says_it(conditions, promises, positions, high):
    found = judge([Reading(length=2.0, positions=positions)] * 4, promises, conditions)
    assert found.high == (None if high is None else pytest.approx(high))
    assert found.word == TOO_LITTLE
    assert ("state the steps in force" in found.settle) == (high is None)


@pytest.mark.parametrize(("length", "word"), [(PROMISED, AS_PROMISED), (2.3, DEGRADED)])
def test_a_forecast_is_about_right(length, word):
    early = judged([length] * 120)
    assert early.word == TOO_LITTLE
    more = int(early.settle.removeprefix("about ").removesuffix(" more readings, if they are as these"))
    assert judged([length] * (120 + more + 10)).word == word
    assert judged([length] * (120 + more // 3)).word == TOO_LITTLE


def test_a_forecast_without_end_is_none():
    wild = ([4.0] * 5 + [1.0] * 5) * 6 + [4.0] * 5
    assert judged(wild).settle == "more than 13000 more readings: it lies on the border between two words"


def test_before_the_first_block_the_forecast_says_what_it_takes():
    assert judged([2.0]).settle == "some 50 readings of 8 verify steps or more, or longer ones"


def test_steps_weigh_where_they_are_told():
    values = [Reading(length=4.0, verify_steps=10), Reading(length=1.0, verify_steps=990)] * 300
    found = judge(values, [PROMISE], CONDITIONS)
    assert found.seen == pytest.approx(1.03, abs=0.01)
    assert (found.word, found.verify_steps) == (COLLAPSED, 300_000)


@pytest.mark.parametrize("alpha", [0.001, 0.2])
def test_less_error_takes_more(alpha):
    values = seen(2.1, 2000)
    counts = [next(n for n in range(20, 2000, 20) if judged(values[:n], a).word == DEGRADED) for a in (alpha, 0.01)]
    assert (counts[0] > counts[1]) == (alpha < 0.01)


def wrong(length, words, alike, runs=12, alpha=0.05):
    """How many of the runs say one of the words at any look."""
    drawn = (simulating.lengths(random.Random(run), length, 0.4, alike, 900) for run in range(runs))  # noqa: S311 - drawn again the same
    return sum(simulating.ever(values, words, alpha) for values in drawn)


@pytest.mark.parametrize("alike", [0.0, 0.8])
@pytest.mark.parametrize(
    ("length", "words"),
    [
        (PROMISED, (DEGRADED, COLLAPSED)),
        (1 + 0.85 * (PROMISED - 1), (AS_PROMISED, COLLAPSED)),
        (1 + 0.5 * (PROMISED - 1), (AS_PROMISED, COLLAPSED)),
    ],
)
def test_a_word_is_seldom_wrong_however_often_one_looks(length, words, alike):
    assert wrong(length, words, alike) == 0


@pytest.mark.parametrize(("missing", "most"), [(0.3, 250), (0.5, 150), (1.0, 70)])
def test_how_soon_a_drop_is_told(missing, most):
    for seed in range(5):
        values = seen(1 + (1 - missing) * (PROMISED - 1), most, 0.4 if missing < 1 else 0.0, seed)
        assert judged(values).word in (DEGRADED, COLLAPSED)


def test_all_of_the_gain_lost_is_a_collapse_soon():
    assert judged([1.0] * 110).word == COLLAPSED


def test_a_collapse_after_a_good_hour_is_told_in_minutes():
    good = seen(PROMISED, 2000)
    assert judged(good).word == AS_PROMISED
    found = judged([*good, *[1.0] * 900])
    assert (found.word, found.readings) == (COLLAPSED, 2900)
    assert found.reason.startswith("collapsed lately: 1.")
    assert "in all 2900, 2.75 promised" in found.reason
    assert found.low <= found.seen <= found.high < 1.9
    found = judged([*good, *[1.0] * 1800])
    assert (found.word, found.never_accepted) == (COLLAPSED, True)
    assert found.reason.startswith("never accepted lately: 1.")
    assert found.seen < 1.1


def test_a_collapse_lately_is_told_of_the_readings_since():
    found = judged([2.75] * 250 + [1.2] * 500)
    assert (found.word, found.never_accepted) == (COLLAPSED, False)
    assert found.reason.startswith("collapsed lately: 1.20 tokens per step in the last 500 readings, ")
    assert (found.seen, found.low < 1.2 < found.high) == (pytest.approx(1.2), True)


def test_what_is_seen_lies_within_its_bounds():
    """Blocks early and late are of different sizes, and readings of different steps; the last block is not full."""
    values = [*seen(3.5, 250), *seen(1.2, 1003)]
    for count in range(1, len(values), 97):
        found = judged(values[:count])
        assert found.low <= found.seen <= found.high


def test_never_accepted_lately_needs_no_promise():
    found = judge(readings([2.75] * 250 + [1.0] * 700), [], CONDITIONS)
    assert (found.word, found.never_accepted) == (COLLAPSED, True)


def test_a_hard_stretch_is_no_collapse():
    assert judged([2.75] * 800 + [2.0] * 100).word == AS_PROMISED
    assert judged([2.75] * 800 + [1.0] * 30).word == AS_PROMISED


def test_a_perfect_drafter_keeps_a_perfect_promise():
    perfect = msgspec.structs.replace(PROMISE, length=4.0)
    assert judge(readings([4.0] * 600), [perfect], CONDITIONS).word == AS_PROMISED


def test_a_promise_of_no_gain_is_kept_by_any():
    useless = msgspec.structs.replace(PROMISE, length=1.0)
    assert judge(readings([1.4] * 300), [useless], CONDITIONS).word == AS_PROMISED


def test_a_block_is_judged_by_its_length():
    block = Conditions(engine="sglang", method="DFLASH", steps=1, topk=1, draft_tokens=16)
    promise = Acceptance(length=4.2, steps=1, topk=1, draft_tokens=16)
    draws = random.Random(1)  # noqa: S311 - drawn again the same
    found = judge(readings([draws.gauss(4.2, 0.1) for _ in range(600)]), [promise], block)
    assert (found.word, found.promised) == (AS_PROMISED, 4.2), found.reason


@pytest.mark.parametrize(
    ("promised", "length", "word", "never"),
    [(1.06, 1.07, AS_PROMISED, False), (1.0, 1.0, COLLAPSED, True), (1.08, 1.0, COLLAPSED, True)],
)
def test_next_to_nothing_may_be_what_is_promised(promised, length, word, never):
    promise = Acceptance(length=promised, steps=3, topk=1, draft_tokens=4)
    found = judge(readings([length] * 900), [promise], CONDITIONS)
    assert (found.word, found.never_accepted) == (word, never), found.reason


def test_a_report_of_nothing_is_not_impossible():
    some = [*readings(seen(PROMISED, 900)), Reading(length=0.0)]
    assert judge(some, [PROMISE], CONDITIONS).word == AS_PROMISED
