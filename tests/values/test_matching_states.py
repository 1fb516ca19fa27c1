"""States are identified where they are there, and never where they are not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from making.streams import capture_of, noisy, rotation, stream, without

from drafter_contracts.errors import CaptureError
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.matching import match_states
from drafter_contracts.values.matching.decide import Candidate, decide
from drafter_contracts.values.targets import run_target

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FEW = settings(max_examples=10, deadline=None)
SEEDS = st.integers(0, 10**6)
DTYPES = st.sampled_from([FP32, FP16, BF16])


def match_one(state, capture, tokens=None, **options):
    (found,) = match_states([state], capture.tokens if tokens is None else tokens, capture, **options)
    return found


def tap(match):
    return Tap(match.boundary, match.state)


@FEW
@given(seed=SEEDS, dtype=DTYPES, shift=st.integers(-1, 1), data=st.data())
def test_states_in_any_order_dtype_and_shift_are_named(seed, dtype, shift, data):
    capture = stream(seed=seed)
    taps = data.draw(st.lists(st.sampled_from(capture.taps()), min_size=1, max_size=4))
    states = [capture.states[wanted].roll(-shift, 0).to(dtype) for wanted in taps]
    for number, (wanted, match) in enumerate(zip(taps, match_states(states, capture.tokens, capture), strict=True)):
        assert (match.number, match.found, tap(match), match.shift, match.map) == (
            number,
            "identified",
            wanted,
            shift,
            "",
        )
        assert match.error <= match.tolerance
        assert match.next_error > 3 * match.error
        assert len(match.errors) == 7


@FEW
@given(seed=SEEDS, dtype=DTYPES, missing=st.integers(0, 5))
def test_a_state_that_the_reference_lacks_is_unknown(seed, dtype, missing):
    capture = stream(seed=seed)
    match = match_one(capture.states[Tap(missing)].to(dtype), without(capture, Tap(missing)))
    assert match.found == "unknown"
    assert Tap(missing).label() in match.settle
    assert match.map == ""


@FEW
@given(seed=SEEDS, dtype=DTYPES, first=st.integers(0, 4), part=st.sampled_from([0.5, 0.3]))
def test_a_mean_of_two_states_is_unknown(seed, dtype, first, part):
    capture = stream(seed=seed)
    mixed = (1 - part) * capture.states[Tap(first)] + part * capture.states[Tap(first + 1)]
    match = match_one(mixed.to(dtype), capture)
    assert (match.found, match.map) == ("unknown", "")
    assert "none of the reference's states" in match.reason


@FEW
@given(seed=SEEDS, wanted=st.integers(0, 5))
def test_noise_below_the_tolerance_is_noise_and_three_times_it_is_not(seed, wanted):
    capture = stream(seed=seed)
    state = capture.states[Tap(wanted)].to(BF16)
    tolerance = match_one(state, capture).tolerance
    below = match_one(noisy(state.float(), 0.8 * tolerance, seed).to(BF16), capture)
    assert (below.found, tap(below)) == ("identified", Tap(wanted))
    above = match_one(noisy(state.float(), 3 * tolerance, seed).to(BF16), capture)
    assert above.found == "unknown"


@FEW
@given(seed=SEEDS, dtype=DTYPES, scale=st.sampled_from([0.02, 0.7, 1.5, 48.0, -1.0]), wanted=st.integers(0, 5))
def test_a_scaled_state_is_called_so(seed, dtype, scale, wanted):
    capture = stream(seed=seed)
    match = match_one((capture.states[Tap(wanted)] * scale).to(dtype), capture)
    assert (match.found, match.map, tap(match)) == ("transformed", "scaled", Tap(wanted))
    assert match.scale == pytest.approx(scale, rel=0.01)


@FEW
@given(seed=SEEDS, dtype=DTYPES, scale=st.sampled_from([1.0, 2.5]), wanted=st.integers(0, 5), shift=st.integers(0, 1))
def test_a_rotated_state_is_called_so_with_fewer_rows_than_columns(seed, dtype, scale, wanted, shift):
    capture = stream(seed=seed, massive=False, step=0.8)
    state = (capture.states[Tap(wanted)] @ rotation(96, seed) * scale).roll(-shift, 0)
    match = match_one(state.to(dtype), capture)
    assert (match.found, match.map, tap(match), match.shift) == ("transformed", "rotated", Tap(wanted), shift)
    assert match.scale == pytest.approx(scale, rel=0.02)


@FEW
@given(seed=SEEDS, dtype=DTYPES, missing=st.integers(0, 5))
def test_a_rotated_state_that_the_reference_lacks_is_unknown(seed, dtype, missing):
    capture = stream(seed=seed, massive=False, step=0.8)
    state = (capture.states[Tap(missing)] @ rotation(96, seed)).to(dtype)
    assert match_one(state, without(capture, Tap(missing))).found == "unknown"


def test_a_linear_map_that_is_no_rotation_is_unknown():
    capture = stream(massive=False)
    shear = rotation(96) * torch.linspace(0.5, 1.5, 96)
    assert match_one(capture.states[Tap(2)] @ shear, capture).found == "unknown"


def test_rows_without_structure_are_no_rotation_of_other_rows_without_structure():
    wide = 8192
    first, second = torch.randn(2, 24, wide, generator=torch.Generator().manual_seed(1))
    first, second = (state / state.norm(dim=1, keepdim=True) for state in (first, second))
    capture = capture_of({Tap(0): first, Tap(1): first + second}, torch.arange(24), layers=1, width=wide)
    made_up = torch.randn(24, wide, generator=torch.Generator().manual_seed(2))
    made_up /= made_up.norm(dim=1, keepdim=True)
    assert match_one(made_up.to(BF16), capture).found == "unknown"


def test_rows_of_the_right_norms_or_the_right_cosines_alone_are_no_rotation():
    capture = stream(massive=False)
    state = capture.states[Tap(2)]
    other = torch.randn(state.shape, generator=torch.Generator().manual_seed(11))
    right_norms = other / other.norm(dim=1, keepdim=True) * state.norm(dim=1, keepdim=True)
    right_cosines = state @ rotation(96) * torch.linspace(0.8, 1.25, 40)[:, None]
    right_directions = state * torch.linspace(0.5, 2.0, 40)[:, None]
    for made_up in (right_norms, right_cosines, right_directions):
        match = match_one(made_up, capture)
        assert (match.found, match.map) == ("unknown", "")


def test_cosines_that_no_rounding_moves_so_far_are_no_rotation():
    capture = stream(massive=False, step=0.8)
    state = noisy(capture.states[Tap(2)], 0.25) @ rotation(96)
    state *= capture.states[Tap(2)].norm(dim=1, keepdim=True) / state.norm(dim=1, keepdim=True)
    assert match_one(state.to(BF16), capture).found == "unknown"


def test_too_few_rows_are_no_rotation():
    capture = stream(massive=False, rows=7)
    assert match_one(capture.states[Tap(2)] @ rotation(96), capture).found == "unknown"


@FEW
@given(seed=SEEDS, dtype=st.sampled_from([E4M3, E5M2]), by_row=st.booleans(), wanted=st.integers(0, 5))
def test_eight_bit_states_are_scaled_ones(seed, dtype, by_row, wanted):
    capture = stream(seed=seed, step=1.5, massive=by_row)
    state = capture.states[Tap(wanted)]
    largest = state.abs().amax(1, keepdim=True) if by_row else state.abs().amax()
    scale = largest / torch.finfo(dtype).max
    packed = (state / scale).to(dtype)
    match = match_one(packed, capture)
    assert (match.found, match.map, tap(match)) == ("transformed", "scaled", Tap(wanted))
    back = match_one((packed.float() * scale).to(BF16), capture)
    assert (back.found, back.map, tap(back)) == ("identified", "", Tap(wanted))


def test_eight_bits_that_were_never_scaled_are_the_state_itself():
    capture = stream(step=1.5, massive=False)
    match = match_one(capture.states[Tap(2)].to(E5M2), capture)
    assert (match.found, match.map, match.scale, tap(match)) == ("identified", "", None, Tap(2))


def test_one_damaged_row_is_told_and_a_massive_one_hides_nothing():
    capture = stream()
    state = capture.states[Tap(3)].to(BF16).clone()
    state[17] = state[20]
    match = match_one(state, capture)
    assert match.found == "unknown"
    assert "1 of 40 rows compared are not of boundary 3" in match.reason
    assert "row 17" in match.reason
    assert match.error > 1
    assert match.tolerance < 1
    other = capture.states[Tap(2)].clone()
    other[0] = capture.states[Tap(3)][0]
    assert tap(match_one(other, without(capture, Tap(2)))) != Tap(2)
    assert match_one(other, without(capture, Tap(2))).found == "unknown"


def test_a_fifth_of_the_rows_from_the_next_layer_is_told():
    capture = stream(step=0.1)
    state = capture.states[Tap(3)].to(BF16).clone()
    state[::5] = capture.states[Tap(4)][::5].to(BF16)
    match = match_one(state, capture)
    assert match.found == "unknown"
    assert "7 of 40 rows compared are not of boundary 3" in match.reason
    assert match.error > match.tolerance


def test_rows_are_counted_from_the_samples_first_compared_one_and_ties_go_to_the_unshifted():
    noise = torch.full((20,), 0.01)
    errors = torch.full((20,), 0.005)
    errors[2] = 0.5
    shifted = Candidate(tap=Tap(1), shift=-1, errors=errors, noise=noise, start=5, step=3)
    assert shifted.outliers().row == 11
    unshifted = Candidate(tap=Tap(1), shift=0, errors=errors, noise=noise)
    assert decide([shifted, unshifted]).best is unshifted
    assert decide([unshifted, shifted]).crowded


def test_rows_that_overflowed_are_left_out():
    capture = stream()
    state = (capture.states[Tap(3)] * 1.0).to(FP16).clone()
    state[0, 3] = float("inf")
    match = match_one(state, capture)
    assert (match.found, tap(match)) == ("identified", Tap(3))
    state[:25, 3] = float("nan")
    assert match_one(state, capture).found == "unknown"


def test_a_layer_that_adds_nothing_leaves_two_names():
    capture = stream()
    capture.states[Tap(3)] = capture.states[Tap(2)].clone()
    match = match_one(capture.states[Tap(2)].to(BF16), capture)
    assert match.found == "unknown"
    assert "boundary 2 (output of layer 1)" in match.reason
    assert "boundary 3 (output of layer 2)" in match.reason
    assert {match.boundary, match.next_boundary} == {2, 3}
    assert match.map == ""
    assert match.reason.startswith("it may be any of")
    finest = match_one(capture.states[Tap(2)], capture)
    assert "the same" in finest.settle
    scaled = match_one(capture.states[Tap(2)] * 2, capture)
    assert (scaled.found, scaled.map) == ("unknown", "scaled")
    assert scaled.reason.startswith("scaled by 2, it may be any of boundary 2")


def test_layers_that_add_nothing_are_all_counted():
    capture = stream()
    for number in range(1, 6):
        capture.states[Tap(number)] = capture.states[Tap(0)].clone()
    assert "and 3 more" in match_one(capture.states[Tap(0)], capture).reason


def test_the_next_best_is_another_state_though_shifts_of_the_same_are_nearer():
    capture = stream(massive=False)
    for name, state in capture.states.items():
        capture.states[name] = noisy(state[:1].expand(40, 96), 1e-4).contiguous()
    match = match_one(capture.states[Tap(2)], capture)
    assert (match.found, tap(match)) == ("identified", Tap(2))
    assert match.next_boundary in {1, 3}
    assert match.next_error > 0.1


def test_states_nearer_than_their_dtypes_tell_are_settled_by_a_finer_run():
    capture = stream(step=0.02)
    coarse = {name: state.to(BF16) for name, state in capture.states.items()}
    low = capture_of(coarse, capture.tokens, layers=5, width=96)
    match = match_one(capture.states[Tap(4)], low)
    assert match.found == "unknown"
    assert match.settle == "run the target in float32"
    assert match_one(capture.states[Tap(4)], capture).found == "identified"
    both = match_one(coarse[Tap(4)], capture)
    assert (both.found, both.settle) == ("unknown", "record the states, and run the target, in float32")
    few = match_one(coarse[Tap(4)][:3], capture, capture.tokens[:3])
    assert few.settle == "record more tokens: 3 were compared"


def test_a_state_between_two_of_which_only_one_is_near_enough_is_unknown():
    capture = stream(step=0.1, layers=3)
    tolerance = match_one(capture.states[Tap(2)].to(BF16), capture).tolerance
    gap = capture.states[Tap(3)] - capture.states[Tap(2)]
    part = 0.9 * tolerance / float((gap.norm(dim=1) / capture.states[Tap(2)].norm(dim=1)).median())
    match = match_one((capture.states[Tap(2)] + part * gap).to(BF16), capture)
    assert match.found == "unknown"
    assert "less than 3 times as far" in match.reason or "may be any of" in match.reason


def test_finer_numbers_computed_from_coarser_states_are_told_what_they_would_be():
    capture = stream(step=1.0)
    match = match_one(noisy(capture.states[Tap(3)].to(BF16).float(), 1e-3), capture)
    assert match.found == "unknown"
    assert "had that been float16" in match.settle
    match = match_one(noisy(capture.states[Tap(3)], 1e-2), capture)
    assert "had that been bfloat16" in match.settle
    match = match_one(noisy(capture.states[Tap(3)], 0.07).to(BF16), capture)
    assert "amplifies" in match.settle


def test_what_stands_beside_a_gap_says_so():
    capture = stream()
    part = without(capture, Tap(3), Tap(0))
    near, far = match_one(capture.states[Tap(2)], part), match_one(capture.states[Tap(5)], part)
    assert near.found == far.found == "identified"
    assert "boundary 3 (output of layer 2)" in near.remark
    assert "embedding" not in near.remark
    assert far.remark == ""
    assert [error.boundary for error in near.errors] == [1, 2, 4, 5, 5]


@pytest.mark.parametrize("rows", [1, 13])
def test_a_prefix_is_enough(rows):
    capture = stream(massive=False)
    state = capture.states[Tap(3)]
    longer = match_one(state[:rows], capture, capture.tokens[:rows])
    assert (longer.found, tap(longer), longer.shift) == ("identified", Tap(3), 0)
    shorter = capture_of(
        {name: full[:rows] for name, full in capture.states.items()}, capture.tokens[:rows], layers=5, width=96
    )
    assert tap(match_one(state, shorter, capture.tokens)) == Tap(3)


def test_shifted_tokens_are_found_as_a_shift_of_rows():
    capture = stream()
    match = match_one(capture.states[Tap(3)][1:], capture, capture.tokens[1:])
    assert (match.found, tap(match), match.shift) == ("identified", Tap(3), 1)
    match = match_one(capture.states[Tap(3)][2:], capture, capture.tokens[2:], max_shift=2)
    assert (match.found, tap(match), match.shift) == ("identified", Tap(3), 2)


def test_errors_are_of_every_state_unshifted_and_exact_where_it_matters():
    capture = stream(massive=False)
    state = capture.states[Tap(3)].to(BF16)
    match = match_one(state, capture)
    for error in match.errors:
        reference = capture.states[Tap(error.boundary, error.state)]
        exact = ((state.float() - reference).norm(dim=1) / reference.norm(dim=1)).sort().values[20]
        assert error.error == pytest.approx(float(exact), rel=1e-5 if error.boundary == 3 else 0.1)
    assert match.error == next(error.error for error in match.errors if error.boundary == 3)


def test_long_samples_are_estimated_by_their_first_rows_and_judged_by_all():
    capture = stream(rows=1500, width=64, layers=2, massive=False)
    state = capture.states[Tap(1)].to(BF16).clone()
    assert match_one(state, capture).found == "identified"
    state[1400] = state[3]
    match = match_one(state, capture)
    assert match.found == "unknown"
    assert "1 of 1500 rows compared" in match.reason
    assert "row 1400" in match.reason


def test_states_of_another_shape_are_refused_all_at_once():
    capture = stream()
    with pytest.raises(CaptureError, match="width") as caught:
        match_states([torch.zeros(40, 95), torch.zeros(40, 96), torch.zeros(39, 96)], capture.tokens, capture)
    assert caught.value.expected == "[40, 96]"
    assert caught.value.actual == "state 0: [40, 95], state 2: [39, 96]"
    capture.states[Tap(1)] = torch.zeros(39, 96)
    with pytest.raises(CaptureError, match="shape") as caught:
        match_one(torch.zeros(40, 96), capture)
    assert caught.value.actual == "boundary 1 (output of layer 0) [39, 96]"
    with pytest.raises(CaptureError, match="shape"):
        match_one(torch.zeros(40, 96), without(capture, *capture.taps()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_state_of_a_trained_target_is_named_against_a_run_in_float32_and_bfloat16(dtype, trained):
    tokens = torch.tensor(trained.text[:128])
    recorded = run_target(trained.target, tokens, dtype=dtype)
    for reference in ("float32", "bfloat16"):
        capture = run_target(trained.target, tokens, dtype=reference)
        found = match_states([recorded.states[name] for name in capture.taps()], tokens, capture)
        assert [(match.found, tap(match)) for match in found] == [("identified", name) for name in capture.taps()]


def test_a_trained_targets_states_are_unknown_where_they_are_missing_or_rotated_from_another(trained):
    tokens = torch.tensor(trained.text[:128])
    capture = run_target(trained.target, tokens, dtype="float32")
    turn = rotation(trained.hidden_size)
    for number in range(trained.layers + 1):
        part = without(capture, Tap(number))
        state = capture.states[Tap(number)]
        for given_state in (state, state.to(BF16), (state @ turn).to(BF16)):
            assert match_one(given_state, part).found == "unknown"
        turned = match_one((state @ turn).to(BF16), capture)
        assert (turned.found, turned.map, tap(turned)) == ("transformed", "rotated", Tap(number))
    assert match_one(capture.states[Tap(8, FINAL_NORM)], without(capture, Tap(8, FINAL_NORM))).found == "unknown"


def test_a_neighbour_that_the_reference_lacks_is_not_taken_for_the_state_itself():
    capture = stream(layers=30, rows=60, step=0.06)  # in bfloat16, more is explained than lies between two layers
    part = without(capture, *(tap for tap in capture.taps() if tap.boundary not in (0, 13, 28)))
    for number in (12, 27):
        match = match_one(capture.states[Tap(number)].to(BF16), part)
        assert (match.found, match.boundary) == ("unknown", number + 1)
    assert match.error < match.tolerance
    assert "boundaries 27, 29 (outputs of layers 26, 28) may be nearer: not in the reference" in match.reason
    assert match.settle == "a reference that holds boundaries 27, 29 (outputs of layers 26, 28) too"
    for state in (capture.states[Tap(28)], capture.states[Tap(28)].to(BF16)):
        exact = match_one(state, part)
        assert (exact.found, tap(exact)) == ("identified", Tap(28))
        assert "not compared with boundary 27" in exact.remark
