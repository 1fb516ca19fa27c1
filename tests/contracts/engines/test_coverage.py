"""How much of each release is understood: counted rightly, documented as it is, and enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drafter_contracts.engines import coverage_page
from drafter_contracts.engines.coverage import CAPTURE, DRAFTER, READING, coverage
from drafter_contracts.engines.profile import (
    BROKEN,
    FITTED,
    OPAQUE,
    SCHEMA,
    CaptureMethod,
    Drafter,
    IdReading,
    Profile,
    Source,
)
from drafter_contracts.engines.store import load_profile, releases

ROOT = Path(__file__).parents[3]
RELEASES = releases("sglang")

RULES = (
    CaptureMethod(FITTED, source=Source("models/a.py", "f", 1)),
    CaptureMethod(BROKEN, "raises @ models/b.py:3", source=Source("models/b.py", "g", 2)),
    CaptureMethod(OPAQUE, "no rule"),
)


def toy(**parts):
    return Profile(SCHEMA, "sglang", "1", rules=RULES, **parts)


def test_pairs_are_counted_by_class_and_method():
    found = coverage(
        toy(
            targets={"A": {"EAGLE3": 0, "DFLASH": 1}, "B": {"EAGLE3": 2}, "C": {}},
            readings={"EAGLE3": IdReading(), "DFLASH": IdReading(status=OPAQUE, reason="why")},
        )
    )
    pairs = found.tally(CAPTURE)
    assert (pairs.found, pairs.fitted, pairs.broken, pairs.opaque, pairs.decided) == (3, 1, 1, 1, 2)
    assert pairs.share(pairs.decided) == pytest.approx(66.67, abs=0.01)
    assert [(gap.name, gap.method, gap.status) for gap in found.gaps(CAPTURE)] == [
        ("A", "DFLASH", BROKEN),
        ("B", "EAGLE3", OPAQUE),
    ]
    assert found.gaps(CAPTURE)[0].source == "models/b.py:2 (g)"
    assert [gap.reason for gap in found.gaps(READING)] == ["why"]


def test_a_drafter_class_is_no_target_whatever_hook_it_inherits():
    found = coverage(
        toy(targets={"A": {"EAGLE3": 0}, "D": {"EAGLE3": 2}}, drafters={"D": Drafter("EAGLE3", OPAQUE, reason="why")})
    )
    assert found.tally(CAPTURE).found == 1
    assert found.tally(DRAFTER).opaque == 1


def test_nothing_found_is_nothing_missed():
    assert coverage(toy()).tally(CAPTURE).share(0) == 100.0


def test_the_documentation_is_made_from_the_profiles():
    page = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
    assert page == coverage_page.render(), "run: make docs"


def test_the_page_has_every_shipped_release():
    rows = [line.split(" | ")[0].removeprefix("| ") for line in coverage_page.render().splitlines() if line[:2] == "| "]
    assert tuple(rows[1:]) == RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_nearly_every_pair_is_decided(release):
    pairs = coverage(load_profile("sglang", release)).tally(CAPTURE)
    assert pairs.found
    assert pairs.share(pairs.decided) >= 95.0, f"{pairs.decided} of {pairs.found}"


# classes that published drafters are made for ------------------------------------------------------------------------

#: Part of the name of a published or template config (tests/data/configs) to the target class that it is made for.
#: A config names its target in words at best; these are the classes that the models named there register.
TARGET_CLASSES = {
    "Llama-3.3-70B": "LlamaForCausalLM",
    "LLaMA3": "LlamaForCausalLM",
    "llama3-70B": "LlamaForCausalLM",
    "traineagle3": "LlamaForCausalLM",
    "Llama4-Maverick": "Llama4ForConditionalGeneration",
    "Llama-4-Maverick": "Llama4ForConditionalGeneration",
    "llama4-scout": "Llama4ForConditionalGeneration",
    "gpt-oss": "GptOssForCausalLM",
    "Kimi-K2.6": "KimiK25ForConditionalGeneration",
    "kimi-k2.5": "KimiK25ForConditionalGeneration",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "Kimi-K3": "KimiK3ForConditionalGeneration",
    "deepseek-v3": "DeepseekV3ForCausalLM",
    "deepseek-v4": "DeepseekV4ForCausalLM",
    "Qwen3-8B": "Qwen3ForCausalLM",
    "Qwen3-4B": "Qwen3ForCausalLM",
    "qwen3-0.6b": "Qwen3ForCausalLM",
    "qwen3-1.7b": "Qwen3ForCausalLM",
    "qwen3-4b": "Qwen3ForCausalLM",
    "qwen3-8b": "Qwen3ForCausalLM",
    "qwen3_8b": "Qwen3ForCausalLM",
    "qwen3_4b": "Qwen3ForCausalLM",
    "qwen3_14b": "Qwen3ForCausalLM",
    "qwen3_dflare": "Qwen3ForCausalLM",
    "qwen3config": "Qwen3ForCausalLM",
    "qwen3-32b": "Qwen3ForCausalLM",
    "Qwen3-235B-A22B": "Qwen3MoeForCausalLM",
    "Qwen3-30B-A3B": "Qwen3MoeForCausalLM",
    "qwen3-30b-a3b": "Qwen3MoeForCausalLM",
    "qwen3-30B-A3B": "Qwen3MoeForCausalLM",
    "qwen3-235B": "Qwen3MoeForCausalLM",
    "qwen3-coder": "Qwen3MoeForCausalLM",
    "Qwen3.6-27B": "Qwen3_5ForConditionalGeneration",
    "Qwen3.8-27B": "Qwen3_5ForConditionalGeneration",
    "qwen3.6-27b": "Qwen3_5ForConditionalGeneration",
    "Qwen3.6-35B-A3B": "Qwen3_5MoeForConditionalGeneration",
    "qwen3.5-35b-a3b": "Qwen3_5MoeForConditionalGeneration",
    "qwen3-vl-2b": "Qwen3VLForConditionalGeneration",
    "qwen3-vl-4b": "Qwen3VLForConditionalGeneration",
    "qwen3-vl-8b": "Qwen3VLForConditionalGeneration",
    "qwen3-vl-30b-a3b": "Qwen3VLMoeForConditionalGeneration",
    "qwen2.5-vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen2-5-vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen2.5-": "Qwen2ForCausalLM",
    "gemma4_12b": "Gemma4UnifiedForConditionalGeneration",
    "gemma-4-26B": "Gemma4ForConditionalGeneration",
    "MiniMax-M2": "MiniMaxM2ForCausalLM",
    "MiniMax-M3": "MiniMaxM3SparseForConditionalGeneration",
    "Laguna": "LagunaForCausalLM",
    "glm-5.2": "GlmMoeDsaForCausalLM",
    "glm5-": "GlmMoeDsaForCausalLM",
    "glm47": "Glm4MoeForCausalLM",
    "glm4-flash": "Glm4MoeLiteForCausalLM",
    "longcat-flash": "LongcatFlashForCausalLM",
    "ling-flash": "BailingMoeV2ForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "nemotron-3-nano": "NemotronHForCausalLM",
    "mistral-medium": "MistralLarge3ForCausalLM",
    "hunyuan-": "HunYuanDenseV1ForCausalLM",
    "hunyuan_ocr": "HunYuanVLForConditionalGeneration",
    "HunyuanOCR": "HunYuanVLForConditionalGeneration",
    "qwen2-audio": "Qwen2AudioForConditionalGeneration",
}
#: Configs without a target of their own: an exporter's keys, or heads that read no captured layers.
NO_TARGET = ("exporter--", "template--EAGLE1--", "template--HASS--")
#: Pairs whose hook provably cannot work in a release, with where that is seen. Nothing else may stand here.
DEFECTS = {
    ("0.5.9", "Glm4MoeLiteForCausalLM", "EAGLE3"): "models/deepseek_v2.py:2722 asks for enable_a2a_moe, never set here",
    ("0.5.23", "Qwen3VLForConditionalGeneration", "DFLASH"): "models/qwen3_vl.py:1688 calls a method that is not there",
    ("0.5.23", "Qwen3VLForConditionalGeneration", "DSPARK"): "falls back to that setter",
}


CONFIGS = sorted(path.stem for path in (ROOT / "tests/data/configs").glob("*.json"))


def named_classes() -> set[str]:
    """Target classes of the published configs, the templates and the field cases."""
    cases = json.loads((ROOT / "tests/cases/data/field-cases.json").read_text(encoding="utf-8"))["cases"]
    stated = {case["target"]["arch"] for case in cases}
    return set(TARGET_CLASSES.values()) | {name for name in stated if name.endswith(("ForCausalLM", "Generation"))}


def test_every_config_has_a_target_class_and_every_line_of_the_table_a_config():
    named = [config for config in CONFIGS if not config.startswith(NO_TARGET)]
    assert [config for config in named if not any(part in config for part in TARGET_CLASSES)] == []
    assert [part for part in TARGET_CLASSES if not any(part in config for config in named)] == []


@pytest.mark.parametrize("release", [release for release in ("0.5.9", "0.5.23") if release in RELEASES])
def test_classes_that_drafters_are_made_for_are_fitted(release):
    profile = load_profile("sglang", release)
    missing = {}
    for name in sorted(named_classes() & set(profile.targets) - set(profile.drafters)):
        for method in profile.targets[name]:
            rule = profile.capture_method(name, method)
            if rule.status != FITTED:
                missing[(release, name, method)] = rule
    assert {key for key, rule in missing.items() if rule.status != BROKEN} == set()
    assert set(missing) == {key for key in DEFECTS if key[0] == release}
