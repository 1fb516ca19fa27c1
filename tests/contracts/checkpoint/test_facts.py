# ruff: noqa: E501 - one row of a table per contradiction
"""Facts of a drafter: its method by tensors and config, what its tensors decide, and every contradiction."""

import pytest

from drafter_contracts.checkpoint.facts import (
    DFLASH,
    DFLASH2,
    DSPARK,
    EAGLE,
    EAGLE3,
    MEDUSA,
    NEXTN,
    P_EAGLE,
    STANDALONE,
    UNKNOWN_METHOD,
    DrafterFacts,
    TensorFact,
)
from drafter_contracts.checkpoint.facts_from import drafter_facts, require_consistent
from drafter_contracts.errors import ContradictionError

H = 64
EAGLE3_TENSORS = {
    "fc.weight": (H, 3 * H),
    "midlayer.self_attn.q_proj.weight": (H, 2 * H),
    "midlayer.hidden_norm.weight": (H,),
    "midlayer.post_attention_layernorm.weight": (H,),
    "norm.weight": (H,),
    "lm_head.weight": (100, H),
    "d2t": (100,),
    "t2d": (1000,),
}
EAGLE3_CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": H,
    "num_hidden_layers": 1,
    "vocab_size": 1000,
    "draft_vocab_size": 100,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 14, 27]},
}
DFLASH_TENSORS = {"fc.weight": (H, 5 * H), "hidden_norm.weight": (H,), "layers.0.self_attn.q_proj.weight": (H, H)}


def facts(config: dict, tensors: dict[str, tuple[int, ...]], **known: object) -> DrafterFacts:
    dtypes = {"d2t": "I64", "t2d": "BOOL"}
    headers = tuple(TensorFact(name, dtypes.get(name, "BF16"), shape) for name, shape in tensors.items())
    return drafter_facts(config, headers, path="head", weights="safetensors", **known)


def changed(**changes: object) -> dict:
    """The EAGLE-3 config with other values; None takes a key away."""
    return {key: value for key, value in {**EAGLE3_CONFIG, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("method", "tensors", "config"),
    [
        (EAGLE3, EAGLE3_TENSORS, {}),
        (EAGLE3, {f"model.{name}": shape for name, shape in EAGLE3_TENSORS.items()}, {}),
        (EAGLE3, {"layers.0.self_attn.qkv_proj.weight": (H, 2 * H), "norm.weight": (H,)}, {}),  # fc dropped: one tap
        (EAGLE3, {"fc.weight": (H, 3 * H), "layers.0.hidden_norm.weight": (H,)}, {}),
        (
            EAGLE3,
            {"fc.weight": (H, 3 * H), "layers.0.self_attn.kv_a_proj_with_mqa.weight": (9, 2 * H), "norm.weight": (H,)},
            {},
        ),
        (EAGLE3, {"fc.weight": (H, 2 * H), "midlayer.hidden_norm.weight": (H,)}, {}),  # two taps
        (EAGLE, {"fc.weight": (H, 2 * H), "layers.0.self_attn.q_proj.weight": (H, H)}, {}),
        (
            EAGLE,
            {"fc.weight": (H, 2 * H), "fc.bias": (H,)},
            {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1},
        ),
        (P_EAGLE, {**EAGLE3_TENSORS, "mask_hidden": (1, 3 * H)}, {"architectures": ["LlamaForCausalLMEagle3"]}),
        (DFLASH, DFLASH_TENSORS, {}),
        (DFLASH, {"fc.weight": (H, 5 * H)}, {"dflash_config": {"target_layer_ids": [1, 2, 3, 4, 5]}}),
        (
            DFLASH2,
            {**DFLASH_TENSORS, "candidate_selector.hidden_projection": (4, H)},
            {"dflash_config": {"block_size": 4}},
        ),
        (DSPARK, {**DFLASH_TENSORS, "markov_head.markov_w1": (100, 8)}, {}),
        (DSPARK, {"mtp.0.main_proj.weight": (H, 3 * H)}, {"architectures": ["DeepseekV4ForCausalLM"]}),
        (NEXTN, {"model.layers.61.eh_proj.weight": (H, 2 * H), "model.layers.0.mlp.weight": (H, H)}, {}),
        (NEXTN, {"mtp.fc.weight": (H, 2 * H), "model.embed_tokens.weight": (10, H)}, {"mtp_num_hidden_layers": 1}),
        (STANDALONE, {"model.embed_tokens.weight": (10, H), "model.layers.0.mlp.up_proj.weight": (H, H)}, {}),
        (MEDUSA, {"medusa_head.0.0.linear.weight": (H, H)}, {}),
        (UNKNOWN_METHOD, {"something.weight": (3, 3)}, {}),
        (EAGLE3, {}, {"speculators_model_type": "eagle3"}),
        (P_EAGLE, {}, {"speculators_model_type": "peagle"}),
        (P_EAGLE, {}, {"architectures": ["PEagleDraftModel"]}),
        (DSPARK, {}, {"model_type": "k3_dspark"}),
        (DSPARK, {}, {"dspark_target_layer_ids": [1], "architectures": ["DeepseekV4ForCausalLM"]}),
        (DFLASH2, {}, {"architectures": ["DFlash2DraftModel"], "dflash_config": {}}),
        (EAGLE, {}, {"architectures": ["EagleMistralLarge3ForCausalLM"]}),
        (NEXTN, {}, {"architectures": ["DeepseekV3ForCausalLMNextN"]}),
        (MEDUSA, {}, {"medusa_num_heads": 5}),
        (STANDALONE, {}, {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 28}),
    ],
)
def test_the_method_is_told_by_tensors_and_config(method: str, tensors: dict, config: dict) -> None:
    found = facts(config, tensors)
    assert found.method == method
    assert found.method == UNKNOWN_METHOD or found.method_evidence
    assert not [one for one in found.disagreements if one.what == "method"]


def test_tensors_decide_the_method_and_the_disagreement_names_both() -> None:
    found = facts({"architectures": ["EagleLlamaForCausalLM"], "hidden_size": H}, EAGLE3_TENSORS)
    assert found.method == EAGLE3
    (one,) = [one for one in found.disagreements if one.what == "method"]
    assert one.fatal
    assert "EagleLlamaForCausalLM" in one.left
    assert "midlayer.self_attn.q_proj.weight" in one.right
    with pytest.raises(ContradictionError) as refused:
        require_consistent(found)
    assert "EagleLlamaForCausalLM" in refused.value.message
    assert "midlayer.self_attn.q_proj.weight" in refused.value.message


def test_a_consistent_drafter_has_no_disagreement() -> None:
    found = facts(EAGLE3_CONFIG, EAGLE3_TENSORS, target_layers=31, target_hidden_size=H)
    assert found.disagreements == ()
    assert require_consistent(found) is found
    assert found.layout.layout.fc_input_width == found.fc.in_width == 3 * H


@pytest.mark.parametrize(
    ("what", "left", "right", "config", "tensors", "fatal"),
    [
        ("draft vocabulary", "draft_vocab_size = 99", "lm_head.weight [100, 64]", changed(draft_vocab_size=99), {}, True),
        ("draft vocabulary", "d2t [90]", "lm_head.weight [100, 64]", EAGLE3_CONFIG, {"d2t": (90,)}, True),
        ("draft vocabulary", "draft_vocab_size = 100", "d2t [90]", EAGLE3_CONFIG, {"d2t": (90,), "lm_head.weight": None}, True),
        ("target vocabulary", "vocab_size = 1000", "t2d [900]", EAGLE3_CONFIG, {"t2d": (900,)}, True),
        ("target vocabulary", "vocab_size = 1000", "embed_tokens.weight [1024, 64]", EAGLE3_CONFIG, {"embed_tokens.weight": (1024, H)}, False),
        ("fc input width", "3 taps of assumed tap width 64, 192 columns", "fc.weight [64, 320]", EAGLE3_CONFIG, {"fc.weight": (H, 5 * H)}, True),
        ("fc input width", "3 taps of assumed tap width 64, 192 columns", "fc.weight [64, 384]", EAGLE3_CONFIG, {"fc.weight": (H, 6 * H)}, False),
        ("fc input width", "3 taps of target_hidden_size 128, 384 columns", "fc.weight [64, 192]", changed(target_hidden_size=128), {}, True),
        ("fc input width", "num_aux_hidden_states: 5 taps", "fc.weight [64, 192]", changed(num_aux_hidden_states=5), {}, True),
        ("fc input width", "input_norm.weight [100]", "fc.weight [64, 192]", EAGLE3_CONFIG, {"input_norm.weight": (100,)}, True),
        ("drafter's hidden size", "hidden_size = 32", "fc.weight [64, 192]", changed(hidden_size=32, target_hidden_size=H), {}, True),
        ("norm before fc", "norm_before_fc = True", "no such norm", changed(norm_before_fc=True), {}, True),
        ("norm before fc", "norm_before_fc = False", "input_norm.weight", changed(norm_before_fc=False), {"input_norm.weight": (3 * H,)}, True),
        ("norm of each tap", "fc_norm = True", "no such norm", changed(fc_norm=True), {}, True),
        ("number of taps", "3 taps", "2 norms", EAGLE3_CONFIG, {"fc_norm.0.weight": (H,), "fc_norm.1.weight": (H,)}, True),
        ("draft layers", "num_hidden_layers = 40", "1 by tensor names", changed(num_hidden_layers=40), {}, False),
        ("output head", "tie_word_embeddings = True", "lm_head.weight [100, 64]", changed(tie_word_embeddings=True), {}, False),
        ("capture layer ids", "eagle_aux_hidden_state_layer_ids = [1, 14, 27]", "eagle_config", changed(eagle_aux_hidden_state_layer_ids=[1, 14, 27]), {}, True),
    ],
)  # fmt: skip
def test_each_contradiction_names_both_sides(
    what: str, left: str, right: str, config: dict, tensors: dict, fatal: bool
) -> None:
    merged = {name: shape for name, shape in {**EAGLE3_TENSORS, **tensors}.items() if shape is not None}
    found = facts(config, merged)
    assert [one.what for one in found.disagreements] == [what]
    (one,) = found.disagreements
    assert left in one.left
    assert right in one.right
    assert one.fatal is fatal
    if fatal:
        with pytest.raises(ContradictionError, match=what):
            require_consistent(found)
    else:
        require_consistent(found)


def test_all_contradictions_are_collected_and_raised_together() -> None:
    config = changed(draft_vocab_size=99, norm_before_fc=True, num_aux_hidden_states=5)
    with pytest.raises(ContradictionError) as refused:
        require_consistent(facts(config, EAGLE3_TENSORS))
    for what in ("draft vocabulary", "norm before fc", "fc input width"):
        assert what in refused.value.message


def test_a_head_narrower_than_its_target_is_no_contradiction() -> None:
    tensors = {**EAGLE3_TENSORS, "fc.weight": (H, 3 * 128)}
    stated = facts(changed(target_hidden_size=128), tensors)
    known = facts(EAGLE3_CONFIG, tensors, target_hidden_size=128)
    for found in (stated, known):
        assert found.disagreements == ()
        assert (found.fc.taps, found.fc.tap_width) == (3, 128)
        assert found.layout.layout.widths == (128, 128, 128)


def test_a_known_target_width_turns_a_possible_mismatch_into_a_contradiction() -> None:
    tensors = {**EAGLE3_TENSORS, "fc.weight": (H, 3 * 128)}
    (possible,) = facts(EAGLE3_CONFIG, tensors).disagreements
    (certain,) = facts(EAGLE3_CONFIG, tensors, target_hidden_size=H).disagreements
    assert (possible.fatal, certain.fatal) == (False, True)


def test_facts_come_from_tensors_where_both_speak() -> None:
    tensors = {**EAGLE3_TENSORS, "input_norm.weight": (3 * H,), "layers.1.mlp.up_proj.weight": (H, H)}
    found = facts({**EAGLE3_CONFIG, "torch_dtype": "float32"}, tensors)
    assert found.norm_before_fc is True
    assert found.dtype == "BF16"
    assert (found.real_layers, found.config_layers) == (2, 1)
    assert found.layer_prefixes == ("layers.N", "midlayer")
    assert any("norm before fc, of which config.json says nothing" in note for note in found.notes)


def test_the_targets_depth_the_caller_gives_precedes_the_config_and_both_are_named() -> None:
    config = {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": {"target_layer_ids": [1, 5]},
        "num_target_layers": 36,
    }
    found = facts(config, {}, target_layers=32)
    (one,) = found.disagreements
    assert (one.what, one.left, one.right) == (
        "target depth",
        "config.json num_target_layers = 36",
        "the target has 32 decoder layers",
    )


def test_values_of_the_wrong_kind_are_noted_and_never_crash() -> None:
    config = {
        "architectures": "LlamaForCausalLMEagle3",
        "hidden_size": "4096",
        "vocab_size": True,
        "draft_vocab_size": -3,
        "rope_scaling": [],
        "eagle_config": [1, 2, 3],
        "dflash_config": "x",
        "speculators_config": 3,
        "transformer_layer_config": 7,
        "tie_word_embeddings": "no",
        "speculators_model_type": 3,
        "num_hidden_layers": 1.5,
    }
    found = facts(config, EAGLE3_TENSORS, target_layers=32)
    for key in ("architectures", "hidden_size", "vocab_size", "draft_vocab_size", "tie_word_embeddings"):
        assert any(f"config.json {key} is not" in note for note in found.notes), key


def test_speculators_nest_the_drafters_own_shape_and_name_the_target() -> None:
    found = facts(
        {
            "speculators_model_type": "eagle3",
            "speculators_version": "0.9.0",
            "draft_vocab_size": 100,
            "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
            "norm_before_residual": True,
            "transformer_layer_config": {
                "hidden_size": H,
                "vocab_size": 1000,
                "num_hidden_layers": 1,
                "rope_theta": 5e5,
            },
            "speculators_config": {"verifier": {"name_or_path": "org/target", "architectures": ["LlamaForCausalLM"]}},
        },
        EAGLE3_TENSORS,
        target_layers=32,
    )
    assert found.target == {"name": "org/target", "architectures": "LlamaForCausalLM"}
    assert (found.hidden_size, found.vocabulary.target_size, found.rope_theta) == (H, 1000, 5e5)
    assert found.norm_before_residual is True
    assert found.layout.producer == "speculators 0.9.0"
    assert found.disagreements == ()


@pytest.mark.parametrize("width", [0, -8])
def test_a_width_that_cannot_be_says_nothing(width: int) -> None:
    for config in (changed(target_hidden_size=width), changed(target_hidden_size=width, eagle_config=None)):
        assert facts(config, EAGLE3_TENSORS).disagreements == ()
