from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.manifest import DraftRecord, Manifest, TargetRecord
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN


def recorded(**target):
    return Manifest(schema="drafters.manifest.v1", target=TargetRecord(**target))


@pytest.mark.parametrize(
    ("record", "code", "severity"),
    [
        ({"architecture": "Qwen3ForCausalLM"}, "TARGET_ARCHITECTURE", WARN),
        ({"layers": 36}, "TARGET_DEPTH", REFUSE),
        ({"hidden_size": 5120}, "TARGET_WIDTH", REFUSE),
        ({"vocab_size": 151936}, "TARGET_VOCABULARY", REFUSE),
        ({"vocab_size": 128256 + 64}, "TARGET_VOCABULARY", NOTE),
        ({"tokenizer_sha256": "0" * 64}, "TARGET_TOKENIZER", WARN),
    ],
)
def test_each_recorded_fact_of_the_target_is_compared(scene, record, code, severity):
    scene.edit("target", tokenizer_sha256="1" * 64)
    scene.manifest = recorded(**record)
    assert scene.codes() == {code: severity}


def test_a_drafter_class_as_the_target_is_refused_and_not_blamed_on_a_missing_hook(scene):
    scene.edit("target", architecture="LlamaForCausalLMEagle3")
    finding = scene.finding("TARGET_IS_DRAFTER")
    assert finding.severity == REFUSE
    assert "LlamaForCausalLMEagle3 is a drafter class of sglang 9.9.9, not a target" in finding.message
    assert not {"CAPTURE_NO_HOOK", "CAPTURE_BROKEN", "CAPTURE_OPAQUE", "CAPTURE_UNCOMPUTED"} & set(scene.codes())


def test_a_rule_that_an_older_profile_has_for_a_drafter_class_counts_for_nothing(scene):
    scene.targets = {"LlamaForCausalLM": {"EAGLE3": 0}, "LlamaForCausalLMEagle3": {"EAGLE3": 0}}
    assert scene.profile().capture_method("LlamaForCausalLM", "EAGLE3") is not None
    assert scene.profile().capture_method("LlamaForCausalLMEagle3", "EAGLE3") is None


def test_a_target_that_is_the_recorded_one_is_allowed(scene):
    scene.edit("target", tokenizer_sha256="1" * 64)
    scene.manifest = recorded(
        architecture="LlamaForCausalLM", layers=32, hidden_size=4096, vocab_size=128256, tokenizer_sha256="1" * 64
    )
    verdict = scene.verdict()
    assert verdict.decision == "allow"
    assert {"TARGET_DEPTH", "TARGET_WIDTH", "TARGET_VOCABULARY", "TARGET_TOKENIZER"} <= set(verdict.checked)


def test_num_target_layers_is_a_depth_only_where_it_is_not_the_number_of_taps(scene):
    scene.config["num_target_layers"] = 3
    assert scene.verdict().decision == "allow"
    scene.config["num_target_layers"] = 36
    assert scene.codes() == {"TARGET_DEPTH": REFUSE}


def test_the_depth_of_a_loop_model_may_be_recorded_either_way(scene):
    scene.edit("target", num_layers=64, num_loops=2)
    scene.manifest = recorded(layers=32)
    assert "TARGET_DEPTH" not in scene.codes()


def test_another_vocabulary_in_the_drafters_own_map_is_refused(scene):
    scene.edit("facts", vocabulary=replace(scene.facts.vocabulary, t2d=151936))
    assert scene.codes() == {"TARGET_VOCABULARY": REFUSE}


def test_a_config_that_cannot_be_read_is_unknown(scene):
    scene.target = None
    verdict = scene.verdict()
    assert verdict.decision == "unknown"
    assert scene.codes() == {"TARGET_UNREADABLE": UNKNOWN}


def test_a_config_without_a_depth_is_unknown(scene):
    scene.edit("target", num_layers=None)
    assert "num_hidden_layers" in scene.finding("TARGET_UNREADABLE").message


def test_a_mode_of_training_and_a_basis_warn_because_a_launch_does_not_show_them(scene):
    scene.manifest = Manifest(schema="drafters.manifest.v1", draft=DraftRecord(thinking_mode="off", rotated=True))
    assert scene.codes() == {"THINKING_MODE": WARN, "TARGET_BASIS": WARN}
    scene.manifest = Manifest(schema="drafters.manifest.v1", draft=DraftRecord(thinking_mode="both", rotated=False))
    assert scene.verdict().decision == "allow"


def test_a_config_that_gives_a_reduced_head_another_vocabulary_is_doubted_but_a_full_head_is_refused(scene):
    scene.edit("facts", vocabulary=replace(scene.facts.vocabulary, t2d=None, target_size=32000))
    assert scene.codes() == {"TARGET_VOCABULARY": WARN}
    scene.edit("facts", vocabulary=replace(scene.facts.vocabulary, reduced=False))
    assert scene.codes() == {"TARGET_VOCABULARY": REFUSE}


def test_a_recorded_tokenizer_that_is_not_here_is_said_not_to_be_compared(scene):
    scene.manifest = Manifest(schema="drafters.manifest.v1", target=TargetRecord(tokenizer_sha256="0" * 64))
    found = scene.finding("TARGET_TOKENIZER")
    assert found.severity == WARN
    assert "not compared" in found.actual
