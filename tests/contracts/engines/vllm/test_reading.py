"""What shipped profiles of vLLM say, read by their interpreter: the facts that people trip over."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.vllm import reading, store
from drafter_contracts.engines.vllm.profile import Runner, Step
from drafter_contracts.engines.vllm.scan import encode
from drafter_contracts.engines.vllm.store import document, load_profile, releases
from drafter_contracts.errors import ProfileError, UnknownReleaseError

IDS = "eagle_aux_hidden_state_layer_ids"
NESTED = {"eagle_config": {IDS: [1, 2, 3]}}
OWN = {IDS: [4, 5, 6]}
BLOCK = {"dflash_config": {"target_layer_ids": [1, 2, 3]}}


def read(release, runner, config):
    return reading.read_ids(load_profile(release).runners[runner], config)[0]


def test_no_profile_has_an_unfitted_runner_and_each_survives_its_encoding():
    assert releases() == ("0.11.0", "0.18.0", "0.22.0", "0.29.0", "0.33.0")
    for release in releases():
        profile = load_profile(release)
        assert [one.reason for one in profile.runners.values() if one.status != "fitted"] == []
        assert [one.reason for one in profile.speculators.values() if one.status != "fitted"] == []
        assert encode(profile) == document(release)


@pytest.mark.parametrize(
    ("release", "runner", "config", "expected"),
    [
        ("0.11.0", "V1", OWN, None),
        ("0.18.0", "V1", NESTED, None),
        ("0.18.0", "V2", NESTED, None),
        ("0.22.0", "V1", NESTED, (1, 2, 3)),
        ("0.22.0", "V2", NESTED, None),
        ("0.33.0", "V1", NESTED, (1, 2, 3)),
        ("0.33.0", "V2", NESTED, None),
        ("0.33.0", "V1", NESTED | OWN, (4, 5, 6)),
        ("0.33.0", "V2", NESTED | OWN, (4, 5, 6)),
        ("0.22.0", "V1", BLOCK, (2, 3, 4)),
        ("0.22.0", "V2", BLOCK, None),
        ("0.33.0", "V2", BLOCK, (2, 3, 4)),
        ("0.33.0", "V1", BLOCK | {"eagle_config": {"other": 1}}, None),
        ("0.33.0", "V2", {"dspark_target_layer_ids": [1, 2]}, (2, 3)),
        ("0.33.0", "V2", {"dspark_target_layer_ids": [1, 2], "model_type": "deepseek_v41"}, (1, 2)),
        ("0.29.0", "V2", {"dspark_target_layer_ids": [1, 2], "model_type": "deepseek_v41"}, (2, 3)),
        ("0.33.0", "V2", {IDS: []} | BLOCK, (2, 3, 4)),
    ],
)
def test_which_key_each_runner_reads(release, runner, config, expected):
    assert read(release, runner, config) == expected


@pytest.mark.parametrize("value", ["1,2", [1, "2"], [True], {"a": 1}, 3])
def test_what_is_no_list_of_layers_is_not_guessed(value):
    with pytest.raises(reading.Unreadable):
        read("0.33.0", "V2", {IDS: value})


def test_a_runner_that_was_not_understood_says_so():
    with pytest.raises(reading.Unreadable, match="seen"):
        reading.read_ids(Runner((Step("x"),), status="opaque", reason="seen"), {"x": [1]})


@pytest.mark.parametrize(
    ("release", "kind", "key", "expected"),
    [
        ("0.33.0", "eagle3", "norm_before_residual", True),
        ("0.33.0", "peagle", "norm_before_residual", False),
        ("0.11.0", "eagle3", "norm_before_residual", True),
    ],
)
def test_what_a_speculators_config_means_where_it_says_nothing(release, kind, key, expected):
    made = reading.translated(load_profile(release).speculators[kind], {"mask_token_id": 1, reading.PART: {}})
    assert made[key] is expected


def test_a_speculators_config_of_a_block_drafter_is_moved_by_one():
    config = {"aux_hidden_state_layer_ids": [2, 5], "mask_token_id": 1, reading.PART: {"model_type": "qwen3"}}
    made = reading.translated(load_profile("0.33.0").speculators["dflash"], config)
    assert (made[IDS], made["dflash_config"]["target_layer_ids"]) == ([2, 5], [1, 4])


def test_what_an_old_translation_loses_is_not_there():
    config = {"norm_output": True, reading.PART: {}}
    assert "norm_output" not in reading.translated(load_profile("0.22.0").speculators["eagle3"], config)
    assert reading.translated(load_profile("0.33.0").speculators["eagle3"], config)["norm_output"] is True


def test_a_translation_refuses_what_the_release_refuses():
    with pytest.raises(reading.Unreadable, match="mask_token_id"):
        reading.translated(load_profile("0.33.0").speculators["dflash"], {"aux_hidden_state_layer_ids": [1]})
    with pytest.raises(reading.Unreadable, match="model_type gpt"):
        reading.translated(load_profile("0.33.0").speculators["eagle3"], {reading.PART: {"model_type": "gpt"}})


@pytest.mark.parametrize(
    ("release", "architecture", "config", "expected"),
    [
        ("0.18.0", "LlamaForCausalLMEagle3", {"num_aux_hidden_states": 5, **OWN}, 3),
        ("0.33.0", "LlamaForCausalLMEagle3", {IDS: [1, 2, 3, 4]}, 3),
        ("0.33.0", "LlamaForCausalLMEagle3", {"eagle_config": {IDS: [1, 2, 3, 4]}}, 4),
        ("0.33.0", "Eagle3Qwen3ForCausalLM", {IDS: [1, 2, 3, 4]}, 4),
        ("0.33.0", "LlamaForCausalLMEagle3", {"num_aux_hidden_states": 5, "eagle_config": {IDS: [1]}}, 5),
        ("0.33.0", "DFlashDraftModel", {"num_hidden_layers": 6}, 6),
        ("0.22.0", "DFlashDraftModel", {"num_hidden_layers": 6, **OWN}, 6),
        ("0.33.0", "DFlashDraftModel", {"num_hidden_layers": 6, **OWN}, 3),
    ],
)
def test_how_many_states_a_class_sizes_fc_for(release, architecture, config, expected):
    assert reading.taps_of(load_profile(release).drafters[architecture], config)[0] == expected


def test_targets_differ_at_the_ends():
    profile = load_profile("0.33.0")

    def ends(architecture):
        capture = profile.rules[profile.targets[architecture]].capture
        return capture.zero.action, capture.last.action

    assert ends("LlamaForCausalLM") == ("capture", "capture")
    assert ends("DeepseekV3ForCausalLM") == ("error", "capture")
    assert ends("DeepseekV32ForCausalLM") == ("capture", "drop")
    old = load_profile("0.11.0")
    assert old.rules[old.targets["LlamaForCausalLM"]].capture.last.action == "drop"


def test_a_release_that_is_not_shipped_and_a_document_that_is_none():
    with pytest.raises(UnknownReleaseError, match="drafters engine scan"):
        load_profile("0.12.0")
    with pytest.raises(ProfileError, match="not a vLLM profile"):
        store.decode(b"{", "x")
    with pytest.raises(ProfileError, match="another schema"):
        store.decode(b'{"schema":"s","engine":"vllm","release":"1"}', "x")
