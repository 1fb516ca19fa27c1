"""Hourly observations: what they hold, and that it does not matter in which order they are merged."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.blocks import (
    BLOCK_READINGS,
    BLOCK_STEPS,
    BLOCKS_OF_A_SIZE,
    amount,
    blocks,
    counting,
    impossible,
)
from drafter_contracts.acceptance.hours import aggregate, key, merge
from drafter_contracts.acceptance.records import Conditions, Observation, Reading
from drafter_contracts.errors import InternalError

CONDITIONS = Conditions(engine="sglang", release="0.5.23", steps=3)
FOURTEEN = 1_795_874_400.0  # 2026-11-28T14:00:00Z

weights = st.none() | st.integers(0, 500)
shares = st.lists(st.floats(0, 1), min_size=2, max_size=2).map(tuple) | st.just(())


@st.composite
def observations(draw):
    low, middle, high = sorted(draw(st.lists(st.floats(1, 8), min_size=3, max_size=3)))
    return Observation(
        hour="2026-11-28T14:00:00Z",
        instance="a",
        conditions=CONDITIONS,
        readings=draw(st.integers(1, 100)),
        verify_steps=draw(weights),
        length=middle,
        lowest=low,
        highest=high,
        positions=draw(shares),
    )


def same(one, other):
    """Equal but for the last digits."""
    assert one.length == pytest.approx(other.length)
    assert one.positions == pytest.approx(other.positions)
    blank = {"length": 1.0, "positions": ()}
    assert msgspec.structs.replace(one, **blank) == msgspec.structs.replace(other, **blank)


@given(observations(), observations(), observations())
@settings(deadline=None, max_examples=150)
def test_merging_does_not_depend_on_order_or_grouping(a, b, c):
    same(merge(a, b), merge(b, a))
    same(merge(merge(a, b), c), merge(a, merge(b, c)))


@given(observations(), observations())
@settings(deadline=None, max_examples=60)
def test_a_merged_observation_is_one_that_a_registry_takes(a, b):
    merged = merge(a, b)
    assert msgspec.convert(msgspec.to_builtins(merged), Observation) == merged
    assert merged.lowest <= merged.length <= merged.highest
    assert merged.readings == a.readings + b.readings


readings = st.builds(
    Reading,
    length=st.floats(1, 4),
    verify_steps=st.none() | st.integers(1, 50),
    time=st.floats(FOURTEEN, FOURTEEN + 3599),
)


@given(st.lists(readings, min_size=2, max_size=12), st.data())
@settings(deadline=None, max_examples=80)
def test_two_halves_merged_are_the_whole(seen, data):
    cut = data.draw(st.integers(1, len(seen) - 1))
    (one,), (two,) = aggregate(seen[:cut], CONDITIONS, "a"), aggregate(seen[cut:], CONDITIONS, "a")
    (whole,) = aggregate(seen, CONDITIONS, "a")
    same(merge(one, two), whole)


def test_hours_are_utc_and_ascending():
    seen = [Reading(length=2.0, time=FOURTEEN + 3600), Reading(length=3.0, time=FOURTEEN + 3599.9)]
    found = aggregate(seen, CONDITIONS, "node-7")
    assert [(one.hour, one.length, one.instance, one.conditions) for one in found] == [
        ("2026-11-28T14:00:00Z", 3.0, "node-7", CONDITIONS),
        ("2026-11-28T15:00:00Z", 2.0, "node-7", CONDITIONS),
    ]


def test_a_mean_is_by_verify_steps_where_they_are_told():
    seen = [
        Reading(length=1.0, verify_steps=90, time=FOURTEEN, positions=(0.0, 0.0)),
        Reading(length=3.0, verify_steps=10, time=FOURTEEN, positions=(1.0, 0.5)),
    ]
    (one,) = aggregate(seen, CONDITIONS, "")
    assert (one.length, one.verify_steps, one.readings) == (pytest.approx(1.2), 100, 2)
    assert one.positions == pytest.approx((0.1, 0.05))
    assert (one.lowest, one.highest) == (1.0, 3.0)


def test_readings_weigh_alike_where_none_tells_and_count_little_where_some_do():
    silent = [Reading(length=1.0, time=FOURTEEN), Reading(length=2.0, time=FOURTEEN)]
    (one,) = aggregate(silent, CONDITIONS, "")
    assert (one.length, one.verify_steps) == (1.5, None)
    told = [*silent, Reading(length=4.0, verify_steps=5, time=FOURTEEN)]
    (one,) = aggregate(told, CONDITIONS, "")
    assert (one.length, one.verify_steps, one.readings, one.lowest) == (4.0, 5, 3, 1.0)


def test_nothing_verified_is_no_observation():
    idle = [Reading(length=0.0, time=FOURTEEN), Reading(length=2.0, verify_steps=0, time=FOURTEEN)]
    assert aggregate(idle, CONDITIONS, "") == ()


def test_without_a_time_a_reading_has_no_hour_unless_one_is_given():
    assert aggregate([Reading(length=2.0)], CONDITIONS, "") == ()
    (one,) = aggregate([Reading(length=2.0)], CONDITIONS, "", seen_at=FOURTEEN)
    assert one.hour == "2026-11-28T14:00:00Z"


def test_a_rounded_length_below_one_is_one():
    (one,) = aggregate([Reading(length=0.99, time=FOURTEEN)], CONDITIONS, "")
    assert (one.length, one.lowest) == (1.0, 1.0)


def test_different_kinds_are_not_merged():
    (one,) = aggregate([Reading(length=2.0, time=FOURTEEN)], CONDITIONS, "a")
    (other,) = aggregate([Reading(length=2.0, time=FOURTEEN)], CONDITIONS, "b")
    assert key(one) != key(other)
    with pytest.raises(InternalError, match="two kinds"):
        merge(one, other)


def many(count, **fields):
    return [Reading(length=2.0, **fields)] * count


def test_a_block_is_some_readings():
    assert blocks(many(4 * BLOCK_READINGS + 4)).lengths == (2.0,) * 4
    assert blocks(many(4 * BLOCK_READINGS + 4)).ends == (5, 10, 15, 20)
    assert blocks(many(4 * BLOCK_READINGS + 4)).readings == 4 * BLOCK_READINGS + 4


def test_a_block_is_of_enough_steps():
    assert len(blocks(many(100, verify_steps=1)).lengths) == 100 // BLOCK_STEPS
    assert len(blocks(many(100, verify_steps=BLOCK_STEPS)).lengths) == 100 // BLOCK_READINGS


def test_a_reading_over_a_long_time_is_a_block():
    scraped = [Reading(length=2.0, time=15.0 * number, verify_steps=500) for number in range(21)]
    assert len(blocks(scraped).lengths) == 20
    small = [Reading(length=2.0, time=15.0 * number, verify_steps=3) for number in range(21)]
    assert len(blocks(small).lengths) == 1


def test_blocks_grow():
    first = BLOCKS_OF_A_SIZE * BLOCK_READINGS
    assert len(blocks(many(first)).lengths) == BLOCKS_OF_A_SIZE
    assert len(blocks(many(first + 2 * BLOCK_READINGS)).lengths) == BLOCKS_OF_A_SIZE + 1
    assert len(blocks(many(3 * first)).lengths) == 2 * BLOCKS_OF_A_SIZE
    assert len(blocks(many(12 * first)).lengths) == 5 * BLOCKS_OF_A_SIZE
    for count in (0, 1, 49, 50, 51, 100, 137, 150, 151, 300):
        assert len(blocks(many(amount(count) * BLOCK_READINGS)).lengths) == count


def test_within_a_block_steps_weigh():
    block = [Reading(length=4.0, verify_steps=1000), *[Reading(length=1.0, verify_steps=250)] * 4]
    assert blocks(block).lengths == (2.5,)
    assert blocks(block).seen == 2.5
    silent = [Reading(length=4.0), *block[1:]]
    assert blocks(silent).lengths == (pytest.approx(1.6),)
    assert blocks(silent).verify_steps is None
    assert blocks(block).verify_steps == 2000


def test_what_is_no_mean_of_steps_is_named():
    assert impossible([Reading(length=2.0)], None) == ""
    assert impossible([Reading(length=4.01), Reading(length=0.99)], 3) == ""
    assert "4.2 tokens per step: 3 drafted tokens give 4 at most" in impossible([Reading(length=4.2)], 3)
    assert "one token at least" in impossible([Reading(length=0.4)], 3)
    assert impossible([Reading(length=float("nan"))], None)
    assert impossible([Reading(length=float("inf"))], 3)


def test_an_idle_engine_does_not_count():
    assert counting([Reading(length=0.0), Reading(length=2.0, verify_steps=0), Reading(length=2.0)]) == (
        Reading(length=2.0),
    )
