"""Fingerprints made of a target's states, and what others are told to be by them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.errors import CaptureError, DegenerateSampleError, SampleError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.fingerprint_check import check_fingerprint
from drafter_contracts.layout import FINAL_NORM, CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.values.fingerprints import compare, make_fingerprint, probe, resemblances
from drafter_contracts.values.records import Capture
from drafter_contracts.values.targets import run_target

TOKENS = probe(256)
TAPS = (1, 3, 5)


@pytest.fixture(scope="module")
def captures(random_target):
    return {dtype: run_target(random_target, torch.tensor(TOKENS), dtype=dtype) for dtype in ("float32", "bfloat16")}


@pytest.fixture(scope="module")
def fingerprints(captures):
    return {dtype: make_fingerprint(one, layout_from_boundaries(TAPS)) for dtype, one in captures.items()}


def states(capture, boundaries=TAPS):
    return [capture.states[Tap(boundary)] for boundary in boundaries]


def found(taps):
    return [one.found for one in taps]


def walk(layers=6, width=512, step=0.3, tokens=16, seed=0):
    """A capture whose stream moves by `step` of its norm per layer: adjacent boundaries are that far apart."""
    generator = torch.Generator().manual_seed(seed)
    stream, every = torch.randn(tokens, width, generator=generator), {}
    for boundary in range(layers + 1):
        every[Tap(boundary)] = stream
        stream = stream + step * torch.randn(tokens, width, generator=generator)
    every[Tap(layers, FINAL_NORM)] = torch.randn(tokens, width, generator=generator)
    record = ReferenceRecord(kind="target", layers=layers, hidden_size=width, dtype="bfloat16")
    return Capture(record=record, tokens=torch.arange(tokens), states=every)


def noisy(state, size, seed=1):
    noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(seed))
    return state + size * noise * state.norm(dim=1, keepdim=True) / noise.norm(dim=1, keepdim=True)


def test_a_fingerprint_holds_each_tap_once_in_layer_order_and_is_small(captures):
    layout = CaptureLayout((Tap(6, FINAL_NORM), Tap(5), Tap(1), Tap(5)))
    made = make_fingerprint(captures["float32"], layout)
    assert [(tap.boundary, tap.state) for tap in made.taps] == [(1, "residual"), (5, "residual"), (6, "final_norm")]
    assert (made.layers, made.width, made.dtype, made.tokens) == (6, 64, "float32", TOKENS)
    check_fingerprint(made, layout)
    state = captures["float32"].states[Tap(5)]
    assert made.taps[1].norms == pytest.approx(state.norm(dim=1).tolist(), rel=1e-6)
    assert made.taps[1].first[3] == pytest.approx(state[3, :5].tolist(), rel=1e-6)


def test_the_largest_targets_fit_a_manifest():
    made = make_fingerprint(walk(layers=61, width=7168), layout_from_boundaries([1, 8, 16, 24, 31, 40, 50, 59]))
    assert len(msgspec.json.encode(made)) < 100_000 < limits.manifest_max_bytes


@pytest.mark.parametrize("made", ["float32", "bfloat16"])
@pytest.mark.parametrize("fed", ["float32", "bfloat16"])
def test_the_same_states_are_the_same_in_either_dtype(captures, fingerprints, made, fed):
    taps = compare(fingerprints[made], states(captures[fed]), TOKENS)
    assert found(taps) == ["same"] * 3
    assert all(one.error <= one.tolerance for one in taps)
    assert [one.resembles.boundary for one in taps] == list(TAPS)
    assert [one.norm_ratio for one in taps] == pytest.approx([1, 1, 1], abs=0.02)
    assert {(one.rows, one.rows_near) for one in taps} == {(15, 15)}


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("fed", ["float32", "bfloat16"])
def test_a_shift_by_one_layer_is_seen_and_named(captures, fingerprints, by, fed):
    shifted = [boundary + by for boundary in TAPS]
    taps = compare(fingerprints["float32"], states(captures[fed], shifted), torch.tensor(TOKENS))
    assert found(taps) == ["not the same"] * 3
    assert [one.resembles.boundary for one in taps] == shifted
    assert all(one.resembles.is_it and one.reason == "" for one in taps)


def test_a_shift_by_one_layer_of_a_trained_target_is_seen_at_every_layer(trained):
    from drafter_contracts.serving.target import read_target

    facts = read_target(trained.target)
    tokens = probe(facts.vocab_size)
    exact = run_target(trained.target, torch.tensor(tokens), dtype="float32")
    rough = run_target(trained.target, torch.tensor(tokens), dtype="bfloat16")
    every = range(facts.num_layers + 1)
    made = make_fingerprint(exact, layout_from_boundaries(every))
    assert found(compare(made, states(rough, every), tokens)) == ["same"] * len(every)
    beside = [*range(1, facts.num_layers + 1), facts.num_layers - 1]
    taps = compare(made, states(rough, beside), tokens)
    assert found(taps) == ["not the same"] * len(every)
    assert [one.resembles.boundary for one in taps] == beside


def test_the_final_norm_is_no_boundary(captures):
    made = make_fingerprint(captures["float32"], CaptureLayout((Tap(6, FINAL_NORM),)))
    final, raw = captures["float32"].states[Tap(6, FINAL_NORM)], captures["float32"].states[Tap(6)]
    assert found(compare(made, [final], TOKENS)) == ["same"]
    (one,) = compare(made, [raw], TOKENS)
    assert (one.found, one.resembles.tap) == ("not the same", Tap(6))


@settings(deadline=None, max_examples=12)
@given(st.permutations(range(3)))
def test_another_order_is_told_tap_by_tap(captures, fingerprints, order):
    taps = compare(fingerprints["float32"], [states(captures["float32"])[at] for at in order], TOKENS)
    assert [one.resembles.boundary for one in taps] == [TAPS[at] for at in order]
    assert found(taps) == ["same" if at == place else "not the same" for place, at in enumerate(order)]


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**16), st.floats(0.0, 0.02))
def test_noise_within_the_dtype_is_no_other_layer_and_noise_beyond_all_is(seed, size):
    capture = walk()
    made = make_fingerprint(capture, layout_from_boundaries([4]))
    assert found(compare(made, [noisy(capture.states[Tap(4)], size, seed)], capture.tokens)) == ["same"]
    (one,) = compare(made, [noisy(capture.states[Tap(4)], 3.0, seed)], capture.tokens)
    assert (one.found, one.resembles.is_it) == ("not the same", False)


def test_farther_than_dtypes_explain_and_still_nearest_cannot_be_told():
    capture = walk()
    made = make_fingerprint(capture, layout_from_boundaries([1]))
    given_state = noisy(capture.states[Tap(1)], 0.12)
    (one,) = compare(made, [given_state], capture.tokens)
    assert one.found == "unknown"
    assert one.tolerance < one.error < 0.15
    assert "nearer to this state than to any other" in one.reason
    assert "--tolerance" in one.settle
    assert found(compare(made, [given_state], capture.tokens, most=0.14)) == ["same"]


def test_what_a_kernel_of_less_precision_does_in_float32_is_the_same(captures, fingerprints):
    given_states = [noisy(state, 5e-5) for state in states(captures["float32"])]
    taps = compare(fingerprints["float32"], given_states, TOKENS)
    assert found(taps) == ["same"] * 3
    assert all(1e-5 < one.error < one.tolerance == 1e-4 for one in taps)


def test_no_tolerance_makes_a_neighbour_the_same():
    capture = walk()
    made = make_fingerprint(capture, layout_from_boundaries([3]))
    (one,) = compare(made, [capture.states[Tap(4)]], capture.tokens, most=10.0)
    assert (one.found, one.resembles.boundary) == ("not the same", 4)


def test_a_few_tokens_may_stray_and_many_may_not():
    capture = walk()
    made = make_fingerprint(capture, layout_from_boundaries([3]))
    mixed = capture.states[Tap(3)].clone()
    mixed[[2, 7]] = capture.states[Tap(6)][[2, 7]]
    (one,) = compare(made, [mixed], capture.tokens)
    assert (one.found, one.rows_near) == ("same", 13)
    mixed[1:8] = capture.states[Tap(6)][1:8]
    (one,) = compare(made, [mixed], capture.tokens)
    assert (one.found, one.rows_near) == ("unknown", 8)
    assert "some tokens" in one.reason


def test_the_first_position_has_no_vote():
    capture = walk()
    made = make_fingerprint(capture, layout_from_boundaries([3]))
    state = capture.states[Tap(3)].clone()
    state[0] *= 100
    (one,) = compare(made, [state], capture.tokens)
    assert (one.found, one.rows, one.rows_near) == ("same", 15, 15)


def test_the_end_of_the_probe_is_enough(captures, fingerprints):
    for rows in (15, 4, 1):
        ends = [state[-rows:] for state in states(captures["bfloat16"])]
        taps = compare(fingerprints["bfloat16"], ends, TOKENS[-rows:])
        assert found(taps) == ["same"] * 3
        assert {one.rows for one in taps} == {rows}
        assert [one.norm_ratio for one in taps] == pytest.approx([1, 1, 1], abs=1e-6)
        shifted = [state[-rows:] for state in states(captures["bfloat16"], (2, 4, 6))]
        assert found(compare(fingerprints["bfloat16"], shifted, TOKENS[-rows:])) == ["not the same"] * 3


def test_without_landmarks_only_the_taps_are_known(captures):
    some = replace(
        captures["float32"], states={tap: s for tap, s in captures["float32"].states.items() if tap != Tap(2)}
    )
    made = make_fingerprint(some, layout_from_boundaries(TAPS))
    assert made.landmarks == ""
    assert found(compare(made, states(captures["float32"]), TOKENS)) == ["same"] * 3
    assert found(compare(made, states(captures["bfloat16"]), TOKENS)) == ["unknown"] * 3
    assert found(compare(made, states(captures["bfloat16"]), TOKENS, most=0.05)) == ["same"] * 3
    taps = compare(made, states(captures["float32"], (2, 5, 3)), TOKENS)
    assert found(taps) == ["not the same"] * 3
    assert not taps[0].resembles.is_it
    assert [one.resembles.boundary for one in taps[1:]] == [5, 3]


def test_a_state_that_another_boundary_has_too_is_no_fingerprint():
    capture = walk()
    twice = replace(capture, states={**capture.states, Tap(2): capture.states[Tap(3)]})
    made = make_fingerprint(twice, layout_from_boundaries([3]))
    (one,) = compare(made, [capture.states[Tap(3)]], capture.tokens)
    assert (one.found, one.reason) == ("unknown", "the fingerprint has the same state at another boundary")


def test_states_that_are_not_one_per_tap_are_told_one_by_one(captures, fingerprints):
    one, two = resemblances(fingerprints["float32"], states(captures["bfloat16"], (3, 6)), captures["bfloat16"].tokens)
    assert [(r.boundary, r.is_it) for r in (one, two)] == [(3, True), (6, True)]


def test_what_is_no_state_of_the_probe_is_refused(captures, fingerprints):
    fingerprint, good = fingerprints["float32"], states(captures["float32"])
    broken = [good[0], good[1].clone(), good[2]]
    broken[1][4, 7] = float("nan")
    with pytest.raises(DegenerateSampleError, match="not finite") as caught:
        compare(fingerprint, broken, TOKENS)
    assert caught.value.where == "boundary 3 (output of layer 2)"
    for tokens in (TOKENS[::-1], (*TOKENS, 1), TOKENS[:4], ()):
        with pytest.raises(SampleError, match="other tokens") as caught:
            compare(fingerprint, [state[: len(tokens)] for state in good], tokens)
        assert str(TOKENS[0]) in caught.value.expected
    with pytest.raises(SampleError, match="one state per tap"):
        compare(fingerprint, good[:2], TOKENS)
    with pytest.raises(SampleError, match="another shape") as caught:
        compare(fingerprint, [good[0], good[1][:, :32], good[2]], TOKENS)
    assert (caught.value.expected, caught.value.actual) == ("[16, 64]", "[16, 32]")


def test_a_capture_that_lacks_or_breaks_a_tap_makes_no_fingerprint(captures):
    capture = captures["float32"]
    with pytest.raises(CaptureError, match="lacks states") as caught:
        make_fingerprint(capture, layout_from_boundaries([3, 9]))
    assert "boundary 9" in caught.value.actual
    for state, match in ((capture.states[Tap(3)][:4], "no state per token"), (capture.states[Tap(3)] / 0, "finite")):
        with pytest.raises(CaptureError, match=match):
            make_fingerprint(replace(capture, states={**capture.states, Tap(3): state}), layout_from_boundaries([3]))


@pytest.mark.parametrize("field", ["norms", "first"])
def test_norms_and_first_elements_of_another_state_are_not_the_same(fingerprints, captures, field):
    made = fingerprints["float32"]
    given = states(captures["bfloat16"], tuple(tap.boundary for tap in made.taps))
    tokens = captures["bfloat16"].tokens
    assert {one.found for one in compare(made, given, tokens)} == {"same"}
    taken = {"norms": tuple(1.5 * norm for norm in made.taps[0].norms), "first": made.taps[1].first}[field]
    changed = msgspec.structs.replace(made.taps[0], **{field: taken})
    first, *others = compare(msgspec.structs.replace(made, taps=(changed, *made.taps[1:])), given, tokens)
    assert (first.found, {one.found for one in others}) == ("unknown", {"same"})
    assert "norms or first elements" in first.reason


def test_a_neighbour_that_the_fingerprint_does_not_know_is_not_called_the_same():
    capture = walk(layers=30, step=0.1)  # in bfloat16, more is explained than lies between two layers
    for known, expected in (
        (capture, "not the same"),
        (replace(capture, states={tap: capture.states[tap] for tap in map(Tap, (9, 19, 29))}), "unknown"),
    ):
        made = make_fingerprint(known, layout_from_boundaries([9, 19, 29]))
        beside = [capture.states[Tap(boundary)].to(torch.bfloat16) for boundary in (10, 20, 30)]
        assert found(compare(made, beside, capture.tokens)) == [expected] * 3
        right = [capture.states[tap] for tap in map(Tap, (9, 19, 29))]
        assert found(compare(made, right, capture.tokens)) == ["same"] * 3
    assert "does not know the layers beside it" in compare(made, beside, capture.tokens)[0].reason
    assert found(compare(made, beside, capture.tokens, most=0.5)) == ["same"] * 3  # who states a tolerance means it
