"""What a release's config.json must say: by the plans that come out, each judged by every rule."""

from __future__ import annotations

import pytest

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.engines.store import load_profile
from drafter_contracts.launch.plan_records import FLAGS, RENDER
from drafter_contracts.manifest import DraftRecord, LayoutRecord, Recommended

IDS = "eagle_config.eagle_aux_hidden_state_layer_ids"
LLAMA = "LlamaForCausalLMEagle3"


def refusals(made):
    return [finding.code for finding in made.verdict.findings if finding.severity == "refuse"]


def test_speculators_config_becomes_one_that_0_5_23_loads(small):
    made = small.plan("0.5.23", small.speculators)
    assert made.resolved
    assert made.config == {
        **small.transformer,
        "architectures": [LLAMA],
        "draft_vocab_size": small.drafted,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 10, 18]},
        "norm_before_residual": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
    }
    assert "--json-model-override-args" not in made.flags
    assert not made.weights.any
    told = "\n".join(made.config_changes)
    assert "transformer_layer_config is laid flat (head_dim, hidden_act, hidden_size" in told
    assert "speculators_model_type, speculators_version, speculators_config left out" in told
    assert f'architectures is set to ["{LLAMA}"]: sglang 0.5.23 knows no drafter class Eagle3Speculator' in told
    assert (
        f"{IDS} is set to [2, 10, 18]: sglang 0.5.23 makes boundaries 3, 11, 19 (outputs of layers 2, 10, 18)" in told
    )
    assert "target_hidden_size is left out: sglang 0.5.23 takes null for a width" in told
    assert 'torch_dtype is set to "bfloat16": the dtype of its weights' in told


def test_the_kind_of_transformer_is_the_nested_one_s(small):
    """A config of speculators' may name a kind of model that no engine knows."""
    made = small.plan("0.5.23", {**small.speculators, "model_type": "speculator_model"})
    assert made.config["model_type"] == "llama"


def test_an_older_release_gets_its_own_names_and_its_own_rope_key(small):
    made = small.plan("0.5.9", small.speculators)
    assert made.resolved
    assert made.config["rope_theta"] == 5e5
    assert made.weights.renames["layers.0.self_attn.k_proj.weight"] == "midlayer.self_attn.k_proj.weight"
    assert len(made.weights.renames) == 10
    assert any("10 tensors layers.0.* are renamed midlayer.*" in change for change in made.config_changes)
    assert "--disable-cuda-graph" in made.flags


def test_a_flag_says_the_ids_and_the_render_only_what_a_flag_cannot(small):
    made = small.plan("0.5.23", small.speculators, prefer=FLAGS)
    assert made.flags[-1] == '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[2,10,18]}}'
    assert "eagle_config" not in made.config
    assert IDS not in small.changed(made)
    assert made.config["architectures"] == [LLAMA]


@pytest.mark.parametrize("prefer", [FLAGS, RENDER])
def test_what_is_right_stays_as_it_is(small, prefer):
    config = {**small.flat, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 10, 18]}}
    made = small.plan("0.5.23", config, prefer=prefer)
    assert (made.resolved, made.rendered, made.config_changes) == (True, False, ())


def test_ids_at_the_top_as_vllm_reads_them_are_written_where_sglang_does(small):
    config = {
        **small.flat,
        "architectures": ["Eagle3LlamaForCausalLM"],
        "eagle_aux_hidden_state_layer_ids": [3, 11, 19],
    }
    made = small.plan("0.5.23", config, small.tensors("midlayer."))
    assert made.resolved
    assert made.config["eagle_aux_hidden_state_layer_ids"] == [3, 11, 19], "vLLM still reads its own"
    assert made.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [2, 10, 18]
    assert made.config["architectures"] == [LLAMA]


@pytest.mark.parametrize("name", ["Eagle3DraftModel", "Eagle3Speculator", "LlamaForCausalLM", "LlamaForCausalLMEagle"])
def test_a_class_is_told_by_its_kind_and_the_tensors(small, name):
    made = small.plan("0.5.23", {**small.flat, "architectures": [name]})
    assert made.config["architectures"] == [LLAMA]


def test_a_head_of_latent_attention_gets_the_class_that_loads_it(small):
    more = {
        "layers.0.self_attn.q_a_proj.weight": (64, 512),
        "layers.0.self_attn.kv_a_proj_with_mqa.weight": (64, 512),
    }
    kept = [
        one for one in small.tensors() if not one.name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    ]
    found = {one.name: one for one in small.tensors(more=more)}
    config = {**small.flat, "architectures": ["Eagle3Speculator"], "kv_lora_rank": 64}
    made = small.plan("0.5.23", config, (*kept, *(found[name] for name in more)))
    assert made.config["architectures"] == ["Eagle3DeepseekV2ForCausalLM"]
    older = small.plan("0.5.9", config, (*kept, *(found[name] for name in more)))
    assert "DRAFT_CLASS" in refusals(older), "0.5.9 has no class that loads it"
    named = {**config, "architectures": [LLAMA]}
    wrong = small.plan("0.5.9", named, (*kept, *(found[name] for name in more)))
    assert "DRAFT_WEIGHTS" in refusals(wrong), "and is not told to take another"


def test_a_class_is_not_chosen_without_weights_or_between_several(small):
    from drafter_contracts.checkpoint.facts_from import drafter_facts
    from drafter_contracts.rendering.config_class import choose_class
    from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation
    from drafter_contracts.situation import Situation

    def choice(config, tensors, algorithm):
        facts = drafter_facts(config, tensors, path="/d", weights="safetensors")
        serving = ServingConfig(Invocation(()), speculation=Speculation(algorithm, algorithm, True))
        return choose_class(Situation(serving, load_profile("sglang", "0.5.23"), drafter=facts, method=algorithm)).name

    unknown = {**small.flat, "architectures": ["Eagle3Speculator"]}
    assert choice(unknown, small.tensors(), "EAGLE3") == LLAMA
    assert choice(unknown, (), "EAGLE3") == ""
    strange = small.tensors(more={"layers.0.self_attn.sinks": (4,)})
    assert choice(unknown, strange, "EAGLE3") == "", "whether that class has a place for it was never asked"
    dflash = (TensorFact("fc.weight", "BF16", (256, 1280)), TensorFact("hidden_norm.weight", "BF16", (256,)))
    named = {**small.flat, "architectures": ["DFlashSpeculator"]}
    assert choice(named, dflash, "DFLASH") == "", "Laguna's and others would load these tensors, too"
    by_speculators = {**named, "speculators_model_type": "dflash"}
    assert choice(by_speculators, dflash, "DFLASH") == "DFlashDraftModel", "the one that they derive from"


@pytest.mark.parametrize(
    ("config", "tensors", "release", "key", "value"),
    [
        ({"num_aux_hidden_states": 3}, {"taps": 5}, "0.5.23", "num_aux_hidden_states", 5),
        ({"tie_word_embeddings": True}, {}, "0.5.23", "tie_word_embeddings", False),
        ({"num_hidden_layers": 40}, {}, "0.5.9", "num_hidden_layers", 1),
        ({"bias": False}, {"more": {"fc.bias": (256,)}}, "0.5.23", "bias", True),
        ({"bias": True}, {}, "0.5.23", "bias", False),
        ({}, {"more": {"input_norm.weight": (768,)}}, "0.5.23", "eagle_config", None),
        ({}, {"more": {f"fc_norm.{i}.weight": (256,) for i in range(3)}}, "0.5.23", "fc_norm", True),
    ],
)
def test_a_key_that_the_class_reads_is_set_by_the_tensors(small, config, tensors, release, key, value):
    boundaries = (3, 7, 11, 15, 19) if tensors.get("taps") else (3, 11, 19)
    made = small.plan(
        release,
        {**small.flat, **config, "architectures": [LLAMA]},
        small.tensors("midlayer." if release == "0.5.9" else "layers.0.", **tensors),
        manifest=small.manifest(boundaries),
    )
    assert made.resolved, made.verdict.findings
    if value is None:
        assert made.config["eagle_config"]["norm_before_fc"] is True
    else:
        assert made.config[key] == value
    assert any(change.startswith(key) and ": " in change for change in made.config_changes)


@pytest.mark.parametrize("owner", ["own", "target", ""])
def test_a_full_head_is_its_own_only_where_that_is_said(small, owner):
    """The map of a full vocabulary is none: rows of head and vocabulary are the same."""
    full = [*small.tensors(head=False), TensorFact("lm_head.weight", "BF16", (4096, 256))]
    manifest = small.manifest(draft=DraftRecord(lm_head=owner))
    made = small.plan("0.5.23", {**small.flat, "draft_vocab_size": None}, tuple(full), manifest=manifest)
    assert made.resolved
    assert made.config["draft_vocab_size"] == (4096 if owner == "own" else None)


def test_a_class_whose_layers_were_never_seen_is_not_chosen(small):
    """0.5.12 has two classes; of that for latent attention no layer could be built when it was looked at."""
    made = small.plan("0.5.12", small.speculators)
    assert made.config["architectures"] == [LLAMA]
    nothing = small.profile("0.5.23", LLAMA, loads=("fc.weight", "norm.weight", "lm_head.weight", "d2t"))
    assert small.plan("0.5.23", small.speculators, profile=nothing).config is None


def test_a_target_s_own_layers_are_never_given_another_class(small):
    """What a release does with their tensors is not recorded, so that none would seem lost."""
    from drafter_contracts.rendering.config_class import choose_class
    from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation
    from drafter_contracts.situation import Situation

    profile = load_profile("sglang", "0.4.5")
    only = {name: known for name, known in profile.drafters.items() if known.kind == "NEXTN"}
    assert len(only) == 1
    facts = small.facts({**small.flat, "architectures": ["OtherMTP"]}, (TensorFact("eh_proj.weight", "BF16", (1, 2)),))
    assert facts.method == "NEXTN"
    serving = ServingConfig(Invocation(()), speculation=Speculation("NEXTN", "NEXTN", True))
    assert choose_class(Situation(serving, profile, drafter=facts)).name == ""


def test_the_draft_vocabulary_is_stated_where_the_class_fails_without(small):
    made = small.plan("0.5.23", small.without(small.flat, "draft_vocab_size"))
    assert made.config["draft_vocab_size"] == small.drafted
    assert any("its head has 1024 rows, and sglang 0.5.23 fails without it" in one for one in made.config_changes)


@pytest.mark.parametrize("prefer", [FLAGS, RENDER])
def test_where_the_layers_are_right_only_what_is_missing_is_added(small, prefer):
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 10, 18]}}
    made = small.plan("0.5.23", small.without(small.flat, "draft_vocab_size") | ids, prefer=prefer)
    assert made.resolved
    assert small.changed(made) == ["draft_vocab_size"]
    assert "--json-model-override-args" not in made.flags


def test_a_head_that_it_never_had_is_borrowed_only_on_the_manifests_word(small):
    config = {**small.flat, "draft_vocab_size": 4096}
    borrowed = small.manifest(draft=DraftRecord(lm_head="target"))
    made = small.plan("0.5.23", config, small.tensors(head=False), manifest=borrowed)
    assert made.resolved
    assert made.config["draft_vocab_size"] is None
    unsaid = small.plan("0.5.23", config, small.tensors(head=False))
    assert refusals(unsaid) == ["DRAFT_HEAD"]


@pytest.mark.parametrize("trained", [True, False])
def test_the_recycled_state_is_that_of_the_manifest(small, trained):
    manifest = small.manifest(draft=DraftRecord(norm_output=trained))
    made = small.plan("0.5.23", {**small.flat, "norm_output": not trained}, manifest=manifest)
    assert made.resolved
    assert made.config["norm_output"] is trained
    assert small.plan("0.5.9", {**small.flat, "norm_output": True}, small.tensors("midlayer.")).resolved is False


def test_the_rope_base_trained_with_is_written(small):
    manifest = small.manifest(draft=DraftRecord(rope_theta=777.0))
    made = small.plan("0.5.23", small.flat, manifest=manifest)
    assert made.resolved
    assert made.config["rope_theta"] == 777.0


@pytest.mark.parametrize(("release", "needed"), [("0.5.15", True), ("0.5.23", False)])
def test_a_drafter_of_blocks_gets_ids_depth_and_mask_where_its_class_looks(small, release, needed):
    shapes = {"fc.weight": (256, 1280), "hidden_norm.weight": (256,), "norm.weight": (256,)}
    names = ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm")
    shapes |= {f"layers.{layer}.{name}.weight": (256,) for layer in (0, 1) for name in names}
    tensors = tuple(TensorFact(name, "BF16", shape) for name, shape in sorted(shapes.items()))
    config = {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": "dflash",
        "aux_hidden_state_layer_ids": [2, 7, 12, 17, 22],
        "block_size": 8,
        "mask_token_id": 5,
        "transformer_layer_config": {**small.transformer, "num_hidden_layers": 2},
    }
    boundaries, numbers = LayoutRecord(boundaries=(2, 7, 12, 17, 22)), Recommended(draft_tokens=8)
    manifest = small.manifest(layout=boundaries, method="DFLASH", recommended=numbers)
    made = small.plan(release, config, tensors, manifest=manifest)
    assert made.resolved, made.verdict.findings
    more = {"num_target_layers": 24, "mask_token_id": 5} if needed else {}
    assert made.config["dflash_config"] == {"target_layer_ids": [1, 6, 11, 16, 21], **more}
    assert "aux_hidden_state_layer_ids" not in made.config


def test_a_wider_target_is_stated(small):
    wide = {**small.flat, "target_hidden_size": 256}
    made = small.plan("0.5.23", {**wide, "hidden_size": 256, "target_hidden_size": None})
    assert made.resolved
    assert "target_hidden_size" not in made.config


@pytest.mark.parametrize(
    ("config", "more", "release", "code", "named"),
    [
        ({"norm_before_residual": True}, {}, "0.5.23", "NORM_BEFORE_RESIDUAL", "normed state as residual"),
        ({"norm_before_residual": True}, {}, "0.5.9", "NORM_BEFORE_RESIDUAL", "normed state as residual"),
        (
            {"fc_norm": True},
            {f"fc_norm.{i}.weight": (256,) for i in range(3)},
            "0.5.9",
            "NORM_PER_CHUNK",
            "does not know",
        ),
        ({"norm_before_fc": True}, {"input_norm.weight": (768,)}, "0.5.15", "NORM_BEFORE_FC", "does not know"),
        ({}, {"layers.0.self_attn.q_norm.weight": (64,)}, "0.5.23", "ADVISORY", "self_attn.q_norm"),
        ({}, {"layers.0.self_attn.q_proj.bias": (256,)}, "0.5.9", "ADVISORY", "q_proj.bias"),
        ({}, {"layers.1.mlp.up_proj.weight": (512, 256)}, "0.5.9", "DRAFT_LAYERS", "1 draft layer at most"),
    ],
)
def test_what_cannot_be_translated_is_refused_by_name(small, config, more, release, code, named):
    made = small.plan(release, {**small.speculators, **config}, small.tensors(more=more))
    assert (made.resolved, made.flags, made.config) == (False, (), None)
    assert code in refusals(made)
    assert named in next(one.message for one in made.verdict.findings if one.code == code)
    assert "DRAFT_CLASS" not in refusals(made), "the format is not what stands in the way"


def test_p_eagle_is_refused_by_name(small):
    tensors, manifest = small.tensors(more={"mask_hidden": (1, 1, 768)}), small.manifest(method="P-EAGLE")
    made = small.plan("0.5.23", small.speculators, tensors, manifest=manifest)
    assert "P-EAGLE" in made.why_not("d@1")[0]


def test_another_order_is_a_change_of_weights_and_of_the_contract(small):
    made = small.plan("0.5.23", small.flat, manifest=small.manifest((19, 3, 11)))
    assert made.resolved
    assert made.weights.order == (1, 2, 0)
    assert made.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [2, 10, 18]
    assert any("are put in the order [1, 2, 0] of the trained one" in change for change in made.config_changes)
    assert (
        "--json-model-override-args"
        not in small.plan("0.5.23", small.flat, prefer=FLAGS, manifest=small.manifest((19, 3, 11))).flags
    )


def test_a_config_is_never_changed_in_place(small):
    import copy

    before = copy.deepcopy(small.speculators)
    small.plan("0.5.9", small.speculators)
    assert small.speculators == before
