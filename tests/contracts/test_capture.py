"""The interpreter of capture rules: config ids to the states that reach `fc`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.engines.capture import (
    boundary_fate,
    capture_once,
    capture_switched_off,
    effective_capture,
    even_ids,
    final_state,
    lookup,
    read_ids,
    reading_shift,
    unmet_requirement,
)
from drafter_contracts.engines.profile import (
    CaptureMethod,
    CaptureRule,
    GraphReplay,
    Guard,
    IdReading,
    ReadingShift,
    Region,
    Shift,
)
from drafter_contracts.errors import ProfileError
from drafter_contracts.layout import Tap

DEFAULT = ("2", "N//2", "N-3")
KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def method(*shifts, **changes):
    return CaptureMethod("fitted", default=DEFAULT, shifts=shifts or (Shift(1),), **changes)


def boundaries(rule, n, ids):
    capture = capture_once(rule, n, ids)
    return capture.error or tuple(tap.boundary for tap in capture.taps)


@pytest.mark.parametrize(
    ("shifts", "n", "ids", "expected"),
    [
        ((Shift(1),), 61, (2, 30, 58), (3, 31, 59)),
        ((Shift(1, "first==1"), Shift(0)), 61, (2, 30, 58), (2, 30, 58)),
        ((Shift(1, "first==1"), Shift(0)), 61, (1, 29, 57), (2, 30, 58)),
        ((Shift(1, "first==1"), Shift(0)), 61, (29, 1, 57), (1, 29, 57)),
        ((Shift(0, "max==N"), Shift(1)), 36, (24, 30, 36), (24, 30, 36)),
        ((Shift(0, "max==N"), Shift(1)), 36, (24, 30, 35), (25, 31, 36)),
        ((Shift(0, "min>=2"), Shift(1)), 36, (2, 9), (2, 9)),
        ((Shift(0, "min>=2"), Shift(1)), 36, (1, 9), (2, 10)),
    ],
)
def test_the_first_shift_that_holds_moves_the_whole_list(shifts, n, ids, expected):
    rule = method(*shifts, capture=CaptureRule(last=Region()))
    assert boundaries(rule, n, ids) == expected


def test_no_ids_mean_the_default_or_an_error():
    assert boundaries(method(), 32, None) == (2, 16, 29)
    assert boundaries(CaptureMethod("fitted", shifts=(Shift(1),)), 32, None) == "ValueError"


def test_no_shift_at_all_is_a_broken_profile():
    with pytest.raises(ProfileError, match="no shift applies"):
        capture_once(method(Shift(1, "first==9")), 32, (2, 3))


@pytest.mark.parametrize(
    ("when", "bad", "good"),
    [
        ("unsorted", (3, 2), (2, 3)),
        ("duplicate", (2, 2), (2, 3)),
        ("empty", (), (2,)),
        ("id<0", (-1, 2), (0, 2)),
        ("id>=N", (2, 12), (2, 11)),
        ("id==N-1", (11, 2), (10, 2)),
    ],
)
def test_a_guard_raises_before_anything_is_captured(when, bad, good):
    rule = method(guards=(Guard(when, "ValueError"),), capture=CaptureRule(last=Region()))
    refused = capture_once(rule, 12, bad)
    assert (refused.error, refused.phase, refused.taps) == ("ValueError", "setter", ())
    assert not capture_once(rule, 12, good).error


def test_regions_decide_what_becomes_of_boundaries_outside_the_middle():
    rule = method(
        Shift(0),
        capture=CaptureRule(
            negative=Region("wrap"),
            zero=Region("error", "TypeError", "forward"),
            last=Region("drop"),
            above=Region("error", "IndexError", "setter"),
        ),
    )
    assert boundaries(rule, 12, (-2, 3)) == (3, 10)
    assert boundaries(rule, 12, (0, 3)) == "TypeError"
    assert boundaries(rule, 12, (12, 3)) == (3,)
    assert boundaries(rule, 12, (13, 3)) == "IndexError"
    assert boundaries(rule, 12, (-13, 3)) == "IndexError"
    assert boundary_fate(rule, -2, 12).action == "capture"
    assert boundary_fate(rule, 12, 12).action == "drop"


def test_the_setters_exception_comes_before_the_forward_passes():
    rule = method(
        Shift(0),
        capture=CaptureRule(zero=Region("error", "TypeError"), above=Region("error", "IndexError", "setter")),
    )
    capture = capture_once(rule, 12, (0, 14))
    assert (capture.error, capture.phase) == ("IndexError", "setter")


def test_dropped_and_repeated_boundaries_are_reported():
    capture = capture_once(method(), 12, (4, 4, 11))
    assert tuple(tap.boundary for tap in capture.taps) == (5,)
    assert sorted(capture.dropped) == [5, 12]
    assert capture.requested == (5, 5, 12)


def test_a_packer_raises_when_fewer_states_arrive_than_asked_for():
    rule = method(capture=CaptureRule(short="RuntimeError"))
    assert boundaries(rule, 12, (4, 4)) == "RuntimeError"
    assert boundaries(rule, 12, (4, 5)) == (5, 6)


def test_nothing_captured_at_all_may_raise_on_its_own():
    rule = method(capture=CaptureRule(none="ValueError"))
    assert boundaries(rule, 12, (20, 21)) == "ValueError"
    assert boundaries(rule, 12, (4, 21)) == (5,)
    both = method(capture=CaptureRule(short="RuntimeError"))
    assert boundaries(both, 12, (4, 21)) == "RuntimeError"
    assert boundaries(both, 12, (20, 21)) == ()


def test_boundaries_below_minus_n_may_have_a_region_of_their_own():
    rule = method(Shift(0), capture=CaptureRule(negative=Region("wrap"), below=Region("error", "IndexError", "setter")))
    assert boundaries(rule, 12, (-12, 3)) == (0, 3)
    assert boundaries(rule, 12, (-13, 3)) == "IndexError"


def test_order_and_repetition_follow_the_rule():
    given_order = method(capture=CaptureRule(order="given", duplicates="repeat"))
    assert boundaries(given_order, 12, (7, 2, 7)) == (8, 3, 8)
    assert boundaries(method(capture=CaptureRule(duplicates="repeat")), 12, (7, 2, 7)) == (3, 8, 8)


def test_states_that_are_no_residual_stream_are_named():
    assert capture_once(method(capture=CaptureRule(state="stream_mean")), 12, (2,)).taps == (Tap(3, "stream_mean"),)
    assert capture_once(method(capture=CaptureRule(state="the MLP branch")), 12, (2,)).foreign == "the MLP branch"


def test_broken_and_opaque_rules_capture_nothing():
    assert capture_once(CaptureMethod("broken", "never read"), 12, (2,)).error == "broken"
    with pytest.raises(ProfileError):
        capture_once(CaptureMethod("opaque", "odd"), 12, (2,))


@given(st.integers(4, 96), st.data())
def test_ascending_capture_does_not_depend_on_the_order_of_ids(n, data):
    ids = data.draw(st.lists(st.integers(-3, n + 3), min_size=1, max_size=6))
    shuffled = data.draw(st.permutations(ids))
    assert boundaries(method(), n, ids) == boundaries(method(), n, shuffled)


@given(st.integers(4, 96), st.lists(st.integers(-5, 100), min_size=1, max_size=6))
def test_what_is_asked_for_arrives_or_is_dropped(n, ids):
    capture = capture_once(method(), n, ids)
    assert sorted([*(tap.boundary for tap in capture.taps), *capture.dropped]) == sorted(capture.requested)


def test_graph_replay_with_defaults_and_a_sticky_class():
    replays = GraphReplay("default")
    effect = effective_capture(method(), replays, 32, (5, 20, 25), graphs_on=True)
    assert tuple(tap.boundary for tap in effect.replay.taps) == (2, 16, 29)
    assert tuple(tap.boundary for tap in effect.eager.taps) == (6, 21, 26)
    union = effective_capture(method(sticky=True), replays, 32, (5, 20, 25), graphs_on=True)
    assert tuple(tap.boundary for tap in union.eager.taps) == (2, 6, 16, 21, 26, 29)
    assert effective_capture(method(), replays, 32, (5,), graphs_on=False).replay is None
    assert effective_capture(method(), GraphReplay(), 32, (5,), graphs_on=True).replay is None
    assert effective_capture(method(), None, 32, None, graphs_on=True).defaulted
    unknown = effective_capture(method(), GraphReplay("unknown", reason="a loop"), 32, (5,), graphs_on=True)
    assert unknown.undetermined == "a loop"


def nested(value):
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": value}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (nested([2, 30]), ((2, 30), KEY, "")),
        (nested(None), (None, "", "")),
        (nested("2,30"), (None, KEY, "")),
        (nested([2, True]), (None, KEY, "")),
        ({"eagle_config": None}, (None, "", "")),
        ({"eagle_config": "text"}, (None, "", "")),
        ({}, (None, "", "")),
    ],
)
def test_ids_that_cannot_be_read_fall_back_silently_where_the_release_does(config, expected):
    assert read_ids(IdReading(keys=(KEY,)), config, n=61) == expected


def test_precedence_range_and_errors_of_a_reading():
    reading = IdReading(
        keys=("dspark_target_layer_ids", "dflash_config.target_layer_ids", "target_layer_ids"),
        missing="formula",
        broken="error",
        error="TypeError",
        range_low=0,
        range_high="N-1",
        unchecked=("dspark_target_layer_ids",),
    )
    both = {"target_layer_ids": [1], "dflash_config": {"target_layer_ids": [2]}}
    assert read_ids(reading, both, n=12)[0] == (2,)
    assert read_ids(reading, {"target_layer_ids": [12]}, n=12) == (None, "target_layer_ids", "TypeError")
    assert read_ids(reading, {"dspark_target_layer_ids": [12]}, n=12)[0] == (12,)
    assert read_ids(reading, {"target_layer_ids": 3}, n=12) == (None, "target_layer_ids", "TypeError")
    assert read_ids(reading, {"num_hidden_layers": 3}, n=12) == ((1, 5, 9), "formula", "")
    assert read_ids(reading, {}, n=12) == (None, "formula", "TypeError")
    assert read_ids(IdReading(missing="error"), {}, n=12)[2] == "ValueError"


@pytest.mark.parametrize(
    ("n", "layers", "ids"),
    [(64, 5, (1, 16, 31, 46, 61)), (36, 1, (18,)), (36, 5, (1, 9, 17, 25, 33)), (43, 3, (1, 20, 40))],
)
def test_evenly_spread_ids_are_those_of_the_formula(n, layers, ids):
    assert even_ids(n, layers) == ids


def test_switches_requirements_and_moves():
    reading = IdReading(
        switch="eagle_config.use_aux_hidden_state", requires=("markov_rank", "dflash_config.markov_rank")
    )
    assert capture_switched_off(reading, {"eagle_config": {"use_aux_hidden_state": False}})
    assert not capture_switched_off(reading, {"eagle_config": {}})
    assert not capture_switched_off(IdReading(), {"eagle_config": {"use_aux_hidden_state": False}})
    assert unmet_requirement(reading, {"dflash_config": {"markov_rank": 4}}) == ""
    assert unmet_requirement(reading, {"markov_rank": 0}) == "markov_rank"
    assert unmet_requirement(reading, {}) == "markov_rank"
    moving = IdReading(shifts=(ReadingShift(1, "", ("A",)), ReadingShift(2, "muse")))
    assert reading_shift(moving, "muse", ("A",)) == 3
    assert reading_shift(moving, "llama", ("B",)) == 0
    assert lookup({"a": {"b": 1}}, "a.b") == 1
    assert lookup({"a": 2}, "a.b") is None
    assert final_state(61) == (Tap(61, "final_norm"),)
