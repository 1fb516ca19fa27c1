"""The reference forward against transformers' own blocks, drafting serially with a cache."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making.drafters import Assembled, Shape, write_drafter

from drafter_contracts.errors import CheckpointError, SampleError
from drafter_contracts.values.drafting import attention, drafter, layers, load_drafter

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
SHAPES = st.builds(
    Shape,
    hidden=st.sampled_from([16, 24]),
    target=st.sampled_from([16, 24]),
    taps=st.integers(1, 4),
    layers=st.integers(1, 2),
    key_heads=st.sampled_from([1, 2, 4]),
    head_width=st.sampled_from([4, 8]),
    draft=st.sampled_from([40, 25]),
    norm=st.sampled_from(["none", "concatenation", "per_chunk"]),
    residual=st.booleans(),
    output=st.booleans(),
    head_norms=st.booleans(),
    bias=st.booleans(),
    fc_bias=st.booleans(),
    activation=st.sampled_from(["silu", "gelu", "gelu_pytorch_tanh", "relu"]),
    theta=st.sampled_from([None, 500.0, 1e6]),
    scaling=st.sampled_from([None, LLAMA3, {"rope_type": "linear", "factor": 3.0}, YARN]),
    seed=st.integers(0, 1000),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("drafter"))


def loaded(folder, shape, **others):
    path = write_drafter(folder, shape.config(), shape.tensors())
    return load_drafter(path, target_hidden_size=shape.target, **shape.target_parts(), **others)


def serial(shape, states, tokens, steps):
    made = Assembled(shape, shape.tensors(), shape.target_parts()["embedding"])
    return torch.stack([made.draft(states, tokens, row, steps) for row in range(len(tokens) - steps)], dim=1)


@settings(deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(shape=SHAPES, steps=st.integers(1, 4))
def test_every_row_and_step_is_a_serial_draft_of_transformers_blocks(folder, shape, steps):
    states, tokens = shape.recorded(steps + 7)
    ours = loaded(folder, shape).forward(states, tokens, steps)
    assert ours.shape == (steps, 7, shape.draft)
    torch.testing.assert_close(ours, serial(shape, states, tokens, steps), rtol=0, atol=1e-5)


def test_blocks_of_rows_and_of_the_vocabulary_change_nothing(folder, monkeypatch):
    shape = Shape(layers=2, norm="per_chunk", draft=25)
    states, tokens = shape.recorded(23)
    one = loaded(folder, shape)
    whole, chosen = one.forward(states, tokens, 3), one.choices(states, tokens, 3)
    monkeypatch.setattr(drafter, "ROWS", 3)
    monkeypatch.setattr(layers, "ROWS", 7)
    monkeypatch.setattr(attention, "SCORES_MAX", 4 * 20 * 2)  # two rows of four heads
    monkeypatch.setattr(drafter, "VOCABULARY_ROWS", 8)
    torch.testing.assert_close(one.forward(states, tokens, 3), whole, rtol=0, atol=1e-5)
    assert torch.equal(one.choices(states, tokens, 3), chosen)
    assert torch.equal(chosen, one.to_target(whole.argmax(-1)))
    torch.testing.assert_close(whole, serial(shape, states, tokens, 3), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rows", "expected"), [(10, 100), (1 << 20, 8), (1 << 30, 1)])
def test_a_block_of_rows_keeps_its_scores_small(rows, expected):
    assert attention.block_rows(rows, 4, 100) == expected


def test_equal_logits_are_the_lower_token(folder):
    shape = Shape()
    tensors = shape.tensors()
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:10].repeat(4, 1)
    path = write_drafter(folder, shape.config(), tensors)
    one = load_drafter(path, target_hidden_size=16, **shape.target_parts())
    states, tokens = shape.recorded(12)
    chosen = one.choices(states, tokens, 2)
    assert chosen.max() < 10
    assert len(chosen.unique()) > 1


def test_equal_logits_are_the_lower_token_across_parts_of_the_vocabulary(folder, monkeypatch):
    monkeypatch.setattr(drafter, "VOCABULARY_ROWS", 10)
    test_equal_logits_are_the_lower_token(folder)


def test_another_dtype_computes_in_it(folder):
    shape = Shape(norm="concatenation")
    states, tokens = shape.recorded(12)
    exact = loaded(folder, shape).forward(states, tokens, 2)
    rough = loaded(folder, shape, dtype=torch.bfloat16).forward(states, tokens, 2)
    assert rough.dtype == torch.bfloat16
    error = (rough.to(torch.float32) - exact).norm() / exact.norm()
    assert 0 < error < 0.05


def test_states_of_any_float_are_taken_as_they_are(folder):
    shape = Shape()
    states, tokens = shape.recorded(9)
    one, half = loaded(folder, shape), states.to(torch.float16)
    assert torch.equal(one.forward(half, tokens, 2), one.forward(half.to(torch.float32), tokens, 2))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"states": torch.zeros(9, 47)}, "states"),
        ({"states": torch.zeros(8, 48)}, "states"),
        ({"states": torch.zeros(9)}, "states"),
        ({"tokens": torch.zeros(9)}, "tokens"),
        ({"tokens": torch.zeros((9, 1), dtype=torch.int64)}, "tokens"),
        ({"tokens": torch.full((9,), 40)}, "tokens"),
        ({"tokens": torch.full((9,), -1)}, "tokens"),
        ({"steps": 0}, "steps"),
        ({"steps": 9}, "steps"),
    ],
)
def test_what_does_not_fit_the_drafter_is_refused(folder, change, where):
    shape = Shape()
    states, tokens = shape.recorded(9)
    one = loaded(folder, shape)
    given_ = {"states": states, "tokens": tokens, "steps": 2} | change
    for call in (one.forward, one.choices):
        with pytest.raises(SampleError, match="does not fit the drafter") as caught:
            call(**given_)
        assert caught.value.where == where
        assert caught.value.expected
        assert caught.value.actual


def test_the_last_row_and_the_longest_draft(folder):
    shape = Shape(layers=2)
    states, tokens = shape.recorded(6)
    ours = loaded(folder, shape).forward(states, tokens, 5)
    assert ours.shape == (5, 1, 40)
    torch.testing.assert_close(ours, serial(shape, states, tokens, 5), rtol=0, atol=1e-5)


def test_later_states_and_tokens_do_not_reach_back(folder):
    shape = Shape()
    states, tokens = shape.recorded(10)
    one = loaded(folder, shape)
    before = one.forward(states, tokens, 2)
    states[6:] += 1.0
    tokens[8:] = (tokens[8:] + 1) % 40
    after = one.forward(states, tokens, 2)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6], after[:, 6])


@pytest.mark.parametrize("name", ["fc.weight", "norm.weight", "lm_head.weight"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_choices_are_not_made_up_where_the_drafter_computes_no_numbers(folder, monkeypatch, name, number):
    shape = Shape()
    tensors = shape.tensors()
    tensors[name].view(-1)[-1] = number  # of the head: a row of its last part
    path = write_drafter(folder, shape.config(), tensors)
    one = load_drafter(path, target_hidden_size=shape.target, **shape.target_parts())
    monkeypatch.setattr(drafter, "VOCABULARY_ROWS", 8)
    states, tokens = shape.recorded(12)
    with pytest.raises(CheckpointError, match="computes no numbers"):
        one.choices(states, tokens, 2)
