"""Positions, RoPE, quantisation, dtype, backends, and what speculation is combined with."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.engines.profile import Advisory
from drafter_contracts.manifest import DraftRecord, Manifest
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN

ALLOW_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def trained(**draft):
    return Manifest(schema="drafters.manifest.v1", draft=DraftRecord(**draft))


def test_fewer_positions_than_the_context_crash_unless_allowed(scene):
    scene.config["max_position_embeddings"] = 2048
    found = scene.finding("CONTEXT")
    assert found.severity == REFUSE
    assert "2048 positions and the launch serves 131072" in found.message
    scene.environment = {ALLOW_LONGER: "1"}
    assert "enlarges its positions" in scene.finding("CONTEXT").message
    assert scene.codes() == {"CONTEXT": WARN}
    scene.environment = {ALLOW_LONGER: "0"}
    scene.values["context_length"] = 2048
    assert scene.verdict().decision == "allow"


@pytest.mark.parametrize("factor", [1e308, float("inf"), float("nan")])
def test_a_scaling_that_gives_no_number_of_positions_is_passed_over(scene, factor):
    scaled = {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": factor}}
    scene.config |= scaled
    scene.target = replace(scene.target, config={**scene.target.config, **scaled})
    assert scene.verdict().decision == "allow"


def test_a_base_that_is_no_number_is_not_compared(scene):
    scene.manifest = trained(rope_theta=1e6)
    scene.config["rope_theta"] = 10**400
    assert "ROPE" not in scene.codes()


def test_a_release_that_only_warns_is_a_warning_and_an_unknown_one_says_nothing(scene):
    scene.config["max_position_embeddings"] = 2048
    scene.edit("launch", draft_context="warn")
    assert scene.codes() == {"CONTEXT": WARN}
    scene.edit("launch", draft_context="")
    assert scene.verdict().decision == "allow"


LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


@pytest.mark.parametrize(
    ("target", "drafter", "severity"),
    [
        ({"max_position_embeddings": 4096, "rope_scaling": LINEAR}, {"max_position_embeddings": 4096}, REFUSE),
        ({"max_position_embeddings": 4096, "rope_scaling": YARN}, {"max_position_embeddings": 4096}, None),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, {"max_position_embeddings": 4096}, None),
        (
            {"text_config": {"max_position_embeddings": 4096, "rope_scaling": LINEAR}},
            {"max_position_embeddings": 4096},
            REFUSE,
        ),
        ({"max_position_embeddings": 16384}, {"max_position_embeddings": 4096, "rope_scaling": LINEAR}, None),
        ({"max_position_embeddings": 16384}, {"max_position_embeddings": 4096, "rope_scaling": YARN}, REFUSE),
        ({"max_position_embeddings": 8192}, {"max_sequence_length": 2048, "max_position_embeddings": 8192}, REFUSE),
    ],
)
def test_positions_are_counted_as_the_release_counts_them(scene, target, drafter, severity):
    """`get_context_length`: a factor multiplies, unless the number before scaling is stated; the first key counts."""
    scene.edit("target", config={"num_hidden_layers": 32, **target})
    del scene.config["max_position_embeddings"]
    scene.config |= drafter
    assert scene.codes().get("CONTEXT") == severity


def test_a_context_longer_than_trained_on_warns(scene):
    scene.manifest = trained(trained_context=4096)
    assert scene.codes() == {"CONTEXT": WARN}


def test_another_rope_base_than_the_targets_is_no_fault(scene):
    scene.edit("target", rope_theta=500000.0)
    scene.config["rope_theta"] = 10000
    assert scene.verdict().decision == "allow"


@pytest.mark.parametrize(
    ("config", "severity"),
    [
        ({"rope_theta": 500000}, WARN),
        ({"rope_theta": 10000}, None),
        ({}, None),
        ({"rope_parameters": {"rope_theta": 1e6}}, WARN),
    ],
)
def test_the_base_trained_with_must_be_the_base_used(scene, config, severity):
    scene.config |= config
    scene.manifest = trained(rope_theta=10000.0)
    assert scene.codes().get("ROPE") == severity


def test_an_inherited_quantisation_fails_or_is_applied_in_passing(scene):
    scene.values["quantization"] = "modelopt_fp4"
    found = scene.finding("QUANTIZATION")
    assert found.severity == REFUSE
    assert found.remedy == "Add --speculative-draft-model-quantization unquant."
    assert found.flags == (("--speculative-draft-model-quantization", "unquant"),)
    scene.values["quantization"] = "fp8"
    assert scene.codes() == {"QUANTIZATION": WARN}
    scene.flags = ()
    assert scene.finding("QUANTIZATION").remedy.startswith("Leave --quantization out")
    assert scene.finding("QUANTIZATION").flags == (), "only options that the release has"


def test_a_quantisation_stated_for_the_drafter_is_fine(scene):
    scene.values |= {"quantization": "modelopt_fp4", "speculative_draft_model_quantization": "unquant"}
    scene.given = {"speculative_draft_model_quantization": "command line"}
    assert scene.verdict().decision == "allow"


@pytest.mark.parametrize(
    ("launched", "own", "severity"),
    [("fp8", "fp8", None), ("modelopt_fp4", "modelopt", None), ("gptq", "gptq_marlin", None), ("fp8", "awq", WARN)],
)
def test_a_quantised_drafter_inherits_its_own_method_or_is_doubtful(scene, launched, own, severity):
    scene.values["quantization"] = launched
    scene.edit("facts", quantization=own)
    assert scene.codes().get("QUANTIZATION") == severity
    if severity:
        assert scene.finding("QUANTIZATION").flags == (("--speculative-draft-model-quantization", own),)


@pytest.mark.parametrize(
    ("stated", "own", "wanted"),
    [
        ("fp8", "", "unquant"),
        ("fp8", "awq", "awq"),
        ("awq_marlin", "awq", ""),
        ("unquant", "awq", ""),
        ("fp8", "fp8", ""),
    ],
)  # fmt: skip
def test_a_quantisation_stated_for_the_drafter_is_that_of_its_weights(scene, stated, own, wanted):
    """With or without a quantised target."""
    scene.values["speculative_draft_model_quantization"] = stated
    scene.given = {"speculative_draft_model_quantization": "command line"}
    scene.edit("facts", quantization=own)
    assert scene.codes() == ({"QUANTIZATION": REFUSE} if wanted else {})
    if wanted:
        assert scene.finding("QUANTIZATION").flags == (("--speculative-draft-model-quantization", wanted),)
        scene.values["quantization"] = "fp8"
        assert scene.codes() == {"QUANTIZATION": REFUSE}


@pytest.mark.parametrize(("dtype", "severity"), [("half", WARN), ("bfloat16", None), ("auto", None)])
def test_a_bf16_head_in_fp16_warns(scene, dtype, severity):
    scene.values["dtype"] = dtype
    assert scene.codes().get("DTYPE") == severity


def test_topk_above_one_needs_a_backend_that_takes_it(scene):
    scene.edit("speculation", stated=(3, 4, 8), effective=(3, 4, 8))
    rules = replace(scene.launch.speculative, topk_needs=("flashinfer", "fa3"), topk_rejects=("trtllm_mha",))
    scene.edit("launch", speculative=rules)
    assert scene.verdict().decision == "allow"
    scene.values["page_size"] = 64
    assert scene.codes() == {"TOPK_BACKEND": UNKNOWN}
    # The backends of one phase do not stand for the one that is chosen where none is named.
    scene.values["prefill_attention_backend"] = "fa3"
    assert scene.codes() == {"TOPK_BACKEND": UNKNOWN}
    scene.values["attention_backend"] = "triton"
    assert scene.codes() == {"TOPK_BACKEND": REFUSE}
    scene.values["attention_backend"] = "fa3"
    assert scene.verdict().decision == "allow"
    scene.values |= {"attention_backend": "trtllm_mha", "page_size": 1}
    assert scene.codes() == {"TOPK_BACKEND": REFUSE}


def test_a_page_size_that_a_backend_forces_counts_for_topk(scene):
    scene.edit("speculation", stated=(3, 4, 8), effective=(3, 4, 8))
    forced = {"decode_attention_backend==flashmla": 64}
    rules = replace(scene.launch.speculative, topk_needs=("flashinfer",), page_sizes=forced)
    scene.edit("launch", speculative=rules)
    scene.values["decode_attention_backend"] = "flashmla"
    assert scene.codes()["TOPK_BACKEND"] == UNKNOWN
    scene.values["attention_backend"] = "flashinfer"
    assert "TOPK_BACKEND" not in scene.codes()


def test_branches_that_a_backend_refuses_are_named_also_where_the_launch_fails_for_it(scene):
    scene.edit("speculation", stated=(3, 4, 8), effective=(None, None, None), failure="ValueError")
    rules = replace(scene.launch.speculative, topk_needs=("fa3", "triton", "flashinfer"), topk_rejects=("trtllm_mha",))
    scene.edit("launch", speculative=rules)
    scene.values["attention_backend"] = "trtllm_mha"
    scene.flags = ("--attention-backend", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
    assert scene.codes() == {"SPECULATION_FAILS": REFUSE, "TOPK_BACKEND": REFUSE}
    assert scene.finding("TOPK_BACKEND").flags == (
        ("--attention-backend", "flashinfer"), ("--attention-backend", "triton"), ("--attention-backend", "fa3"),
        ("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
    )  # fmt: skip


def test_an_mla_backend_for_a_drafter_without_latent_attention_warns(scene):
    scene.values["attention_backend"] = "flashmla"
    assert scene.codes() == {"DRAFT_ATTENTION": WARN}
    scene.values["speculative_draft_attention_backend"] = "triton"
    assert scene.verdict().decision == "allow"


def test_pipeline_stages_lose_layers_where_only_the_last_captures(scene):
    scene.values["pp_size"] = 2
    assert scene.verdict().decision == "allow"
    scene.edit("rule", last_rank_only=True)
    assert scene.codes() == {"PIPELINE_PARALLEL": REFUSE}


def limited(scene, *limits):
    scene.edit("launch", speculative=replace(scene.launch.speculative, limits=limits))
    return scene


def test_the_releases_own_refusals_are_quoted(scene):
    limited(scene, ("enable_dp_attention & algorithm in DFLASH|EAGLE3", "ValueError", "server_args.py:9"))
    assert scene.verdict().decision == "allow"
    scene.values["enable_dp_attention"] = True
    found = scene.finding("COMBINATION")
    assert found.severity == REFUSE
    assert "server_args.py:9" in found.source


def test_lora_is_refused_where_the_release_says_so_and_doubtful_where_nothing_does(scene):
    scene.values["lora_paths"] = ["a=/adapter"]
    assert scene.codes() == {"LORA": WARN}
    limited(scene, ("enable_lora & algorithm!=NGRAM", "ValueError", "server_args.py:5"))
    assert scene.verdict().decision == "allow"
    scene.values["enable_lora"] = True
    assert scene.codes() == {"LORA": REFUSE}
    limited(scene)
    scene.advisories = (
        Advisory("SGLANG-LORA", "adapters are built into the drafter", "lora.py:1", "read", "refuse", when="lora"),
    )
    assert scene.codes() == {"LORA": REFUSE}


@pytest.mark.parametrize(
    ("advisory", "values", "shown"),
    [
        ({}, {}, True),
        ({"architectures": ("Qwen3ForCausalLM",)}, {}, False),
        ({"methods": ("DFLASH",)}, {}, False),
        ({"when": "tap:0"}, {}, False),
        ({"when": "tap:17"}, {}, True),
        ({"when": "tap:N"}, {}, False),
        ({"when": "tbo"}, {}, False),
        ({"when": "tbo"}, {"enable_two_batch_overlap": True}, True),
        ({"when": "pp"}, {"pp_size": 2}, True),
        ({"when": "graphs"}, {}, True),
        ({"when": "topk"}, {}, False),
        ({"when": "page_size>1"}, {"page_size": 16}, True),
        ({"when": "target.num_hidden_layers==32"}, {}, True),
        ({"when": "target.num_hidden_layers==33"}, {}, False),
    ],
)
def test_an_advisory_is_shown_where_it_applies_with_its_source(scene, advisory, values, shown):
    scene.values |= values
    scene.advisories = (Advisory("SGLANG-X", "the state is overwritten", "llama.py:1", "read", **advisory),)
    codes = scene.codes()
    assert codes == ({"ADVISORY": WARN} if shown else {})
    if shown:
        found = scene.finding("ADVISORY")
        assert "the state is overwritten" in found.message
        assert found.source == "llama.py:1"


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"mhc": True}, True),
        ({"text_config": {"mhc": True}}, True),
        ({"mhc": True, "text_config": {"mhc": False}}, False),
    ],
)
def test_an_advisory_about_the_target_s_config_asks_its_text_model(scene, config, shown):
    scene.advisories = (Advisory("SGLANG-X", "a mean", "glm.py:1", "read", "unknown", when="target.mhc==true"),)
    scene.edit("target", config=config)
    assert scene.codes() == ({"ADVISORY": UNKNOWN} if shown else {})


def test_simulated_acceptance_is_called_out(scene):
    scene.environment = {"SGLANG_SIMULATE_ACC_LEN": "3"}
    assert scene.codes() == {"SIMULATED_ACCEPTANCE": WARN}
    assert NOTE not in scene.codes().values()


def test_positions_that_nobody_states_are_said_not_to_be_checked(scene):
    del scene.config["max_position_embeddings"]
    found = scene.edit("facts", max_position_embeddings=None).finding("CONTEXT")
    assert found.severity == WARN
    assert "states no positions" in found.message
    assert "raises at start-up" in found.message
