"""`solve` against the forward rule (soundness) and against brute force (completeness)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.capture import capture_once, effective_capture, reading_shift
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
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.layout import CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.solve import in_order, serves, solve

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"
READING = IdReading(keys=(KEY,))
DEFAULT = ("2", "N//2", "N-3")
PLAIN = CaptureMethod("fitted", default=DEFAULT, shifts=(Shift(1),))
DEEPSEEK = CaptureMethod("fitted", default=DEFAULT, shifts=(Shift(1, "first==1"), Shift(0)))
GPT_OSS = CaptureMethod(
    "fitted", default=DEFAULT, shifts=(Shift(0, "max==N"), Shift(1)), capture=CaptureRule(last=Region())
)
REPLAYS_DEFAULT = GraphReplay("default", disabled_by=("--disable-cuda-graph",))

regions = st.sampled_from(
    [Region(), Region("drop"), Region("error", "IndexError", "setter"), Region("error", "TypeError", "forward")]
)
below = st.one_of(regions, st.just(Region("wrap")))
rules = st.builds(
    CaptureRule,
    negative=below.filter(lambda region: region.action != "capture"),
    zero=regions,
    last=regions,
    above=regions.filter(lambda region: region.action != "capture"),
    order=st.sampled_from(["ascending", "given"]),
    duplicates=st.sampled_from(["once", "repeat"]),
    short=st.sampled_from(["", "RuntimeError"]),
    none=st.sampled_from(["", "ValueError"]),
    below=st.none() | regions.filter(lambda region: region.action != "capture"),
)
conditions = st.one_of(
    st.builds("first=={}".format, st.integers(-2, 5)),
    st.sampled_from(["max==N", "max==N-1", "min>=2", "min>=1", "max>=N"]),
)
shifts = st.builds(
    lambda special, last: (*special, Shift(last)),
    st.lists(st.builds(Shift, st.integers(-1, 2), conditions), max_size=2),
    st.integers(-1, 2),
)
guards = st.lists(
    st.builds(Guard, st.sampled_from(["unsorted", "duplicate", "id<0", "id>=N", "id==N-1"]), st.just("ValueError")),
    max_size=2,
).map(tuple)
methods = st.builds(
    CaptureMethod,
    st.just("fitted"),
    default=st.sampled_from([None, DEFAULT]),
    shifts=shifts,
    guards=guards,
    capture=rules,
    sticky=st.booleans(),
)
readings = st.builds(
    IdReading,
    keys=st.just((KEY,)),
    missing=st.sampled_from(["default", "error", "formula"]),
    range_low=st.sampled_from([None, 0]),
    range_high=st.sampled_from(["", "N-1"]),
)
graphs = st.sampled_from([None, GraphReplay(), REPLAYS_DEFAULT, GraphReplay("unknown", reason="two calls")])


def taps(boundaries, width=None):
    return layout_from_boundaries(boundaries, width=width)


@settings(max_examples=250, deadline=None)
@given(methods, readings, graphs, st.booleans(), st.data())
def test_every_answer_is_confirmed_by_the_forward_rule_and_none_is_confirmed_by_brute_force(
    method, reading, replay, graphs_on, data
):
    n = data.draw(st.integers(3, 6), label="N")
    boundaries = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=3), label="layout")
    layout = CaptureLayout(tuple(Tap(b) for b in boundaries))
    answer = solve(method, reading, replay, layout, n, graphs_on)

    def works(ids, on):
        return serves(effective_capture(method, replay, n, ids, graphs_on=on), layout)

    def readable(ids):
        low, high = reading.range_low, n - 1 if reading.range_high else None
        return all((low is None or i >= low) and (high is None or i <= high) for i in ids)

    if answer.found:
        on = graphs_on and not answer.graphs_off
        assert works(answer.ids, on)
        assert (answer.ids is None) == answer.default
        if answer.ids is not None:
            assert readable(answer.ids)
            assert answer.key == KEY
    every = [
        ids for ids in product(range(-n - 3, n + 4), repeat=len(boundaries)) if readable(ids) and works(ids, graphs_on)
    ]
    if every:
        assert answer.ids is not None
        assert not answer.graphs_off
    elif answer.found and not answer.graphs_off:
        assert answer.default
    if not answer.found:
        assert answer.reason


@settings(max_examples=250, deadline=None)
@given(methods, readings, graphs, st.booleans(), st.data())
def test_another_order_is_found_wherever_one_is_and_is_what_arrives(method, reading, replay, graphs_on, data):
    n = data.draw(st.integers(3, 5), label="N")
    boundaries = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=3), label="layout")
    layout = taps(boundaries)
    answer = solve(method, reading, replay, layout, n, graphs_on, any_order=True)
    plain = solve(method, reading, replay, layout, n, graphs_on)

    def arriving(ids, on):
        effect = effective_capture(method, replay, n, ids, graphs_on=on)
        modes = [effect.eager] if effect.replay is None else [effect.eager, effect.replay]
        fed = {tuple(tap.boundary for tap in mode.taps) for mode in modes if not mode.error}
        return fed.pop() if len(fed) == 1 and not effect.undetermined and not any(m.error for m in modes) else ()

    if plain.found:
        assert answer == plain
        return
    if answer.found:
        assert sorted(answer.order) == list(range(len(boundaries)))
        on = graphs_on and not answer.graphs_off
        assert arriving(answer.ids, on) == tuple(boundaries[place] for place in answer.order)
    low, high = reading.range_low, n - 1 if reading.range_high else None
    for ids in product(range(-n - 2, n + 3), repeat=len(boundaries)):
        if all((low is None or i >= low) and (high is None or i <= high) for i in ids) and not answer.found:
            assert sorted(arriving(ids, False)) != sorted(boundaries), ids


@settings(max_examples=300, deadline=None)
@given(st.integers(4, 128), st.data())
def test_the_common_rule_is_boundaries_less_one(n, data):
    boundaries = data.draw(st.lists(st.integers(1, n - 1), min_size=1, max_size=5, unique=True).map(sorted))
    assert solve(PLAIN, READING, None, taps(boundaries), n, True).ids == tuple(b - 1 for b in boundaries)


def test_a_family_that_adds_one_only_after_a_first_id_of_one_is_given_boundaries():
    answer = solve(DEEPSEEK, READING, None, taps([3, 31, 59]), 61, True)
    assert (answer.ids, answer.key) == ((3, 31, 59), KEY)


def test_that_family_takes_outputs_where_the_first_is_one():
    assert solve(DEEPSEEK, READING, None, taps([2, 30, 58]), 61, True).ids == (1, 29, 57)
    assert capture_once(DEEPSEEK, 61, (1, 29, 57)).taps == taps([2, 30, 58]).taps


def test_boundary_one_first_is_reached_by_another_order():
    answer = solve(DEEPSEEK, READING, None, taps([1, 31, 59]), 61, True)
    assert answer.ids is not None
    assert answer.ids[0] != 1
    assert capture_once(DEEPSEEK, 61, answer.ids).taps == taps([1, 31, 59]).taps


def test_one_tap_at_boundary_one_has_no_ids_in_that_family_and_the_reason_names_both_rules():
    answer = solve(DEEPSEEK, READING, None, taps([1]), 61, True)
    assert not answer.found
    assert "first==1" in answer.reason
    assert "always" in answer.reason


def test_the_last_boundary_is_reached_where_the_release_captures_it():
    assert solve(GPT_OSS, READING, None, taps([24, 30, 36]), 36, True).ids == (24, 30, 36)
    assert solve(GPT_OSS, READING, None, taps([2, 18, 33]), 36, True).ids == (1, 17, 32)


def test_the_last_boundary_elsewhere_is_named_as_dropped():
    answer = solve(PLAIN, READING, None, taps([24, 30, 36]), 36, True)
    assert not answer.found
    assert "boundary 36 (output of layer 35)" in answer.reason
    assert "dropped" in answer.reason


def test_an_unsorted_layout_is_refused_with_the_order_the_release_uses():
    answer = solve(PLAIN, READING, None, taps([31, 3, 59]), 61, True)
    assert not answer.found
    assert "3, 31, 59" in answer.reason
    assert "permuted" in answer.reason


def test_graph_replay_of_the_default_needs_graphs_off():
    answer = solve(PLAIN, READING, REPLAYS_DEFAULT, taps([3, 31, 59]), 61, True)
    assert answer.ids == (2, 30, 58)
    assert answer.graphs_off
    assert "default" in answer.reason
    assert not solve(PLAIN, READING, REPLAYS_DEFAULT, taps([3, 31, 59]), 61, False).graphs_off


def test_a_release_that_reads_no_ids_serves_its_default_and_nothing_else():
    reading = IdReading()
    assert solve(PLAIN, reading, None, taps([2, 16, 29]), 32, True).default
    answer = solve(PLAIN, reading, None, taps([3, 16, 29]), 32, True)
    assert not answer.found
    assert "reads no capture ids" in answer.reason


def test_ids_that_a_release_moves_first_are_moved_back():
    reading = IdReading(
        keys=("dflash_config.target_layer_ids",),
        missing="formula",
        range_low=0,
        range_high="N-1",
        shifts=(ReadingShift(1, "muse", ("MuseDraft",)),),
    )
    method = CaptureMethod("fitted", shifts=(Shift(0),))
    moved = solve(method, reading, None, taps([3, 9]), 12, True, target_model_type="muse", architectures=("MuseDraft",))
    assert moved.ids == (2, 8)
    assert reading_shift(reading, "muse", ("MuseDraft",)) == 1
    assert reading_shift(reading, "other", ("MuseDraft",)) == 0
    assert solve(method, reading, None, taps([3, 9]), 12, True, target_model_type="llama").ids == (3, 9)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (CaptureMethod("opaque", "captures a tuple"), "captures a tuple"),
        (CaptureMethod("broken", "the list is never read"), "the list is never read"),
        (CaptureMethod("fitted", shifts=(Shift(1),), capture=CaptureRule(state="the MLP branch")), "the MLP branch"),
    ],
)
def test_a_rule_that_cannot_serve_says_why(method, words):
    answer = solve(method, READING, None, taps([3, 31, 59]), 61, True)
    assert not answer.found
    assert words in answer.reason


@pytest.mark.parametrize("state", ["stream_mean", "stream_mixture"])
def test_what_is_made_of_several_streams_serves_a_layout_that_names_only_boundaries_but_no_final_norm(state):
    method = CaptureMethod("fitted", shifts=(Shift(1),), capture=CaptureRule(state=state, last=Region()))
    assert solve(method, READING, None, taps([3, 31]), 61, True).ids == (2, 30)
    final = CaptureLayout((Tap(3), Tap(61, "final_norm")))
    assert "final norm" in solve(method, READING, None, final, 61, True).reason


@pytest.mark.parametrize("release", releases("sglang"))
def test_every_target_of_a_shipped_release_is_solved_or_says_why(release):
    profile = load_profile("sglang", release)
    n = 61
    layouts = [(2, 30, 58), (3, 31, 59), (1, 31, 59), (0, 3, 31), (24, 30, 61), (3, 16, 31, 46, 59)]
    solved = 0
    for methods in profile.targets.values():
        for name, index in methods.items():
            rule, reading, replay = profile.rules[index], profile.readings[name], profile.graphs.get(name)
            for wanted in map(taps, layouts):
                answer = solve(rule, reading, replay, wanted, n, True)
                if not answer.found:
                    assert answer.reason
                    continue
                effect = effective_capture(rule, replay, n, answer.ids, graphs_on=not answer.graphs_off)
                assert serves(effect, wanted)
                solved += 1
    assert solved > 0


def test_ids_go_to_another_key_where_the_first_one_alone_is_refused():
    """DSPARK of 0.5.23: the first key wins, and the release still range-checks (and misses) the others."""
    profile = load_profile("sglang", "0.5.23")
    rule, reading = profile.capture_method("Qwen3ForCausalLM", "DSPARK"), profile.readings["DSPARK"]
    layout = layout_from_boundaries([2, 18, 33])
    bare = solve(rule, reading, None, layout, 36, True)
    assert (bare.key, bare.ids) == ("dflash_config.target_layer_ids", (1, 17, 32))
    both = {"dspark_target_layer_ids": [5, 6, 7], "dflash_config": {"mask_token_id": 7, "target_layer_ids": [1, 2, 3]}}
    outranked = solve(rule, reading, None, layout, 36, True, config=both)
    assert (outranked.key, outranked.ids) == ("dspark_target_layer_ids", (1, 17, 32))
    preferred = solve(rule, reading, None, layout, 36, True, prefer="target_layer_ids")
    assert preferred.key == "target_layer_ids"


@pytest.mark.parametrize(
    ("boundaries", "ids", "order"),
    [
        ([31, 3, 59], (2, 30, 58), (1, 0, 2)),
        ([59, 31, 3], (2, 30, 58), (2, 1, 0)),
        ([31, 59, 3], (2, 30, 58), (2, 0, 1)),
        ([3, 31, 59], (2, 30, 58), ()),
    ],
)
def test_block_j_of_the_render_is_the_layouts_tap_order_j(boundaries, ids, order):
    layout = CaptureLayout(tuple(map(Tap, boundaries)), (5, 6, 7))
    answer = solve(PLAIN, READING, None, layout, 61, True, any_order=True)
    assert (answer.ids, answer.order) == (ids, order)
    fed = in_order(layout, answer.order or (0, 1, 2))
    assert (fed.boundaries, fed.ascending) == ((3, 31, 59), True)
    assert dict(zip(fed.boundaries, fed.widths, strict=True)) == dict(zip(boundaries, (5, 6, 7), strict=True))
    if order:
        assert "ascending layer order (3, 31, 59)" in answer.reason


def test_a_release_that_keeps_the_order_and_refuses_unsorted_ids_serves_in_ascending_order():
    rule = CaptureMethod(
        "fitted", shifts=(Shift(1),), guards=(Guard("unsorted", "ValueError"),), capture=CaptureRule(order="given")
    )
    answer = solve(rule, READING, None, taps([31, 3, 59]), 61, True)
    assert not answer.found
    assert "refuses them: ValueError when unsorted" in answer.reason
    answer = solve(rule, READING, None, taps([31, 3, 59]), 61, True, any_order=True)
    assert (answer.ids, answer.order) == ((2, 30, 58), (1, 0, 2))


def test_the_default_and_graphs_off_go_with_another_order():
    answer = solve(PLAIN, IdReading(), None, taps([29, 2, 16]), 32, True, any_order=True)
    assert (answer.default, answer.order) == (True, (1, 2, 0))
    answer = solve(PLAIN, READING, REPLAYS_DEFAULT, taps([59, 31, 3]), 61, True, any_order=True)
    assert (answer.ids, answer.order, answer.graphs_off) == ((2, 30, 58), (2, 1, 0), True)
    assert "replay" in answer.reason


def test_a_repeated_tap_has_no_order_where_each_is_captured_once():
    answer = solve(PLAIN, READING, None, taps([31, 3, 31]), 61, True, any_order=True)
    assert not answer.found
    assert "repeats a boundary" in answer.reason


def test_no_order_helps_is_said_where_the_sorted_layout_has_no_ids_either():
    answer = solve(DEEPSEEK, IdReading(keys=(KEY,), range_low=2), None, taps([31, 1]), 61, True, any_order=True)
    assert not answer.found
    assert answer.reason.endswith("in whatever order the column blocks of fc are put")
    sorted_layout = solve(DEEPSEEK, IdReading(keys=(KEY,), range_low=2), None, taps([1, 31]), 61, True, any_order=True)
    assert "whatever" not in sorted_layout.reason


DSPARK_KEYS = ("dspark_target_layer_ids", "target_layer_ids")
SPREAD = IdReading(
    keys=DSPARK_KEYS,
    missing="formula",
    error="ValueError",
    range_low=0,
    range_high="N-1",
    unchecked=DSPARK_KEYS[:1],
    checks_all=True,
)


def test_ids_that_no_key_lets_through_are_left_out_where_the_release_spreads_them_itself():
    junk = {"num_hidden_layers": 3, "target_layer_ids": [40], "dspark_target_layer_ids": [2, 1]}
    answer = solve(PLAIN, SPREAD, None, taps([2, 3, 4]), 6, True, config=junk)
    assert answer.default
    assert "spreads" in answer.reason


def test_what_the_config_says_elsewhere_is_named_as_the_obstacle():
    junk = {"num_hidden_layers": 3, "target_layer_ids": [40], "dspark_target_layer_ids": [2, 1]}
    answer = solve(PLAIN, SPREAD, None, taps([1, 3, 4]), 6, True, config=junk)
    assert not answer.found
    assert "what else is at dspark_target_layer_ids and target_layer_ids" in answer.reason
    assert solve(PLAIN, SPREAD, None, taps([1, 3, 4]), 6, True).ids == (0, 2, 3)


@pytest.mark.parametrize(
    ("method", "reading", "boundaries", "words"),
    [
        (PLAIN, IdReading(keys=(KEY,), range_low=1), [1, 5], "ids outside 1..any are refused"),
        (
            CaptureMethod(
                "fitted",
                shifts=(Shift(1),),
                guards=(Guard("id==N-1", "TypeError"),),
                capture=CaptureRule(last=Region()),
            ),
            READING,
            [61],
            "ids [60] would need the rule 'add 1 when always', but the setter refuses them: TypeError when id==N-1",
        ),
        (CaptureMethod("fitted", default=DEFAULT), READING, [1], "no ids give these layers"),
        (PLAIN, IdReading(keys=(KEY,), status="opaque", reason="a loop"), [1], "could not be derived: a loop"),
    ],
)
def test_the_reason_is_what_stands_in_the_way(method, reading, boundaries, words):
    answer = solve(method, reading, None, taps(boundaries), 61, True)
    assert not answer.found
    assert words in answer.reason


@pytest.mark.parametrize("count", [10, 11])
def test_what_was_not_tried_is_said(count):
    rule = CaptureMethod(
        "fitted", shifts=(Shift(1, "first==1"), Shift(2)), capture=CaptureRule(negative=Region("wrap"))
    )
    reading = IdReading(keys=(KEY,), range_low=5)
    answer = solve(rule, reading, None, taps(range(1, count + 1)), 61, True)
    assert ("not tried for more than 10 layers" in answer.reason) == (count > 10)


def test_a_release_that_keeps_the_order_may_need_another_first_tap():
    rule = CaptureMethod("fitted", shifts=(Shift(5, "first==1"), Shift(1)), capture=CaptureRule(order="given"))
    assert not solve(rule, READING, None, taps([2, 9]), 61, True).found
    answer = solve(rule, READING, None, taps([2, 9]), 61, True, any_order=True)
    assert (answer.ids, answer.order) == ((8, 1), (1, 0))


def test_a_setter_that_takes_no_ids_is_given_none():
    takes_none = CaptureMethod("fitted", default=DEFAULT)
    config = {"num_hidden_layers": 3}
    assert not solve(takes_none, SPREAD, None, taps([2, 3, 4]), 6, True, config=config, any_order=True).found


def test_a_boundary_that_is_never_captured_is_the_reason_whatever_the_order():
    plain = solve(PLAIN, READING, None, taps([61, 3]), 61, True)
    assert "never captured" in plain.reason
    assert solve(PLAIN, READING, None, taps([61, 3]), 61, True, any_order=True) == plain
