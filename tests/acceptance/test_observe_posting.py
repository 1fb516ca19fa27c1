"""What is reported to a registry: hour by hour, once, and through its absences."""

from __future__ import annotations

import itertools

import pytest

from drafter_cli.errors import UnreachableError
from drafter_cli.observing.command import exit_code
from drafter_cli.observing.posting import EVERY, LONGEST_WAIT, Posted, Poster
from drafter_contracts.acceptance.records import Conditions, Judgement, Reading
from drafter_registry.errors import InvalidError, NotAuthorisedError, UnavailableError

#: 2026-11-30 14:00:00 UTC.
START = 1_796_047_200.0
CONDITIONS = Conditions(engine="sglang", release="0.5.23", steps=3)


class Registry:
    """Keeps what it is told, and fails as a test asks."""

    name = "http://registry"

    def __init__(self):
        self.kept, self.calls, self.runs, self.fails = {}, [], set(), lambda _observations: None

    def observe(self, reference, observations, *, run=""):
        self.calls.append(len(observations))
        error = self.fails(observations)
        if error is not None:
            raise error
        self.runs.add(run)
        for one in observations:
            self.kept[reference, one.hour] = one


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def notes():
    return []


@pytest.fixture
def poster(registry, notes):
    return Poster(registry, "kimi@1", "engine-a", notes.append, most=5)


def reading(hours, length=2.5):
    return Reading(length=length, verify_steps=100, time=START + 3600 * hours)


def test_an_hour_is_reported_again_with_all_that_came(poster, registry):
    poster.send(0, START)
    poster.add([reading(0)], CONDITIONS, START)
    poster.send(EVERY - 1, START)
    assert not registry.calls
    poster.send(EVERY, START)
    poster.send(EVERY, START)
    assert registry.calls == [1]
    poster.add([reading(0.5, 3.5)], CONDITIONS, START)
    poster.add([], CONDITIONS, START)
    posted = poster.end()
    (kept,) = registry.kept.values()
    assert (kept.readings, kept.length, kept.verify_steps, kept.instance) == (2, 3.0, 200, "engine-a")
    assert (posted.stored, posted.unsent, posted.dropped, posted.error) == (1, 0, 0, "")
    assert len(registry.runs) == 1
    assert posted.run in registry.runs
    poster.end()
    assert registry.calls == [1, 1]  # nothing new, nothing sent


def test_readings_without_a_time_are_of_now(poster, registry):
    poster.add([Reading(length=2.0)], CONDITIONS, START + 7200)
    poster.end()
    assert [hour for _, hour in registry.kept] == ["2026-11-30T16:00:00Z"]


@pytest.mark.parametrize("error", [UnreachableError("gone"), UnavailableError("busy"), NotAuthorisedError("who?")])
def test_a_registry_that_fails_is_tried_less_and_less_and_gets_all_in_the_end(poster, registry, notes, error):
    registry.fails = lambda _observations: error
    poster.send(0, START)
    tries = []
    for minute in range(60 * 6):
        before = len(registry.calls)
        if minute % 60 == 0 and minute < 180:
            poster.add([reading(minute / 60)], CONDITIONS, START)
        poster.send(60.0 * minute, START)
        if len(registry.calls) > before:
            tries.append(minute)
    assert tries[:4] == [5, 15, 35, 75]
    assert max(b - a for a, b in itertools.pairwise(tries)) == LONGEST_WAIT / 60
    assert notes == [f"not reported to http://registry: {error.message}; it is tried again"]
    registry.fails = lambda _observations: None
    assert poster.end().stored == 3
    assert notes[1:] == ["http://registry takes reports again"]
    assert len(registry.kept) == 3


def test_what_stays_unsent_is_bounded_and_told(poster, registry, notes):
    registry.fails = lambda _observations: UnavailableError("busy")
    for hour in range(8):
        poster.add([reading(hour)], CONDITIONS, START)
    posted = poster.end()
    assert (posted.stored, posted.unsent, posted.dropped, posted.error) == (0, 5, 3, "busy")
    assert notes[0] == "more than 5 hours are unsent: the oldest are given up"
    registry.fails = lambda _observations: None
    poster.end()
    assert min(hour for _, hour in registry.kept) == "2026-11-30T17:00:00Z"


def test_one_hour_that_is_refused_does_not_hold_up_the_others(poster, registry, notes):
    def fails(observations):
        bad = any(one.hour > "2026-11-30T16" for one in observations)
        return InvalidError("later than now") if bad else None

    registry.fails = fails
    poster.add([reading(0), reading(1), reading(2)], CONDITIONS, START)
    posted = poster.end()
    assert (posted.stored, posted.unsent, posted.dropped) == (2, 0, 1)
    assert len(registry.kept) == 2
    assert notes == ["not reported to http://registry: later than now; given up"]


def test_batches_are_no_larger_than_the_registry_takes(registry, notes, monkeypatch):
    monkeypatch.setattr("drafter_registry.limits.observations_max_items", 2)
    poster = Poster(registry, "kimi@1", "a", notes.append)
    poster.add([reading(hour) for hour in range(5)], CONDITIONS, START)
    assert poster.end().stored == 5
    assert registry.calls == [2, 2, 1]


def test_hours_that_are_over_are_counted_and_let_go(poster, registry):
    poster.send(0, START)
    for hour in range(10):
        poster.add([reading(hour)], CONDITIONS, START)
        poster.send(3600.0 * (hour + 1), START + 3600 * (hour + 1))
    assert len(poster._hours) == 2
    assert poster.end().stored == 10


def test_the_same_log_read_again_is_the_same_run_and_anything_else_is_not(registry, notes):
    def run(instance, source):
        return Poster(registry, "kimi@1", instance, notes.append, source=source).end().run

    assert run("a", "/log") == run("a", "/log")
    others = [run("a", "/log"), run("b", "/log"), run("a", "/other"), run("a", ""), run("a", "")]
    assert len(set(others)) == 5


@pytest.mark.parametrize(("stored", "unsent", "code"), [(0, 0, 0), (0, 1, 6), (1, 1, 0), (1, 0, 0)])
def test_only_a_registry_that_took_nothing_at_all_is_an_exit_code(stored, unsent, code):
    posted = Posted(reference="kimi@1", run="r", stored=stored, unsent=unsent)
    found = Judgement(word="as promised", alpha=0.01, readings=9)
    assert exit_code(found, [], (), posted, demanded=False) == code
    assert exit_code(found, [], (), None, demanded=False) == 0
