# ruff: noqa: E501 - one row of the table per file
"""Every stored config of the field is read: its method, its boundaries with the confidence, or the reason for none."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from drafter_contracts.checkpoint.facts import (
    DECLARED,
    DFLASH,
    DSPARK,
    EAGLE,
    EAGLE3,
    ENGINE_DEFAULT,
    P_EAGLE,
    PRODUCER_RULE,
    UNDECIDABLE,
    UNKNOWN_METHOD,
    DrafterFacts,
    TensorFact,
)
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.layout import FINAL_NORM, NORM_CONCATENATION, NORM_PER_CHUNK

CONFIGS = Path(__file__).parents[2] / "data" / "configs"
NEEDS_DEPTH = "give the target"
NOTHING = "neither config.json nor tensors say"


class Row(NamedTuple):
    """One file: `depth` is the target's, where the field's notes give it; `taps` are boundaries, or why there are none;
    `other` is the reading that people may mean instead, where the file is suspicious.
    """

    file: str
    depth: int | None
    method: str
    confidence: str
    taps: tuple[int, ...] | str
    other: tuple[int, ...]


# fmt: off
EXPECTED = [
    # null stands for "filled at export".
    Row("exporter--ModelOpt-llama_eagle", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    # Keys that a reader knows, with "<default ...>" for values: no ids among them.
    Row("exporter--TensorRT-LLM-reader-keys", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("exporter--llamacpp-gguf-eagle3", None, EAGLE3, UNDECIDABLE, "eagle3.target_layers is not a list", ()),
    Row("exporter--speculators-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("published--Dogacel--specdrift-gpt-oss-120b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("published--Inferact--Kimi-K3-DSpark", None, DSPARK, PRODUCER_RULE, (3, 24, 48, 72, 90), ()),
    # The stored file quotes no key at all. The head's special default is in test_conventions.py.
    Row("published--Inferact--MiniMax-M3-EAGLE3", None, UNKNOWN_METHOD, UNDECIDABLE, NOTHING, ()),
    Row("published--RedHatAI--Qwen3-30B-A3B-speculator.dflash", None, DFLASH, UNDECIDABLE, "no default for DFLASH", ()),
    # As is, and flagged: z-lab's evenly spread output ids under a key of boundaries.
    Row("published--RedHatAI--Qwen3-4B-speculator.dspark", 36, DSPARK, PRODUCER_RULE, (1, 9, 17, 25, 33), (2, 10, 18, 26, 34)),
    # No version: speculators 0.3 and 0.4 trained one layer later than they were served.
    Row("published--RedHatAI--Qwen3-8B-speculator.eagle3", 36, EAGLE3, ENGINE_DEFAULT, (2, 18, 33), (3, 19, 34)),
    # The source does not say where the key was; the config holds it at the top.
    Row("published--Tencent-Hunyuan--HunyuanOCR-1.5-DFlash", None, DFLASH, PRODUCER_RULE, (2, 9, 16, 23), ()),
    Row("published--deepseek-ai--dspark_gemma4_12b_block7", 48, DSPARK, PRODUCER_RULE, (6, 18, 30, 42, 47), ()),
    # Nothing in these keys tells DFLASH2 from DFLASH; its tensors would.
    Row("published--incoai--Qwen3.8-27B-DFlash2", None, DFLASH, PRODUCER_RULE, (6, 20, 34, 48, 62), ()),
    # The ambiguous list: [2, n//2, n-3] of a DeepSeek-shaped head, without tensors to tell the export.
    Row("published--lightseekorg--kimi-k2.5-eagle3-mla", 61, EAGLE3, PRODUCER_RULE, (2, 30, 58), (3, 31, 59)),
    Row("published--lmsys--Qwen3-235B-A22B-EAGLE3", 94, EAGLE3, PRODUCER_RULE, (2, 47, 91), ()),
    # Served as stated; the numbers are the trainers' default as output ids, moved to the top verbatim.
    Row("published--nm-testing--Llama4-Maverick-Eagle3-Speculators", 48, EAGLE3, PRODUCER_RULE, (1, 23, 44), (2, 24, 45)),
    # Same, by the note: served [1, 46, 90], trained [2, 47, 91].
    Row("published--nm-testing--Qwen3-235B-A22B-EAGLE3-converted-speculators-lmsys", 94, EAGLE3, PRODUCER_RULE, (1, 46, 90), (2, 47, 91)),
    Row("published--nvidia--Kimi-K2.6-Eagle3", None, UNKNOWN_METHOD, UNDECIDABLE, NOTHING, ()),
    # No key is quoted; the default is known to be wrong for this head (vllm-project/vllm#50170).
    Row("published--nvidia--Llama-3.3-70B-Instruct-Eagle3", 80, UNKNOWN_METHOD, UNDECIDABLE, NOTHING, ()),
    Row("published--nvidia--Llama-4-Maverick-17B-128E-Eagle3", 48, EAGLE3, PRODUCER_RULE, (2, 24, 45), ()),
    Row("published--nvidia--gpt-oss-120b-Eagle3-long-context", 36, EAGLE3, PRODUCER_RULE, (2, 18, 33), ()),
    # Same vendor, key and target, other numbering: an id equals the depth.
    Row("published--nvidia--gpt-oss-120b-Eagle3-v3", 36, EAGLE3, PRODUCER_RULE, (24, 30, 36), ()),
    # Both spellings, aux = target + 1; the last tap is the last layer of 40.
    Row("published--poolside--Laguna-XS-2.1-DFlash", 40, DFLASH, DECLARED, (2, 14, 26, 34, 40), ()),
    Row("published--thoughtworks--MiniMax-M2.5-Eagle3", 62, EAGLE3, PRODUCER_RULE, (2, 31, 59), ()),
    Row("published--yuhuili--EAGLE3-LLaMA3.1-Instruct-8B", 32, EAGLE3, ENGINE_DEFAULT, (2, 16, 29), (3, 17, 30)),
    # The note derives [2, 40, 77] from the producer's code; the stored file itself quotes no key, so that a
    # reader of it alone can decide nothing.
    Row("published--yuhuili--EAGLE3-LLaMA3.3-Instruct-70B", 80, UNKNOWN_METHOD, UNDECIDABLE, NOTHING, ()),
    Row("published--z-lab--Qwen3-8B-DFlash-b16", 36, DFLASH, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("published--z-lab--Qwen3.6-27B-DFlash", 64, DFLASH, PRODUCER_RULE, (2, 17, 32, 47, 62), ()),
    Row("published--z-lab--Qwen3.6-35B-A3B-DFlash--A", 40, DFLASH, PRODUCER_RULE, (2, 7, 12, 17, 23, 28, 33, 38), ()),
    Row("published--z-lab--gemma-4-26B-A4B-it-DFlash", 30, DFLASH, PRODUCER_RULE, (2, 7, 12, 18, 23, 28), ()),
    Row("template--AngelSlim--hunyuan-4b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--hunyuan-7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--hunyuan_ocr-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen2-audio-7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen2.5-1.5b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen2.5-3b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen2.5-7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen2.5-vl-3b-eagle3-mrope", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-0.6b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-1.7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-30b-a3b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-4b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-8b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-vl-2b-eagle3-mrope", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-vl-30b-a3b-eagle3-mrope", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-vl-4b-eagle3-mrope", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-vl-4b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3-vl-8b-eagle3-mrope", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--AngelSlim--qwen3_dflare", None, DFLASH, PRODUCER_RULE, (2, 6, 10, 14, 18, 22, 26, 30, 34), ()),
    # DeepSpec's are blocks of training configs, below "model".
    Row("template--DeepSpec--dflash--dflash_gemma4_12b", None, DFLASH, PRODUCER_RULE, (6, 18, 30, 42, 47), ()),
    Row("template--DeepSpec--dflash--dflash_qwen3_8b", None, DFLASH, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--DeepSpec--dspark--dspark_gemma4_12b", None, DSPARK, PRODUCER_RULE, (6, 18, 30, 42, 47), ()),
    Row("template--DeepSpec--dspark--dspark_qwen3_14b", None, DSPARK, PRODUCER_RULE, (2, 11, 20, 29, 38), ()),
    Row("template--DeepSpec--eagle3--eagle3_qwen3_14b", None, EAGLE3, PRODUCER_RULE, (2, 11, 20, 29, 38), ()),
    Row("template--DeepSpec--eagle3--eagle3_qwen3_4b", None, EAGLE3, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--DeepSpec--eagle3--eagle3_qwen3_8b", None, EAGLE3, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--EAGLE1--Mixtral_8x7B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE1--llama_2_chat_13B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE1--llama_2_chat_70B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE1--vicuna_13B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE1--vicuna_33B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE1--vicuna_7B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--EAGLE3--traineagle3_config", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--HASS--llama_2_chat_13B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--HASS--llama_2_chat_70B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--HASS--llama_2_chat_7B_config", None, EAGLE, PRODUCER_RULE, NEEDS_DEPTH, ()),
    Row("template--SpecForge--deepseek-v3-671b-eagle3", 61, EAGLE3, PRODUCER_RULE, (2, 30, 58), ()),
    Row("template--SpecForge--glm-5.2-dspark", None, DSPARK, PRODUCER_RULE, (2, 20, 39, 58, 77), ()),
    # Last id n-3 beside output ids: flagged, the default's boundaries as the other reading.
    Row("template--SpecForge--gpt-oss-120B-eagle3", 36, EAGLE3, PRODUCER_RULE, (2, 18, 34), (2, 18, 33)),
    Row("template--SpecForge--gpt-oss-20B-eagle3", 24, EAGLE3, PRODUCER_RULE, (2, 12, 22), (2, 12, 21)),
    Row("template--SpecForge--lfm2.5-1.2b-instruct-dflash", None, DFLASH, PRODUCER_RULE, (2, 5, 8, 11, 14), ()),
    Row("template--SpecForge--ling-flash-2.0-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--llama3-70B-ealge3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--llama4-scout-17B-16E-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--longcat-flash-dflash", None, DFLASH, PRODUCER_RULE, (2, 8, 14, 20, 26), ()),
    Row("template--SpecForge--longcat-flash-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen2-5-vl-7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen2.5-0.5b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen2.5-7b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen2.5-vl-32b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-235B-A22B-eagle3", 94, EAGLE3, PRODUCER_RULE, (2, 47, 91), ()),
    Row("template--SpecForge--qwen3-30B-A3B-eagle3.1", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-30B-A3B-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-32b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-4b-dflash", None, DFLASH, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--SpecForge--qwen3-4b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-8b-dflash", None, DFLASH, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--SpecForge--qwen3-8b-dspark", None, DSPARK, PRODUCER_RULE, (2, 10, 18, 26, 34), ()),
    Row("template--SpecForge--qwen3-8b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-8b-peagle", None, P_EAGLE, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-coder-30B-A3B-instruct-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3-coder-480B-A35B-instruct-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3.5-35b-a3b-dflash", None, DFLASH, PRODUCER_RULE, (2, 11, 20, 29, 38), ()),
    Row("template--SpecForge--qwen3.5-35b-a3b-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--SpecForge--qwen3.6-27b-dflash", None, DFLASH, PRODUCER_RULE, (2, 17, 32, 47, 62), ()),
    Row("template--SpecForge--qwen3.6-27b-domino-full-attention", None, DFLASH, PRODUCER_RULE, (2, 17, 32, 47, 62), ()),
    # z-lab's outputs [1, 16, 31, 46, 61] plus one: flagged.
    Row("template--SpecForge--qwen3.6-27b-dspark", None, DSPARK, PRODUCER_RULE, (3, 18, 33, 48, 63), (2, 17, 32, 47, 62)),
    Row("template--TorchSpec--kimi_k25_eagle3_mla", 61, EAGLE3, PRODUCER_RULE, (2, 30, 58), ()),
    Row("template--TorchSpec--qwen3_8b_eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    # The research code took one later than everybody; the config looks like EAGLE's.
    Row("template--speculators_research--qwen3config", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    Row("template--tails-mpt--deepseek-v4-flash-eagle3", 43, EAGLE3, PRODUCER_RULE, (2, 22, 42), ()),
    Row("template--tails-mpt--glm4-flash-eagle3", None, EAGLE3, ENGINE_DEFAULT, NEEDS_DEPTH, ()),
    # At the top level: SGLang ignores them, vLLM takes them as boundaries; flagged.
    Row("template--tails-mpt--glm47-fp8-eagle3", 92, EAGLE3, PRODUCER_RULE, (2, 46, 89), (3, 47, 90)),
    Row("template--tails-mpt--glm5-eagle3", 78, EAGLE3, PRODUCER_RULE, (2, 39, 75), (3, 40, 76)),
    # SGLang's own default list, which counts inputs, under the key of outputs: flagged.
    Row("template--tails-mpt--mistral-medium-3-5-eagle3-aux2-44-85", 88, EAGLE3, PRODUCER_RULE, (3, 45, 86), (2, 44, 85)),
    Row("template--tails-mpt--nemotron-3-nano-30b-eagle3", None, EAGLE3, PRODUCER_RULE, (6, 27, 43), (5, 26, 42)),
]
# fmt: on


def load(name: str) -> tuple[dict, tuple[TensorFact, ...], dict]:
    """The config without the archive's own keys, its tensors, and those keys."""
    stored = json.loads((CONFIGS / f"{name}.json").read_text())
    config = {key: value for key, value in stored.items() if not key.startswith("_")}
    tensors = []
    for tensor, shape in stored.get("_tensors", {}).items():
        # Symbolic numbers: N counts the draft's layers, K its taps.
        for symbol, count in ((".N.", config.get("num_hidden_layers")), (".K.", 5)):
            if symbol in tensor:
                tensors += [TensorFact(tensor.replace(symbol, f".{i}."), "BF16", tuple(shape)) for i in range(count)]
                break
        else:
            tensors.append(TensorFact(tensor, "I64" if tensor == "d2t" else "BF16", tuple(shape)))
    return config, tuple(tensors), {key: value for key, value in stored.items() if key.startswith("_")}


def read(name: str, depth: int | None) -> DrafterFacts:
    config, tensors, archive = load(name)
    return drafter_facts(
        config,
        tensors,
        path=name,
        weights="safetensors" if tensors else "none",
        target_layers=depth,
        target_hidden_size=archive.get("_derived", {}).get("target_hidden_size"),
    )


def test_every_stored_config_has_a_row_and_a_source() -> None:
    assert sorted(row.file for row in EXPECTED) == sorted(path.stem for path in CONFIGS.glob("*.json"))
    for row in EXPECTED:
        assert "_source" in load(row.file)[2]


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row.file)
def test_what_the_config_says(row: Row) -> None:
    facts = read(row.file, row.depth)
    reading = facts.layout
    assert facts.method == row.method
    assert reading.confidence == row.confidence
    assert facts.disagreements == ()
    if isinstance(row.taps, str):
        assert reading.layout is None
        assert row.taps in f"{reading.reason} {reading.settle}"
        assert reading.settle, "an undecided reading says what would settle it"
    else:
        assert reading.layout.check(row.depth).boundaries == row.taps
        assert reading.key or reading.confidence == ENGINE_DEFAULT
    assert reading.alternatives[:1] == ((row.other,) if row.other else ())


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row.file)
def test_what_the_field_derived_for_the_file(row: Row) -> None:
    derived = load(row.file)[2].get("_derived", {})
    reading = read(row.file, row.depth).layout
    if reading.layout is None:
        # Only EAGLE3-LLaMA3.3-Instruct-70B: derived from the producer's code, not from the keys that are stored.
        assert "boundary_ids_hf" not in derived or row.file.startswith("published--yuhuili--EAGLE3-LLaMA3.3")
        return
    assert list(reading.layout.boundaries) == derived.get("boundary_ids_hf", list(reading.layout.boundaries))
    assert list(reading.layout.output_ids) == derived.get("output_layer_ids", list(reading.layout.output_ids))
    if "fc_in_features" in derived:
        assert reading.layout.fc_input_width == derived["fc_in_features"]


@pytest.mark.parametrize("row", [row for row in EXPECTED if row.taps == NEEDS_DEPTH], ids=lambda r: r.file)
def test_with_a_depth_the_default_is_assumed_and_named_so(row: Row) -> None:
    reading = read(row.file, 36).layout
    assert not reading.needs_depth
    if row.method == EAGLE:
        assert [tap.state for tap in reading.layout.taps] == [FINAL_NORM]
    else:
        assert row.method in (EAGLE3, P_EAGLE)
        assert reading.layout.boundaries == (2, 18, 33)
        assert "assumed" in reading.reason


def test_norms_before_fc_are_told_by_the_tensors() -> None:
    v3 = read("published--nvidia--gpt-oss-120b-Eagle3-v3", 36)
    assert v3.layout.layout.norm == NORM_CONCATENATION
    assert (v3.fc.in_width, v3.fc.taps, v3.fc.tap_width) == (8640, 3, 2880)
    assert read("published--poolside--Laguna-XS-2.1-DFlash", 40).layout.layout.norm == NORM_PER_CHUNK
    assert read("template--SpecForge--qwen3-30B-A3B-eagle3.1", 48).layout.layout.norm == NORM_PER_CHUNK


def test_facts_of_a_whole_head() -> None:
    facts = read("published--yuhuili--EAGLE3-LLaMA3.1-Instruct-8B", 32)
    assert facts.vocabulary.size == 32000
    assert facts.vocabulary.target_size == 128256
    assert facts.vocabulary.reduced
    assert (facts.vocabulary.d2t, facts.vocabulary.t2d, facts.vocabulary.encoding) == (32000, 128256, "offset")
    assert facts.has_lm_head is True
    assert facts.has_embedding is False
    assert (facts.real_layers, facts.layer_prefixes) == (1, ("midlayer",))
    assert (facts.dtype, facts.attention, facts.max_position_embeddings) == ("BF16", "mha", 2048)
