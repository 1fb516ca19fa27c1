"""Loading drafters: every producer's names, whose embeddings and head, switches, and what is refused by its name."""

from __future__ import annotations

import json
import os

import pytest
import torch
from making.drafters import Assembled, Shape, write_drafter

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.errors import (
    CheckpointError,
    ContradictionError,
    PickleRefusedError,
    UnsupportedDrafterError,
)
from drafter_contracts.manifest_records import DraftRecord
from drafter_contracts.values.drafting import load_drafter
from drafter_contracts.values.drafting.weights import Weights

SHAPE = Shape()


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "drafter")


def load(folder, *, shape=SHAPE, config=None, tensors=None, shards=1, drop=(), **others):
    """Load a drafter whose config and tensors are those of a shape, with changes. None removes a key."""
    stated = {key: value for key, value in (shape.config() | (config or {})).items() if value is not None}
    weights = {name: tensor for name, tensor in (shape.tensors() | (tensors or {})).items() if name not in drop}
    path = write_drafter(folder, stated, weights, shards=shards)
    return load_drafter(path, target_hidden_size=shape.target, **(shape.target_parts() | others))


def logits(one, shape=SHAPE):
    return one.forward(*shape.recorded(9), 3)


def renamed(shape, old, new):
    return {name.replace(old, new): tensor for name, tensor in shape.tensors().items()}


def written(folder, config, tensors, shape=SHAPE, **others):
    path = write_drafter(folder, config, tensors)
    return load_drafter(path, target_hidden_size=shape.target, **(shape.target_parts() | others))


NAMES = [
    ({}, "layers.0.", "midlayer."),
    ({"layers": 2}, "layers.", "midlayer."),
    ({"layers": 2}, "layers.1.input_layernorm", "layers.1.hidden_norm"),
    ({"layers": 2}, "", "model."),
    ({"norm": "per_chunk"}, "layers.0.", "model.midlayer."),
    ({"target": 32}, "embed_tokens.", "embedding."),
]


@pytest.mark.parametrize(("sizes", "old", "new"), NAMES)
def test_producers_names_are_one(folder, tmp_path, sizes, old, new):
    shape = Shape(**sizes)
    plain = logits(load(str(tmp_path / "plain"), shape=shape), shape)
    tensors = renamed(shape, old, new) if old else {new + name: tensor for name, tensor in shape.tensors().items()}
    assert torch.equal(logits(written(folder, shape.config(), tensors, shape), shape), plain)


def test_the_older_names_of_the_norms_of_three_taps(folder, tmp_path):
    shape = Shape(norm="per_chunk")
    plain = logits(load(str(tmp_path / "plain"), shape=shape), shape)
    older = {
        f"fc_norm.{number}.weight": f"aux_norm_{word}.weight" for number, word in enumerate(("low", "mid", "high"))
    }
    tensors = {older.get(name, name): tensor for name, tensor in shape.tensors().items()}
    assert torch.equal(logits(written(folder, shape.config(), tensors, shape), shape), plain)


def test_shards_are_one_checkpoint(folder, tmp_path):
    plain = logits(load(str(tmp_path / "plain")))
    assert torch.equal(logits(load(folder, shards=3)), plain)


def test_a_file_that_the_index_does_not_name_is_not_read(folder, tmp_path):
    plain = logits(load(str(tmp_path / "plain")))
    load(folder, shards=2)
    from safetensors.torch import save_file

    save_file({"fc.weight": torch.zeros(16, 48)}, os.path.join(folder, "zz.safetensors"))
    again = load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())
    assert torch.equal(logits(again), plain)


def test_a_file_beside_the_single_one_is_told_and_not_read(folder, tmp_path):
    from safetensors.torch import save_file

    plain = load(str(tmp_path / "plain"))
    assert not any("not read, and engines read them too" in note for note in plain.notes)
    load(folder)
    save_file({"fc.weight": torch.zeros(16, 48)}, os.path.join(folder, "zz.safetensors"))
    again = load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())
    assert any("not read, and engines read them too: zz.safetensors" in note for note in again.notes)
    assert torch.equal(logits(again), logits(plain))


def test_weights_that_change_while_they_are_read_are_refused(folder):
    load(folder)
    facts = read_drafter(folder)
    other = {"fc.weight": TensorFact("fc.weight", "F32", (16, 47)), "new": TensorFact("new", "F32", (1,))}
    for name in other:
        with pytest.raises(CheckpointError, match="changed while they were read"):
            Weights(facts, other).stored(name)


def test_what_config_and_tensors_dispute_is_refused(folder):
    with pytest.raises(ContradictionError, match="no such norm among the tensors"):
        load(folder, config={"norm_before_fc": True})


def test_a_speculators_config_nests_the_layer(folder, tmp_path):
    plain = load(str(tmp_path / "plain"))
    flat = SHAPE.config()
    nested = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta")
    config = {key: value for key, value in flat.items() if key not in nested}
    config |= {
        "architectures": ["Eagle3DraftModel"],
        "model_type": "speculator_model",
        "speculators_model_type": "eagle3",
        "transformer_layer_config": {"model_type": "llama"} | {key: flat[key] for key in nested},
    }
    one = written(folder, config, SHAPE.tensors())
    assert torch.equal(logits(one), logits(plain))


def test_what_it_says_of_itself(folder):
    one = load(folder, shape=Shape(taps=2, draft=25))
    assert (one.method, one.taps, one.vocab_size) == ("EAGLE3", 2, 25)
    assert any("no embeddings of its own" in note for note in one.notes)


def test_own_embeddings_precede_the_targets(folder):
    own = torch.randn(40, 16, generator=torch.Generator().manual_seed(9))
    one = load(folder, tensors={"embed_tokens.weight": own})
    assert any("SGLang 0.5.23 and TensorRT-LLM replace them" in note for note in one.notes)
    states, tokens = SHAPE.recorded(9)
    reference = Assembled(SHAPE, SHAPE.tensors(), own)
    torch.testing.assert_close(one.forward(states, tokens, 3)[:, 2], reference.draft(states, tokens, 2, 3))


def test_the_targets_head_where_it_ships_none(folder):
    parts = SHAPE.target_parts()
    one = load(folder, drop=("lm_head.weight",), config={"draft_vocab_size": None})
    assert one.head is not None
    assert any("no head of its own: the target's is used" in note for note in one.notes)
    states, tokens = SHAPE.recorded(9)
    reference = Assembled(SHAPE, SHAPE.tensors() | {"lm_head.weight": parts["head"]}, parts["embedding"])
    torch.testing.assert_close(one.forward(states, tokens, 3)[:, 2], reference.draft(states, tokens, 2, 3))


def test_a_tied_head_is_its_own_embeddings(folder):
    own = torch.randn(40, 16)
    one = load(
        folder, tensors={"embed_tokens.weight": own}, drop=("lm_head.weight",), config={"tie_word_embeddings": True}
    )
    assert torch.equal(one.head, own)


def test_a_head_beside_the_word_tied_is_used_and_told(folder):
    one = load(folder, config={"tie_word_embeddings": True})
    assert torch.equal(one.head, SHAPE.tensors()["lm_head.weight"])
    assert any("SGLang 0.5.23 takes the embeddings" in note for note in one.notes)


def test_a_tied_head_of_a_tied_target_is_the_targets(folder):
    parts = SHAPE.target_parts()
    config = {"tie_word_embeddings": True}
    with pytest.raises(UnsupportedDrafterError, match="they differ; a head in the checkpoint settles it"):
        load(folder, drop=("lm_head.weight",), config=config)
    one = load(folder, drop=("lm_head.weight",), config=config, head=parts["embedding"].clone())
    assert torch.equal(one.head, parts["embedding"])


def test_a_reduced_vocabulary_needs_its_own_head(folder):
    with pytest.raises(ContradictionError, match="the target's head has other rows"):
        load(folder, shape=Shape(draft=25), drop=("lm_head.weight",))


def test_a_target_of_another_width_lends_neither_embeddings_nor_head(folder):
    shape = Shape(target=32)
    with pytest.raises(CheckpointError, match="no embeddings among the tensors"):
        load(folder, shape=shape, drop=("embed_tokens.weight",))
    with pytest.raises(CheckpointError, match="no head among the tensors"):
        load(folder, shape=shape, drop=("lm_head.weight",))


def test_the_one_tap_of_a_drafter_without_fc_goes_in_as_it_is(folder):
    shape = Shape(taps=1)
    one = load(folder, shape=shape, drop=("fc.weight",))
    assert one.taps == 1
    assert any("no fc among the tensors" in note for note in one.notes)
    reference = Shape(taps=1).tensors() | {"fc.weight": torch.eye(16)}
    states, tokens = shape.recorded(9)
    serial = Assembled(shape, reference, shape.target_parts()["embedding"]).draft(states, tokens, 3, 3)
    torch.testing.assert_close(one.forward(states, tokens, 3)[:, 3], serial)
    with pytest.raises(CheckpointError, match="no fc"):
        load(folder, shape=Shape(target=32), drop=("fc.weight",))


def test_fc_of_one_tap_of_equal_width_is_applied_and_told(folder):
    assert any("skips fc" in note for note in load(folder, shape=Shape(taps=1)).notes)
    assert not any("skips fc" in note for note in load(folder).notes)


def test_norm_before_residual_that_nobody_states_is_false_and_told(folder, tmp_path):
    stated = load(str(tmp_path / "stated"))
    silent = load(folder, shape=Shape(residual=None))
    assert torch.equal(logits(silent), logits(stated))
    told = [note for note in silent.notes if "norm_before_residual is not stated: false is assumed" in note]
    assert told
    assert not any("norm_before_residual" in note for note in stated.notes)


@pytest.mark.parametrize("flag", ["norm_before_residual", "norm_output"])
@pytest.mark.parametrize("nest", ["eagle_config", "transformer_layer_config"])
def test_flags_that_are_stated_in_two_ways_are_refused(folder, flag, nest):
    with pytest.raises(ContradictionError, match=f"{flag} = False") as caught:
        load(folder, config={flag: False, nest: {flag: True}})
    assert f"config.json {nest}.{flag} = True" in caught.value.message


@pytest.mark.parametrize("flag", ["norm_before_residual", "norm_output"])
def test_a_manifest_states_what_the_config_does_not(folder, tmp_path, flag):
    vllm = {"architectures": ["Eagle3LlamaForCausalLM"]}
    by_config = logits(load(str(tmp_path / "config"), config=vllm | {flag: True}))
    by_manifest = logits(load(folder, config=vllm | {flag: None}, stated=DraftRecord(**{flag: True})))
    assert torch.equal(by_manifest, by_config)
    assert not torch.equal(by_config, logits(load(folder, config=vllm | {flag: False})))
    with pytest.raises(ContradictionError, match=f"manifest draft.{flag} = True"):
        load(folder, config=vllm | {flag: False}, stated=DraftRecord(**{flag: True}))


def test_norm_output_of_specforge_may_be_its_own_meaning(folder):
    specforge = {"norm_output": True}
    one = load(folder, config=specforge)
    assert one.architecture.norm_output
    assert any("SpecForge before 2026-09-15" in note for note in one.notes)
    one = load(folder, config=specforge, stated=DraftRecord(norm_output=False))
    assert not one.architecture.norm_output
    assert any("norm_output is False by the manifest" in note for note in one.notes)


def test_a_flag_that_is_no_flag_is_refused(folder):
    with pytest.raises(ContradictionError, match="norm_output = yes"):
        load(folder, config={"norm_output": "yes"})


def test_a_trained_rope_base_precedes_the_configs_and_is_told(folder, tmp_path):
    other = load(str(tmp_path / "other"), config={"rope_theta": 10000.0})
    one = load(folder, config={"rope_theta": 1e6}, stated=DraftRecord(rope_theta=10000.0))
    assert torch.equal(logits(one), logits(other))
    assert any("trained with by the manifest" in note for note in one.notes)
    assert any("10000 is used" in note for note in load(folder, config={"rope_theta": None}).notes)


def test_a_stored_rope_table_must_be_that_of_the_base(folder):
    table = 1.0 / 500.0 ** (torch.arange(0, 4, 2) / 4)
    name = "layers.0.self_attn.rotary_emb.inv_freq"
    load(folder, tensors={name: table.to(torch.bfloat16)})
    with pytest.raises(ContradictionError, match="table of RoPE frequencies"):
        load(folder, tensors={name: table}, config={"rope_theta": 10000.0})
    load(folder, tensors={name: table}, config={"rope_theta": 10000.0}, stated=DraftRecord(rope_theta=500.0))


def dropped(one):
    return [note.partition("llama_eagle3.py): ")[2] for note in one.notes if "not loaded by SGLang 0.5.23" in note]


def test_what_sglang_would_not_load_is_told(folder):
    assert dropped(load(folder)) == []
    assert dropped(load(folder, shape=Shape(fc_bias=True))) == ["fc.bias"]
    assert dropped(load(folder, shape=Shape(fc_bias=True), config={"bias": True})) == []
    norms = ["layers.0.self_attn.k_norm.weight, layers.0.self_attn.q_norm.weight"]
    assert dropped(load(folder, shape=Shape(head_norms=True))) == norms
    biases = [f"layers.0.self_attn.{name}_proj.bias" for name in "koqv"]
    assert dropped(load(folder, shape=Shape(bias=True))) == [", ".join(biases)]
    biases.remove("layers.0.self_attn.o_proj.bias")
    assert dropped(load(folder, shape=Shape(bias=True), config={"attention_bias": True})) == [", ".join(biases)]
    assert dropped(load(folder, shape=Shape(layers=2))) == ["layers.1.input_layernorm.weight"]
    tensors = renamed(Shape(layers=2), "layers.1.input_layernorm", "layers.1.hidden_norm")
    assert dropped(written(folder, Shape(layers=2).config(), tensors)) == []


def test_epsilon_that_nobody_states_is_llamas_and_told(folder):
    one = load(folder, config={"rms_norm_eps": None})
    assert one.norm.epsilon == 1e-6
    assert any("rms_norm_eps is not stated" in note for note in one.notes)


def test_head_width_and_key_heads_have_llamas_defaults(folder):
    shape = Shape(key_heads=4)
    one = load(folder, shape=shape, config={"head_dim": None, "num_key_value_heads": None})
    assert (one.architecture.head_width, one.architecture.key_heads) == (4, 4)


REFUSED = [
    ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "RoPE scaling 'longrope'"),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "RoPE scaling 'dynamic'"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "whose low_freq_factor is None"),
    (
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 2.0,
                "low_freq_factor": 4.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
        "low_freq_factor is not below",
    ),
    ({"rope_scaling": {"rope_type": "linear", "factor": True}}, "whose factor is True"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "whose factor is 0 and not a positive number"),
    ({"transformer_layer_config": {"model_type": "gemma3_text"}}, "model_type 'gemma3_text'"),
    (
        {
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 2.0,
                "original_max_position_embeddings": 9,
                "mscale": 1.0,
            }
        },
        "RoPE scaling with mscale",
    ),
    ({"rope_scaling": {"rope_type": "default", "mrope_section": [1, 1]}}, "mrope_section"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
    ({"sliding_window": 128}, r"sliding window \(sliding_window = 128\)"),
    ({"use_sliding_window": True, "sliding_window": 128}, "sliding window"),
    ({"layer_types": ["sliding_attention"]}, "layers of the kinds sliding_attention"),
    ({"quantization_config": {"quant_method": "fp8"}}, "weights quantised by fp8"),
    ({"model_type": "gemma3_text"}, "model_type 'gemma3_text'"),
    ({"hidden_act": "quick_gelu"}, "the activation 'quick_gelu'"),
    ({"final_logit_softcapping": 30.0}, "final_logit_softcapping = 30.0"),
    ({"rope_is_neox_style": False}, "rope_is_neox_style = False"),
    ({"parallel_drafting": True}, "parallel_drafting = True"),
]


@pytest.mark.parametrize(("config", "named"), REFUSED)
def test_what_is_not_computed_is_refused_by_its_name(folder, config, named):
    with pytest.raises(UnsupportedDrafterError, match=named) as caught:
        load(folder, config=config)
    assert caught.value.where == folder


def test_all_reasons_are_named_at_once(folder):
    with pytest.raises(UnsupportedDrafterError, match=r"quick_gelu.*sliding window"):
        load(folder, config={"hidden_act": "quick_gelu", "sliding_window": 9})


@pytest.mark.parametrize(
    "config",
    [
        {"use_sliding_window": False, "sliding_window": 128},
        {"layer_types": ["full_attention"]},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "rope_theta": None},
        {"hidden_act": "swish"},
        {"model_type": "qwen3"},
        {"partial_rotary_factor": 1.0},
    ],
)
def test_what_changes_nothing_changes_nothing(folder, tmp_path, config):
    plain = logits(load(str(tmp_path / "plain")))
    assert torch.equal(logits(load(folder, config=config)), plain)


@pytest.mark.parametrize(
    "name",
    [
        "layers.0.self_attn.sinks",
        "lm_head.bias",
        "fc.scale",
        "embed_norm.weight",
        "other.d2t",
        "layers.0.x",
    ],
)
def test_a_tensor_that_is_not_known_is_refused_by_its_name(folder, name):
    with pytest.raises(UnsupportedDrafterError, match="does not know") as caught:
        load(folder, tensors={name: torch.zeros(4)})
    assert f"{name} [4]" in caught.value.actual


def test_the_verifiers_parts_of_speculators_are_left_out(folder, tmp_path):
    plain = logits(load(str(tmp_path / "plain")))
    parts = {"verifier_norm.weight": torch.ones(16), "verifier_lm_head.weight": torch.ones(40, 16)}
    assert torch.equal(logits(load(folder, tensors=parts)), plain)


WRONG = [
    ({"drop": ("layers.0.mlp.up_proj.weight",)}, "layers.0.mlp.up_proj.weight is missing"),
    ({"drop": ("layers.0.hidden_norm.weight",)}, "layers.0.hidden_norm.weight is missing"),
    ({"drop": ("norm.weight",)}, "norm.weight is missing"),
    ({"config": {"num_attention_heads": 2}}, "q_proj.weight [16, 32] should be [8, 32]"),
    ({"config": {"head_dim": 8}}, "k_proj.weight [8, 32] should be [16, 32]"),
    ({"tensors": {"layers.0.mlp.down_proj.weight": torch.zeros(16, 23)}}, "[16, 23] should be [16, 24]"),
    ({"tensors": {"norm.weight": torch.ones(16, dtype=torch.float8_e4m3fn)}}, "norm.weight is F8_E4M3"),
    ({"tensors": {"model.fc.weight": torch.zeros(16, 48)}}, "fc.weight and model.fc.weight are one tensor"),
    (
        {"shape": Shape(layers=2), "drop": ("layers.1.input_layernorm.weight",)},
        "layers.1.hidden_norm.weight or layers.1.input_layernorm.weight is missing",
    ),
    (
        {"shape": Shape(layers=2), "tensors": {"layers.1.hidden_norm.weight": torch.ones(16)}},
        "are both there, and engines do not read the same one",
    ),
    ({"shape": Shape(norm="per_chunk"), "drop": ("fc_norm.1.weight",)}, "fc_norm.1.weight is missing"),
]


@pytest.mark.parametrize(("change", "named"), WRONG)
def test_tensors_that_do_not_fit_are_named(folder, change, named):
    with pytest.raises(CheckpointError) as caught:
        load(folder, **change)
    assert named in caught.value.message + caught.value.actual


def test_layers_that_the_numbers_skip_are_missing(folder):
    tensors = renamed(Shape(layers=2), "layers.1.", "layers.2.")
    with pytest.raises(CheckpointError) as caught:
        written(folder, Shape(layers=2).config(), tensors)
    assert "layers.1.mlp.up_proj.weight is missing" in caught.value.actual


def test_a_drafter_of_another_target_is_refused(folder, tmp_path):
    write_drafter(folder, SHAPE.config() | {"num_aux_hidden_states": None}, SHAPE.tensors())
    with pytest.raises(ContradictionError, match="no whole number"):
        load_drafter(folder, target_hidden_size=20, **Shape(target=20).target_parts())
    wide = write_drafter(str(tmp_path / "wide"), Shape(target=32).config(), Shape(target=32).tensors())
    with pytest.raises(ContradictionError, match="target of another width"):
        load_drafter(wide, target_hidden_size=16, **SHAPE.target_parts())


METHODS = [
    ({"markov_head.markov_w1": ("F32", (40, 4))}, "DSPARK"),
    ({"candidate_selector.hidden_projection": ("F32", (4, 16))}, "DFLASH2"),
    ({"mask_hidden": ("F32", (1, 48))}, "P-EAGLE"),
    ({"eh_proj.weight": ("F32", (16, 32))}, "NEXTN"),
    ({"medusa_head.0.0.weight": ("F32", (16, 16))}, "MEDUSA"),
    ({"embed_tokens.weight": ("F32", (40, 16)), "fc.weight": ("F32", (16, 32))}, "EAGLE"),
]


@pytest.mark.parametrize(("tensors", "method"), METHODS)
def test_other_methods_are_refused_by_name(folder, tensors, method):
    plain = {"layers.0.self_attn.q_proj.weight": ("F32", (16, 16)), "norm.weight": ("F32", (16,))}
    config = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 40, "architectures": ["LlamaForCausalLM"]}
    write_skeleton(folder, config, plain | tensors)
    with pytest.raises(UnsupportedDrafterError, match=f"no {method};") as caught:
        load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())
    assert caught.value.actual.startswith(f"{method} (")


def test_mla_is_refused_by_name(folder):
    mla = {
        "midlayer.self_attn.kv_a_proj_with_mqa.weight": ("F32", (8, 32)),
        "midlayer.hidden_norm.weight": ("F32", (16,)),
        "norm.weight": ("F32", (16,)),
        "fc.weight": ("F32", (16, 48)),
    }
    write_skeleton(folder, SHAPE.config() | {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, mla)
    with pytest.raises(UnsupportedDrafterError, match="attention MLA"):
        load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())


def test_no_weights_and_pickles_are_refused(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SHAPE.config(), file)
    with pytest.raises(CheckpointError, match="no weights"):
        load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())
    torch.save({}, os.path.join(folder, "pytorch_model.bin"))
    with pytest.raises(PickleRefusedError):
        load_drafter(folder, target_hidden_size=16, **SHAPE.target_parts())


def test_sizes_that_are_not_stated_are_no_guess(folder):
    with pytest.raises(CheckpointError, match="sizes are missing"):
        load(folder, config={"num_attention_heads": None})
