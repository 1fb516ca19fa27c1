"""`solve` over everything that the shipped releases do, against brute force over every list of ids.

Brute force knows the forward rule (`effective_capture`) and what a release reads (`read_ids`), and nothing of how
`solve` looks for ids.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.capture import effective_capture, read_ids, reading_shift
from drafter_contracts.engines.profile import FITTED
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.layout import STREAMS, CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.solve import solve

#: A config with everything of the field in it: what ids are written at one key does not take the others out.
CROWDED = {
    "num_hidden_layers": 3,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0], "use_aux_hidden_state": True},
    "dspark_target_layer_ids": [2, 1],
    "dflash_config": {"target_layer_ids": [40], "mask_token_id": 7},
    "target_layer_ids": [1],
}
CONFIGS = (
    {},
    CROWDED,
    {"num_hidden_layers": 1, "target_layer_ids": [-9]},
    {"dflash_config": {"target_layer_ids": None}, "target_layer_ids": [1, 2]},
    {"dflash_config": None, "eagle_config": None, "dspark_target_layer_ids": "3"},
)
#: A drafter and target for which some releases move the ids by one.
MUSE = {"target_model_type": "muse_glimmer", "architectures": ("MuseGlimmerAssistantModel",)}


@cache
def behaviours():
    """Every distinct (rule, reading, replay) of all shipped profiles, without the places where a release does it."""
    found = {}
    for release in releases("sglang"):
        profile = load_profile("sglang", release)
        for methods in profile.targets.values():
            for name, index in methods.items():
                replay = profile.graphs.get(name)
                behaviour = (
                    msgspec.structs.replace(profile.rules[index], source=None, forward=None, reason=""),
                    msgspec.structs.replace(profile.readings[name], source=None),
                    replay and msgspec.structs.replace(replay, source=None, disabled_by=()),
                )
                found.setdefault(behaviour, f"{release} {name}")
    return tuple(found)


def arrives(rule, replay, n, ids, graphs_on):
    """The boundaries that every mode feeds, or None where that is no one list of residual streams."""
    if rule.status != FITTED or (ids is not None and not rule.shifts):  # no rule, or a setter that takes no ids
        return None
    effect = effective_capture(rule, replay, n, ids, graphs_on=graphs_on)
    modes = [effect.eager] if effect.replay is None else [effect.eager, effect.replay]
    if effect.undetermined or any(mode.error or mode.foreign for mode in modes):
        return None
    if any(tap.state not in STREAMS for mode in modes for tap in mode.taps):
        return None
    fed = {tuple(tap.boundary for tap in mode.taps) for mode in modes}
    return fed.pop() if len(fed) == 1 else None


@cache
def table(rule, replay, n, length, graphs_on):
    """What arrives, to every list of ids (as the setter sees them) with which it does."""
    found = defaultdict(list)
    for ids in product(range(-n - 1, n + 3), repeat=length):
        fed = arrives(rule, replay, n, ids, graphs_on)
        if fed is not None:
            found[fed].append(ids)
    return found


def written(config, key, ids):
    """The config with ids at a key."""
    parent, _, child = key.rpartition(".")
    if not parent:
        return {**config, key: list(ids)}
    inner = config.get(parent)
    return {**config, parent: {**(inner if isinstance(inner, dict) else {}), child: list(ids)}}


def left_out(config, reading):
    """The config without any key that the release reads ids from."""
    bare = dict(config)
    for key in reading.keys:
        parent, _, child = key.rpartition(".")
        if parent and isinstance(bare.get(parent), dict):
            bare[parent] = {name: value for name, value in bare[parent].items() if name != child}
        elif not parent:
            bare.pop(key, None)
    return bare


def read(reading, config, n):
    """What is read and not refused: (ids,), or () for an error."""
    ids, _, error = read_ids(reading, config, n=n)
    return () if error else (ids,)


def ways(behaviour, n, boundaries, graphs_on, config, moved=0):
    """Every (key, ids) with which these boundaries arrive; key "" for no ids at all."""
    rule, reading, replay = behaviour
    for ids in table(rule, replay, n, len(boundaries), graphs_on).get(boundaries, ()):
        plain = tuple(i - moved for i in ids)
        for key in reading.keys:
            if read(reading, written(config, key, plain), n) == (plain,):
                yield key, plain
    for ids in read(reading, left_out(config, reading), n):
        reaches = None if ids is None else tuple(i + moved for i in ids)
        if arrives(rule, replay, n, reaches, graphs_on) == boundaries:
            yield "", ids


def confirm(behaviour, n, boundaries, graphs_on, config, answer, moved=0):
    """Hold one found answer against what is read and what arrives."""
    rule, reading, replay = behaviour
    on = graphs_on and not answer.graphs_off
    wanted = tuple(boundaries[place] for place in answer.order) if answer.order else boundaries
    assert not answer.order or sorted(answer.order) == list(range(len(boundaries)))
    assert answer.default == (answer.ids is None)
    final = left_out(config, reading) if answer.default else written(config, answer.key, answer.ids)
    (ids,) = read(reading, final, n)
    assert answer.default or ids == answer.ids
    assert arrives(rule, replay, n, None if ids is None else tuple(i + moved for i in ids), on) == wanted


def judge(behaviour, n, boundaries, graphs_on, config=CONFIGS[0], muse=False):
    """One question to `solve`, held against brute force."""
    rule, reading, replay = behaviour
    drafter = MUSE if muse else {}
    moved = reading_shift(reading, *MUSE.values()) if muse else 0
    layout = layout_from_boundaries(boundaries)

    def possible(fed, on):
        return any(True for _ in ways(behaviour, n, fed, on, config, moved))

    plain = solve(rule, reading, replay, layout, n, graphs_on, config=config, **drafter)
    eager = possible(boundaries, False)
    here = possible(boundaries, True) if graphs_on else eager
    assert plain.found == (here or eager)
    assert not plain.order
    free = solve(rule, reading, replay, layout, n, graphs_on, config=config, **drafter, any_order=True)
    if plain.found:
        assert plain.graphs_off == (not here)
        confirm(behaviour, n, boundaries, graphs_on, config, plain, moved)
        assert free == plain, "the layout's own order is preferred"
        return
    assert plain.reason
    same = [fed for fed in table(rule, replay, n, len(boundaries), False) if sorted(fed) == sorted(boundaries)]
    same.append(tuple(sorted(boundaries)))
    assert free.found == any(possible(fed, False) for fed in same)
    assert free.reason
    assert bool(free.order) == free.found
    if free.found:
        confirm(behaviour, n, boundaries, graphs_on, config, free, moved)


@pytest.mark.parametrize("graphs_on", [True, False])
def test_every_layout_of_a_small_target_is_solved_or_there_is_none(graphs_on):
    """Every behaviour of the shipped profiles (189 of them), every layout of up to three taps."""
    n = 4
    layouts = [boundaries for length in (1, 2, 3) for boundaries in product(range(n + 1), repeat=length)]
    for behaviour in behaviours():
        for boundaries in layouts:
            judge(behaviour, n, boundaries, graphs_on)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_layouts_of_larger_targets_with_whatever_else_the_config_says(data):
    n = data.draw(st.integers(5, 8), label="N")
    boundaries = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=3).map(tuple), label="layout")
    behaviour = data.draw(st.sampled_from(behaviours()))
    judge(
        behaviour,
        n,
        boundaries,
        data.draw(st.booleans(), label="graphs"),
        data.draw(st.sampled_from(CONFIGS), label="config"),
        data.draw(st.booleans(), label="muse"),
    )


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_what_is_found_for_targets_of_real_depth_is_what_arrives(data):
    n = data.draw(st.integers(4, 160), label="N")
    boundaries = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=9).map(tuple), label="layout")
    behaviour = data.draw(st.sampled_from(behaviours()))
    graphs_on, config = data.draw(st.booleans(), label="graphs"), data.draw(st.sampled_from(CONFIGS), label="config")
    rule, reading, replay = behaviour
    layout = layout_from_boundaries(boundaries)
    answer = solve(rule, reading, replay, layout, n, graphs_on, config=config, any_order=True)
    if answer.found:
        confirm(behaviour, n, boundaries, graphs_on, config, answer)
        assert answer.order or solve(rule, reading, replay, layout, n, graphs_on, config=config) == answer
    ordered = solve(rule, reading, replay, layout_from_boundaries(sorted(boundaries)), n, graphs_on, config=config)
    assert answer.found == ordered.found, "shipped releases concatenate in ascending order"


@pytest.mark.parametrize("state", ["final_norm", "stream_mean", "stream_mixture", "residual"])
def test_the_state_of_a_tap_is_part_of_the_layout(state):
    n = 6
    layout = CaptureLayout((Tap(3), Tap(n, state)))
    for rule, reading, replay in behaviours():
        answer = solve(rule, reading, replay, layout, n, True, any_order=True)
        if not answer.found:
            continue
        assert state != "final_norm", "no release hands out the final norm as an aux hidden state"
        effect = effective_capture(rule, replay, n, answer.ids, graphs_on=not answer.graphs_off)
        assert effect.eager.taps[1].state in STREAMS
        assert state in {"residual", effect.eager.taps[1].state} or effect.eager.taps[1].state == "residual"
