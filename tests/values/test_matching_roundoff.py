"""What the dtypes explain: the bound's parts, and the bound held against real arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from making.streams import stream, without

from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.matching import roundoff
from drafter_contracts.values.matching.recorded import plain, record
from drafter_contracts.values.matching.reference import prepare
from drafter_contracts.values.matching.roundoff import UNDERFLOW, UNIT, Arithmetic, arithmetic, factor, stored_dtype
from drafter_contracts.values.targets import run_target

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@pytest.mark.parametrize("dtype", UNIT)
def test_units_are_those_of_the_dtypes(dtype):
    assert UNIT[dtype] == torch.finfo(dtype).eps / 2
    if dtype in UNDERFLOW:
        assert UNDERFLOW[dtype] == torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("narrow", [E4M3, E5M2, BF16, FP16])
@pytest.mark.parametrize("wide", [BF16, FP16, FP32])
def test_a_cast_to_a_finer_dtype_is_seen(narrow, wide):
    if UNIT[narrow] < UNIT[wide]:
        return
    state = torch.randn(40, 64).to(narrow).to(wide)
    assert stored_dtype(state) == narrow
    assert stored_dtype(torch.randn(40, 64).to(wide)) == wide


@pytest.mark.parametrize("narrow", [E4M3, E5M2])
@pytest.mark.parametrize("wide", [BF16, FP16, FP32])
def test_eight_bits_are_seen_through_a_scale_for_each_row(narrow, wide):
    scales = torch.rand(40, 1) + 0.3
    state = (torch.randn(40, 128).to(narrow).to(FP32) * scales).to(wide)
    assert stored_dtype(state) == narrow
    state[3] = torch.randn(128)
    assert stored_dtype(torch.cat([state[3:4]] * 40)) == wide


def test_eight_bits_mean_a_run_in_bfloat16_and_a_statement_can_only_be_coarser():
    assert arithmetic(torch.randn(4, 64).to(E4M3)) == Arithmetic(E4M3, BF16)
    assert arithmetic(torch.randn(4, 64)) == Arithmetic(FP32, FP32)
    assert arithmetic(torch.randn(4, 64), "bfloat16") == Arithmetic(FP32, BF16)
    assert arithmetic(torch.randn(4, 64).to(BF16), "float32") == Arithmetic(BF16, BF16)
    assert arithmetic(torch.randn(4, 64), "no such dtype") == Arithmetic(FP32, FP32)
    assert Arithmetic(FP32, BF16).name == "bfloat16"


def test_factors_are_markovs_and_pinelis():
    assert factor(0.5, 100) == pytest.approx(math.sqrt(2))
    assert 2 * math.exp(-(factor(0.9, 100) ** 2) / 2) == pytest.approx(0.1)
    assert 100 * 2 * math.exp(-(factor(1.0, 100) ** 2) / 2) == pytest.approx(roundoff.CHANCE)
    assert factor(1.0, 1000) > factor(1.0, 10)


def test_noise_adds_up_over_the_layers_passed():
    capture = stream(layers=3, massive=False, step=1e-4)
    travel = prepare(capture, 1).travel
    unity = torch.ones(40)
    assert torch.allclose(travel.layers, torch.tensor([0.0, 1, 2, 3, 3])[:, None].expand(5, 40), rtol=1e-3)
    noise = travel.noise(2, slice(0, 40), Arithmetic(BF16, BF16), Arithmetic(FP32, FP32), unity)
    assert torch.allclose(noise, unity * UNIT[BF16] * math.sqrt(17 * 2 + 1), rtol=1e-3)
    both = travel.noise(2, slice(0, 40), Arithmetic(BF16, BF16), Arithmetic(BF16, BF16), unity)
    assert torch.allclose(both, noise * math.sqrt(2), rtol=1e-3)
    eight = travel.noise(0, slice(0, 40), Arithmetic(E4M3, BF16), Arithmetic(FP32, FP32), unity)
    lost = 96 * 2.0**-20
    assert torch.allclose(eight, unity * math.sqrt(2.0**-8 + lost), rtol=1e-3)
    product = travel.noise(0, slice(0, 40), Arithmetic(FP32, FP32), Arithmetic(FP32, FP32), unity, mapped=True)
    assert torch.allclose(product, unity * UNIT[FP32] * math.sqrt(2 + 96), rtol=1e-3)
    single = travel.noise(1, slice(0, 40), Arithmetic(FP32, FP32), Arithmetic(FP32, FP32), unity)
    assert torch.allclose(single, unity * UNIT[FP32] * math.sqrt(2 * (17 + 9 * 96) + 2), rtol=1e-3)


def test_a_row_that_was_large_before_keeps_that_noise():
    capture = stream(layers=2, massive=False)
    capture.states[Tap(1)][5] *= 100
    layers = prepare(capture, 1).travel.layers
    assert 2e3 < float(layers[2, 5]) < 4e4
    assert float(layers[2, 6]) < 2
    assert torch.equal(layers[2], layers[3])
    capture = stream(layers=2, massive=False)
    capture.states[Tap(0)][5] *= 100
    assert float(prepare(capture, 1).travel.layers[1, 5]) > 2e3


def test_a_boundary_that_was_not_captured_counts_as_its_larger_neighbour():
    capture = stream(layers=4, massive=False, step=3.0)
    whole, part = prepare(capture, 1).travel, prepare(without(capture, Tap(1), Tap(2)), 1).travel
    assert part.layers.shape == (4, 40)
    assert bool((part.layers[1] > whole.layers[3]).all())
    only = prepare(without(capture, *[Tap(number) for number in range(5)]), 1).travel
    assert torch.allclose(only.layers, torch.full((1, 40), 4.0))
    assert only.layers.shape == (1, 40)
    assert capture.taps()[-1] == Tap(4, FINAL_NORM)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_real_arithmetic_lies_below_the_bound_and_other_states_above(dtype, random_target, trained):
    text = torch.tensor(trained.text[:96])
    random = torch.randint(0, 256, (96,), generator=torch.Generator().manual_seed(3))
    for target, tokens in ((random_target, random), (trained.target, text)):
        exact, coarse = run_target(target, tokens, dtype="float32"), run_target(target, tokens, dtype=dtype)
        reference = prepare(exact, 1)
        for index, tap in enumerate(reference.taps):
            recorded = record(coarse.states[tap], reference, 1)
            for other in range(len(reference.taps)):
                candidate = recorded.candidate(other, recorded.overlaps[0], plain)
                if other == index:
                    assert candidate.fits
                    assert candidate.outliers() is None
                else:
                    assert candidate.error > 2 * candidate.tolerance
