"""States that are no states are refused, and those that only look odd are not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.errors import DegenerateSampleError, SampleError
from drafter_contracts.values.samples import check_states, degenerate

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


def states_of(rows=64, width=32, taps=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(rows, width, generator=generator).to(dtype) for _ in range(taps)]


def tokens_of(rows=64):
    return torch.arange(rows) + 100


def refused(states, tokens=None):
    with pytest.raises(DegenerateSampleError) as caught:
        check_states(states, "data_0.pt", tokens=tokens)
    assert caught.value.where == "data_0.pt"
    assert isinstance(caught.value, SampleError)
    return caught.value.actual


@pytest.fixture(autouse=True, params=[4 * 1024 * 1024, 96], ids=["one block", "blocks of three rows"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(degenerate, "_BLOCK_ELEMENTS", request.param)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_states_are_states(dtype, rows):
    check_states(states_of(rows, dtype=dtype), "x", tokens=tokens_of(rows))
    check_states(states_of(rows, dtype=dtype), "x")


def test_states_that_are_columns_of_one_tensor():
    joined = torch.cat(states_of(dtype=torch.bfloat16), dim=-1)
    check_states(joined.split(32, dim=-1), "x", tokens=tokens_of())
    assert "columns are constant" in refused(torch.cat([joined[:, :31], torch.ones(64, 33)], -1).split(32, -1)[1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_zeros_are_counted(dtype):
    states = states_of(dtype=dtype)
    states[1][[5, 9, 63]] = 0
    assert refused(states, tokens_of()) == "state 1: zeros in 3 of 64 rows, first in row 5"
    assert "zeros in 1 of 1 rows" in refused([torch.zeros(1, 4, dtype=dtype)])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_rows_that_are_not_finite_are_counted(value):
    states = states_of(dtype=torch.bfloat16)
    states[2][7, 3] = value
    states[2][60, 31] = value
    assert refused(states, tokens_of()) == "state 2: NaN or infinity in 2 of 64 rows, first in row 7"


def test_rows_may_be_equal_where_the_tokens_are():
    states = states_of()
    tokens = tokens_of()
    tokens[40], states[0][40] = tokens[8], states[0][8]
    check_states(states, "x", tokens=tokens)
    check_states(states, "x")
    assert refused(states, tokens_of()) == "state 0: rows 8 and 40 are equal, their tokens are not (1 such pairs)"


def test_a_block_that_was_written_twice_is_found():
    states = states_of()
    states[1][32:] = states[1][:32].clone()
    assert refused(states, tokens_of()).startswith("state 1: rows 0 and 32 are equal, their tokens are not (32 such")


def test_a_row_that_stands_everywhere_is_found_with_and_without_tokens():
    states = [state[:1].expand(64, 32) for state in states_of()[:1]]
    assert "all 64 rows are equal" in refused(states)
    assert "rows 0 and 1 are equal" in refused(states, tokens_of())
    check_states([state[:1].expand(4, 32) for state in states_of()[:1]], "x", tokens=torch.full((4,), 9))


def test_constant_rows_and_columns():
    states = states_of()
    states[0][3] = 2.0
    assert refused(states, tokens_of()) == "state 0: one single value in 1 of 64 rows, first in row 3"
    half = states_of()
    half[0][:, :16] = 1.0
    check_states(half, "x", tokens=tokens_of())
    half[0][:, 16] = 1.0
    assert refused(half, tokens_of()) == "state 0: 17 of 32 columns are constant"
    # Coarse numbers repeat by chance over a few tokens, and one token's rows repeat at boundary 0.
    check_states([state[:7] for state in half], "x", tokens=tokens_of(7))
    check_states(half, "x", tokens=torch.cat([torch.full((57,), 5), torch.arange(6) + 6, torch.tensor([5])]))
    check_states([torch.randn(9, 1)], "x", tokens=tokens_of(9))


def test_states_that_are_equal_bit_for_bit():
    states = states_of(dtype=torch.bfloat16)
    states[2] = states[0].clone()
    assert refused(states, tokens_of()) == "states 0 and 2 are equal bit for bit"
    states[2][63, 31] += 1
    check_states(states, "x", tokens=tokens_of())


def test_states_that_begin_anywhere_in_their_storage():
    state = torch.randn(1 + 64 * 32, generator=torch.Generator().manual_seed(1)).bfloat16()[1:].view(64, 32)
    check_states([state], "x", tokens=tokens_of())


def test_lengths_that_differ_are_refused():
    for states, tokens in ((states_of(), tokens_of(63)), ([torch.ones(3, 4), torch.ones(4, 4)], None)):
        with pytest.raises(SampleError, match="different lengths"):
            check_states(states, "x", tokens=tokens)


def test_everything_that_was_found_is_named():
    states = states_of()
    states[0][1] = 0
    states[1][2, 0] = float("nan")
    found = refused(states, tokens_of())
    assert "state 0: zeros" in found
    assert "state 1: NaN" in found


def test_equal_prints_alone_accuse_nobody(monkeypatch):
    monkeypatch.setattr(degenerate, "_prints", lambda block: torch.zeros(len(block), dtype=torch.int64))
    check_states(states_of(), "x", tokens=tokens_of())


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    width=st.integers(2, 9),
    rows=st.integers(2, 12),
    offset=st.integers(0, 5),
    data=st.data(),
)
def test_equal_rows_are_found_whatever_the_width_dtype_and_place(dtype, width, rows, offset, data):
    generator = torch.Generator().manual_seed(rows)
    whole = torch.randn(rows, width + offset, generator=generator, dtype=torch.float32).to(dtype)
    state = whole[:, offset:]
    first, second = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=2, unique=True))
    state[second] = state[first].clone()
    assert "are equal, their tokens are not" in refused([state], tokens_of(rows))
