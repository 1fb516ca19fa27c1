"""DFLASH blocks against Qwen3's own parts, one block at a time over the whole context."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making.drafters import Shape, write_drafter
from torch.nn import functional
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    apply_rotary_pos_emb,
)

from drafter_contracts.errors import CheckpointError, ContradictionError, SampleError, UnsupportedDrafterError
from drafter_contracts.values.drafting import block, drafter, load_drafter

MASK = 39


def config_of(shape, block_size):
    config = shape.config()
    for key in ("draft_vocab_size", "num_aux_hidden_states", "norm_output", "norm_before_residual"):
        config.pop(key, None)
    return config | {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": block_size,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": list(range(1, shape.taps + 1))},
    }


def tensors_of(shape):
    """As z-lab saves them: no head, no embeddings, q, k and v of ordinary width, one norm after fc."""
    tensors = {name: tensor for name, tensor in shape.tensors().items() if name != "lm_head.weight"}
    for name in ("q_proj", "k_proj", "v_proj"):
        key = f"layers.0.self_attn.{name}.weight"
        tensors[key] = tensors[key][:, : shape.hidden].contiguous()
    tensors["hidden_norm.weight"] = tensors.pop("layers.0.hidden_norm.weight")
    return tensors


def loaded(folder, shape, block_size, *, config=None, tensors=None, **others):
    stated = {key: value for key, value in (config_of(shape, block_size) | (config or {})).items() if value is not None}
    weights = {name: tensor for name, tensor in (tensors_of(shape) | (tensors or {})).items() if tensor is not None}
    path = write_drafter(folder, stated, weights)
    return load_drafter(path, target_hidden_size=shape.target, **(shape.target_parts() | others))


def one_block(shape, block_size, states, tokens, row):
    """Logits [B - 1, V] of the block after one row, as z-lab's model computes them."""
    weights, parts = tensors_of(shape), shape.target_parts()
    config = Qwen3Config(
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.head_width,
        hidden_act=shape.activation,
        rope_parameters={"rope_type": "default", "rope_theta": shape.theta},
    )

    def norm(name, value):
        made = Qwen3RMSNorm(len(weights[name]), shape.epsilon)
        made.load_state_dict({"weight": weights[name]})
        return made(value)

    context = norm("hidden_norm.weight", states[: row + 1] @ weights["fc.weight"].T)
    drafted = torch.tensor([int(tokens[row + 1])] + [MASK] * (block_size - 1))
    hidden = parts["embedding"][drafted]
    count = row + 1 + block_size
    cosine, sine = Qwen3RotaryEmbedding(config)(hidden, torch.arange(count)[None])
    for number in range(shape.layers):
        layer = f"layers.{number}"
        normed = norm(f"{layer}.input_layernorm.weight", hidden)
        read = torch.cat((context, normed))

        def heads(name, value, layer=layer):
            made = value @ weights[f"{layer}.self_attn.{name}_proj.weight"].T
            made = made.view(len(value), -1, shape.head_width)
            key = f"{layer}.self_attn.{name}_norm.weight"
            return (norm(key, made) if key in weights else made).transpose(0, 1)[None]

        queries = torch.cat((torch.zeros(1, shape.heads, row + 1, shape.head_width), heads("q", normed)), dim=2)
        queries, keys = apply_rotary_pos_emb(queries, heads("k", read), cosine, sine)
        values = heads("v", read)
        out = functional.scaled_dot_product_attention(queries[:, :, row + 1 :], keys, values, enable_gqa=True)
        hidden = hidden + out[0].transpose(0, 1).flatten(1) @ weights[f"{layer}.self_attn.o_proj.weight"].T
        mlp = Qwen3MLP(config)
        mlp.load_state_dict(
            {f"{n}_proj.weight": weights[f"{layer}.mlp.{n}_proj.weight"] for n in ("gate", "up", "down")}
        )
        hidden = hidden + mlp(norm(f"{layer}.post_attention_layernorm.weight", hidden))
    return (norm("norm.weight", hidden) @ parts["head"].T)[1:]


SHAPES = st.builds(
    Shape,
    taps=st.integers(1, 5),
    layers=st.integers(1, 3),
    key_heads=st.sampled_from([1, 2, 4]),
    head_width=st.sampled_from([4, 8]),
    head_norms=st.booleans(),
    theta=st.sampled_from([500.0, 1e6]),
    seed=st.integers(0, 1000),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("drafter"))


@torch.no_grad()
def blocks_of(shape, block_size, states, tokens, steps):
    rows = range(len(tokens) - steps)
    return torch.stack([one_block(shape, block_size, states, tokens, row)[:steps] for row in rows], dim=1)


@settings(deadline=None, derandomize=True, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(shape=SHAPES, block_size=st.integers(2, 6), data=st.data())
def test_every_row_is_a_block_over_its_context(folder, shape, block_size, data):
    steps = data.draw(st.integers(1, block_size - 1))
    states, tokens = shape.recorded(steps + 6)
    one = loaded(folder, shape, block_size)
    assert (one.method, one.taps, one.vocab_size) == ("DFLASH", shape.taps, 40)
    ours = one.forward(states, tokens, steps)
    expected = blocks_of(shape, block_size, states, tokens, steps)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    assert torch.equal(one.choices(states, tokens, steps), ours.argmax(-1))


def test_blocks_together_are_blocks_alone(folder, monkeypatch):
    shape = Shape(layers=2, head_norms=True)
    states, tokens = shape.recorded(20)
    one = loaded(folder, shape, 4)
    whole = one.forward(states, tokens, 3)
    torch.testing.assert_close(whole, blocks_of(shape, 4, states, tokens, 3), rtol=0, atol=1e-5)
    for rows, scores in ((12, 1 << 25), (1024, 4 * 4 * 21 * 2), (1, 1)):
        monkeypatch.setattr(block, "ROWS", rows)
        monkeypatch.setattr(block, "SCORES_MAX", scores)
        torch.testing.assert_close(one.forward(states, tokens, 3), whole, rtol=0, atol=1e-5)


def test_only_the_first_token_of_a_block_is_given(folder):
    shape = Shape()
    states, tokens = shape.recorded(8)
    one = loaded(folder, shape, 4)
    before = one.forward(states, tokens, 3)
    tokens[6:] = (tokens[6:] + 1) % 40  # the last row starts with the token at 5
    assert torch.equal(one.forward(states, tokens, 3), before)
    tokens[5] = (tokens[5] + 1) % 40
    assert not torch.equal(one.forward(states, tokens, 3)[:, 4], before[:, 4])


def test_nothing_of_eagle3_is_said_of_it(folder):
    one = loaded(folder, Shape(head_norms=True), 4)
    assert not any("norm_before_residual" in note or "llama_eagle3" in note for note in one.notes)


def test_more_steps_than_masks_are_refused(folder):
    shape = Shape()
    states, tokens = shape.recorded(9)
    with pytest.raises(SampleError) as caught:
        loaded(folder, shape, 4).forward(states, tokens, 4)
    assert (caught.value.where, caught.value.expected) == ("steps", "1 to 3, the masks of a block")


def test_a_head_and_embeddings_of_its_own_are_used(folder):
    shape = Shape()
    own = {name: torch.randn(40, 16) for name in ("lm_head.weight", "embed_tokens.weight")}
    one = loaded(folder, shape, 4, tensors=own)
    assert torch.equal(one.head, own["lm_head.weight"])
    assert torch.equal(one.embedding, own["embed_tokens.weight"])


def test_the_targets_head_is_borrowed_whatever_is_said_of_tying(folder):
    shape = Shape()
    one = loaded(folder, shape, 4, config={"tie_word_embeddings": True})
    assert torch.equal(one.head, shape.target_parts()["head"])
    assert isinstance(one, drafter.Drafter)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"block_size": None}, "block_size is not stated"),
        ({"dflash_config": {"target_layer_ids": [1, 2, 3]}}, "mask_token_id is not stated"),
        ({"is_causal": True}, "is_causal = True"),
        ({"sample_from_anchor": True}, "sample_from_anchor = True"),
        ({"dflash_config": {"mask_token_id": 39, "output_multiplier": 2.0}}, "dflash_config.output_multiplier = 2.0"),
        ({"dflash_config": {"mask_token_id": 39, "projector_type": "domino"}}, "projector_type = 'domino'"),
        ({"layer_types": ["sliding_attention"], "sliding_window": 64}, "sliding"),
    ],
)
def test_other_blocks_are_refused_by_name(folder, config, named):
    with pytest.raises(UnsupportedDrafterError, match=named):
        loaded(folder, Shape(), 4, config=config)


def test_a_mask_without_an_embedding_is_refused(folder):
    with pytest.raises(ContradictionError, match="mask token has no embedding"):
        loaded(folder, Shape(), 4, config={"dflash_config": {"mask_token_id": 40, "target_layer_ids": [1, 2, 3]}})


@pytest.mark.parametrize("name", ["layers.0.input_layernorm.weight", "norm.weight"])
def test_missing_tensors_are_named(folder, name):
    with pytest.raises(CheckpointError) as caught:
        loaded(folder, Shape(), 4, tensors={name: None})
    assert f"{name} is missing" in caught.value.actual
