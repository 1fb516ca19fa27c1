"""Rows that belong together, and how far apart they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.errors import CaptureError
from drafter_contracts.values.matching import rows
from drafter_contracts.values.matching.rows import Overlap


@given(ours=st.integers(0, 9), theirs=st.integers(0, 9), most=st.integers(0, 3))
def test_an_overlap_holds_every_row_that_both_have_and_no_other(ours, theirs, most):
    found = rows.overlaps(ours, theirs, most)
    for shift in range(-most, most + 1):
        both = [row for row in range(ours) if 0 <= row + shift < theirs]
        if not both:
            assert shift not in found
            continue
        overlap = found[shift]
        assert list(range(ours))[overlap.rows] == both
        assert list(range(theirs))[overlap.reference_rows] == [row + shift for row in both]
    assert [abs(shift) for shift in found] == sorted(abs(shift) for shift in found)


def test_tokens_may_be_a_prefix_of_the_references_or_the_other_way_round():
    tokens = torch.arange(20)
    rows.check_tokens(tokens, tokens[:7], 1)
    rows.check_tokens(tokens[:7], tokens, 1)
    rows.check_tokens(tokens[1:], tokens, 1)
    rows.check_tokens(tokens, tokens[1:], 1)


def test_other_tokens_are_refused_with_the_first_row_that_differs():
    tokens = torch.arange(20)
    other = tokens.clone()
    other[5] = 77
    with pytest.raises(CaptureError, match="row 5 differs first") as caught:
        rows.check_tokens(tokens, other, 1)
    assert (caught.value.expected, caught.value.actual) == ("token 5", "token 77")
    with pytest.raises(CaptureError):
        rows.check_tokens(tokens[2:], tokens, 1)
    rows.check_tokens(tokens[2:], tokens, 2)
    with pytest.raises(CaptureError, match="no tokens"):
        rows.check_tokens(tokens[:0], tokens, 1)


def test_a_projection_keeps_lengths_and_is_always_the_same():
    signs = rows.projection(500)
    assert torch.equal(signs, rows.projection(500))
    assert torch.equal(signs.abs(), torch.full((500, 64), 0.125))
    states = torch.randn(300, 500, generator=torch.Generator().manual_seed(1))
    ratios = (states @ signs).norm(dim=1) / states.norm(dim=1)
    assert 0.97 < float(ratios.median()) < 1.03
    assert float(ratios.min()) > 0.6
    assert float(ratios.max()) < 1.4


@settings(max_examples=20, deadline=None)
@given(height=st.integers(1, 50), width=st.sampled_from([1, 3, 1 << 18, 1 << 21]), first=st.integers(0, 3))
def test_blocks_cover_every_row_once_and_stay_small(height, width, first):
    seen = []
    for block in rows.blocks(first, first + height, width):
        assert block.stop - block.start == 1 or (block.stop - block.start) * width <= 1 << 20
        seen += range(block.start, block.stop)
    assert seen == list(range(first, first + height))


def test_norms_are_of_all_rows_and_projections_of_the_first(monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", 7 * 32)
    state = torch.randn(40, 32)
    signs = rows.projection(32)
    norms, small = rows.project(state, signs, 25)
    assert torch.allclose(norms, state.norm(dim=1))
    assert torch.allclose(small, state[:25] @ signs, atol=1e-5)


def test_a_fit_is_that_of_the_whole_states(monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", 7 * 16)
    ours, theirs = torch.randn(30, 16), torch.randn(33, 16)
    fitted = rows.fit(ours, theirs, Overlap(2, 30, 1))
    x, r = ours[2:30].double(), theirs[3:31].double()
    norm = r.norm(dim=1)
    factor = (x * r).sum(1) / norm**2
    assert torch.allclose(fitted.plain.double(), (x - r).norm(dim=1) / norm, rtol=1e-5)
    assert torch.allclose(fitted.along.double(), factor, rtol=1e-4, atol=1e-6)
    assert torch.allclose(fitted.across.double(), (x - factor[:, None] * r).norm(dim=1) / norm, rtol=1e-5)
    assert torch.allclose(fitted.scaled(0.5).double(), (x - r / 2).norm(dim=1) / (norm / 2), rtol=1e-4)
    assert torch.allclose(fitted.scaled(-2.0).double(), (x + 2 * r).norm(dim=1) / (2 * norm), rtol=1e-4)


def test_a_quantile_is_of_the_finite_rows_unless_these_are_few():
    nan, infinite = float("nan"), float("inf")
    assert rows.quantile(torch.tensor([3.0, 1.0, 2.0]), 0.5) == 2.0
    assert rows.quantile(torch.tensor([3.0, nan, 1.0, 2.0]), 0.5) == 2.0
    assert rows.quantile(torch.tensor([1.0, 3.0]), 0.5) == 3.0
    assert rows.quantile(torch.tensor([1.0, 3.0]), 1.0) == 3.0
    assert rows.quantile(torch.tensor([1.0, nan, infinite]), 0.5) == infinite
