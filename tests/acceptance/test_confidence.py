"""Bounds that hold at every moment: what they are made of, how often they are wrong, and how sharp they are."""

from __future__ import annotations

import importlib.util
import math
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.blocks import blocks
from drafter_contracts.acceptance.confidence import _SHARES, Mean, needed
from drafter_contracts.acceptance.records import Reading


def _load(name):
    """A file beside this one: tests are imported one by one."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lengths = _load("simulating").lengths


def mean_of(values):
    mean = Mean()
    for value in values:
        mean.add(value)
    return mean


values = st.lists(st.integers(0, 2000).map(lambda number: number / 2000), max_size=60)


def test_nothing_seen_bounds_nothing():
    assert Mean().bounds(0.01) == (0.0, 1.0)
    assert (Mean().mean, Mean().above(0.5), Mean().below(0.5)) == (0.0, 0.0, 0.0)


@given(values, st.floats(0.001, 0.999))
@settings(deadline=None, max_examples=60)
def test_the_evidence_is_the_mean_wealth_of_bets_with_fixed_shares(seen, candidate):
    wealth = [math.prod(1 - share + share * value / candidate for value in seen) for share in _SHARES]
    assert mean_of(seen).above(candidate) == pytest.approx(math.log(sum(wealth) / len(wealth)), abs=1e-6)


@given(values, st.floats(0.001, 0.999))
@settings(deadline=None, max_examples=60)
def test_below_is_above_in_the_mirror(seen, candidate):
    mirrored = mean_of(1 - value for value in seen)
    assert mean_of(seen).below(candidate) == pytest.approx(mirrored.above(1 - candidate), abs=1e-6)


@given(values, st.floats(0.0005, 0.5), st.randoms())
@settings(deadline=None, max_examples=60)
def test_bounds_enclose_the_mean_in_any_order(seen, alpha, rng):
    low, high = mean_of(seen).bounds(alpha)
    assert 0 <= low <= high <= 1
    if seen:
        # Just as good as the mean itself: it is never refuted by its own observations.
        assert low <= sum(seen) / len(seen) + 1e-9 <= high + 2e-9
    rng.shuffle(seen)
    assert mean_of(seen).bounds(alpha) == (low, high)


@given(values)
@settings(deadline=None, max_examples=40)
def test_more_certainty_is_wider(seen):
    narrow, wide = mean_of(seen).bounds(0.1), mean_of(seen).bounds(0.001)
    assert wide[0] <= narrow[0]
    assert narrow[1] <= wide[1]


def test_the_bounds_are_where_the_evidence_suffices():
    mean = mean_of([0.2, 0.3, 0.5, 0.4] * 30)
    low, high = mean.bounds(0.02)
    assert mean.above(low) >= needed(0.02) > mean.above(low + 1e-5)
    assert mean.below(high) >= needed(0.02) > mean.below(high - 1e-5)
    assert needed(0.02) == pytest.approx(math.log(100))


@pytest.mark.parametrize("value", [0.12345, 0.99999, 0.00001])
def test_values_are_rounded_away_from_what_they_prove(value):
    one, exact = mean_of([value] * 50), [1 - value] * 50
    wealth = [50 * math.log(1 - share + share * value / 0.01) for share in _SHARES]
    top = max(wealth)
    assert one.above(0.01) <= top + math.log(sum(math.exp(w - top) for w in wealth) / len(wealth)) + 1e-9
    assert one.below(0.99) <= mean_of(exact).above(0.01) + 1e-9


def test_as_if_it_had_been_seen_more_often():
    once, thrice = mean_of([0.2, 0.7]), mean_of([0.2, 0.7] * 3)
    assert once.above(0.3, times=3) == pytest.approx(thrice.above(0.3))
    assert once.below(0.9, times=3) == pytest.approx(thrice.below(0.9))


def test_one_value_above_zero_refutes_that_the_mean_is_zero():
    assert mean_of([0, 0, 0.5]).above(0) == math.inf
    assert mean_of([0, 0, 0]).above(0) == 0


def test_out_of_range_is_cut():
    assert mean_of([-1, 2]).bounds(0.1) == mean_of([0, 1]).bounds(0.1)
    assert mean_of([-1, 2]).mean == 0.5


def ever_wrong(draw, runs, count, alpha, seed):
    """Share of runs in which the true running mean of the conditional means was refuted after any observation."""
    wrong = 0
    for run in range(runs):
        rng, mean, total = random.Random(seed + run), Mean(), 0.0  # noqa: S311 - drawn again the same
        for number in range(1, count + 1):
            expected, value = draw(rng, number)
            total += expected
            mean.add(value)
            if max(mean.above(total / number), mean.below(total / number)) >= needed(alpha):
                wrong += 1
                break
    return wrong / runs


def _bernoulli(rng, number):
    return 0.3, float(rng.random() < 0.3)


def _beta(rng, number):
    return 0.6, rng.betavariate(6, 4)


def _drifting(rng, number):
    """Two workloads in turn: the mean is of neither."""
    expected = 0.2 if number % 20 < 10 else 0.8
    return expected, float(rng.random() < expected)


@pytest.mark.parametrize("draw", [_bernoulli, _beta, _drifting])
def test_the_error_rate_is_not_above_what_is_stated_at_any_horizon(draw):
    assert ever_wrong(draw, runs=150, count=60, alpha=0.1, seed=5) <= 0.1


def test_bets_that_are_too_bold_would_be_found_out():
    """The test above can fail: with a bound that does not hold at every moment the rate is far above."""
    assert ever_wrong(_bernoulli, runs=60, count=60, alpha=1.9, seed=5) > 0.3


def outside(alike, *, together):
    """Share of runs of neighbours that are alike in which the bounds miss the mean of the whole process."""
    wrong = 0
    for run in range(60):
        seen = lengths(random.Random(run), 2.5, 0.3, alike, 1200)  # noqa: S311 - drawn again the same
        mean = mean_of((length - 1) / 3 for length in (blocks(map(reading, seen)).lengths if together else seen))
        wrong += max(mean.above(0.5), mean.below(0.5)) >= needed(0.05)
    return wrong / 60


def reading(length):
    return Reading(length=length)


def test_blocks_keep_the_error_rate_where_neighbours_are_alike():
    assert outside(0.8, together=True) <= 0.05
    assert outside(0.8, together=False) > 0.2


def test_bounds_narrow_as_the_square_root_of_what_is_seen():
    rng = random.Random(3)  # noqa: S311 - drawn again the same
    widths = []
    for count in (100, 400, 1600):
        low, high = mean_of(rng.betavariate(12, 12) for _ in range(count)).bounds(0.01)
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(2, abs=0.6)
    assert widths[1] / widths[2] == pytest.approx(2, abs=0.6)
    assert widths[2] < 0.02
