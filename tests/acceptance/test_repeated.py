"""One report of an engine is one report, however often a collector wrote it."""

import pytest

from drafter_contracts.acceptance.repeated import Repeats


@pytest.fixture
def line(observed):
    return observed.decode_line


def test_the_engines_own_time_and_figures_decide(line):
    plain = line(7, 2.5)
    wrapped = '{"log":"' + plain.strip() + '\\n","stream":"stderr","time":"2026-11-30T14:00:09Z"}'
    for again in (plain, "2026-11-30T14:00:09.123456Z stdout F " + plain, wrapped):
        repeats = Repeats()
        assert not repeats.again(plain)
        assert repeats.again(again)
        repeats.forget()
        assert not repeats.again(again)


def test_another_time_figure_or_rank_is_another_report(line):
    for other in (line(8, 2.5), line(7, 2.51), line(7, 2.5, rank=" DP1")):
        repeats = Repeats()
        assert not repeats.again(line(7, 2.5))
        assert not repeats.again(other)


def test_what_carries_no_time_is_never_a_repeat(line):
    repeats = Repeats()
    bare = line(7, 2.5).partition("] ")[2]
    assert not repeats.again(bare)
    assert not repeats.again(bare)
