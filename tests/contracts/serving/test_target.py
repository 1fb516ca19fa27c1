"""What a target's config says."""

import hashlib
import json

import pytest

from drafter_contracts import limits
from drafter_contracts.errors import TargetError
from drafter_contracts.serving.target import apply_overrides, read_target, target_from_config, text_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
    "tie_word_embeddings": False,
}
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        "model_type": "kimi_k2",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "vocab_size": 163840,
        "kv_lora_rank": 512,
        "quantization_config": {"quant_method": "compressed-tensors"},
    },
}
OMNI = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "thinker_config": {"text_config": {"num_hidden_layers": 48, "hidden_size": 2048, "vocab_size": 152064}},
}


def test_a_plain_model():
    facts = target_from_config(LLAMA, "m", source="m/config.json")
    assert (facts.architecture, facts.num_layers, facts.hidden_size, facts.vocab_size) == (
        "LlamaForCausalLM",
        32,
        4096,
        128256,
    )
    assert (facts.dtype, facts.rope_theta, facts.attention, facts.quantization) == ("bfloat16", 500000.0, "mha", "")
    assert facts.rope_scaling == {"rope_type": "llama3", "factor": 8.0}
    assert facts.tie_word_embeddings is False


def test_the_language_model_of_a_larger_one():
    facts = target_from_config(KIMI, "m")
    assert (facts.num_layers, facts.hidden_size, facts.text_model_type) == (61, 7168, "kimi_k2")
    assert (facts.attention, facts.quantization) == ("mla", "compressed-tensors")
    assert text_config(OMNI)[1] == "thinker_config.text_config"
    assert target_from_config(OMNI, "m").num_layers == 48


def test_loops_and_streams():
    facts = target_from_config({"num_hidden_layers": 22, "num_loops": 2, "hc_mult": 4}, "m")
    assert (facts.num_layers, facts.num_loops, facts.residual_streams) == (44, 2, 4)


def test_older_names_and_new_rope():
    facts = target_from_config(
        {"n_layer": 12, "n_embd": 768, "rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}}, "m"
    )
    assert (facts.num_layers, facts.hidden_size, facts.rope_theta) == (12, 768, 10000.0)
    assert facts.rope_scaling == {"rope_theta": 1e4, "rope_type": "yarn"}


def test_nothing_stated_is_none():
    facts = target_from_config({}, "m")
    assert (facts.num_layers, facts.hidden_size, facts.architecture, facts.tie_word_embeddings) == (
        None,
        None,
        "",
        None,
    )


def test_overrides_replace_whole_values():
    overrides = {"text_config": {"num_hidden_layers": 2}, "architectures": ["X"]}
    facts = target_from_config(KIMI, "m", overrides=overrides)
    assert (facts.num_layers, facts.hidden_size, facts.architecture) == (2, None, "X")
    assert KIMI["text_config"]["num_hidden_layers"] == 61


def test_overrides_merge_where_the_release_does():
    overrides = {"text_config": {"num_hidden_layers": 2}, "eagle_config": {"a": 1}}
    config = {**KIMI, "eagle_config": {"b": 2}}
    merged = apply_overrides(config, overrides, merged=("text_config",))
    assert merged["text_config"]["hidden_size"] == 7168
    assert merged["text_config"]["num_hidden_layers"] == 2
    assert merged["eagle_config"] == {"a": 1}


@pytest.mark.parametrize("value", [0, -1, "61", 10**9, True, [61], 1.5])
def test_impossible_depths_name_file_and_field(value):
    with pytest.raises(TargetError) as caught:
        target_from_config({"text_config": {"num_hidden_layers": value}}, "m", source="/x/config.json")
    assert caught.value.where == "/x/config.json: text_config.num_hidden_layers"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_read_from_a_directory(model):
    facts = read_target(str(model))
    assert (facts.source, facts.num_layers) == (str(model / "config.json"), 32)


def test_tokenizer_digest_is_read_only_when_asked(model):
    (model / "tokenizer.json").write_text("{}")
    assert read_target(str(model)).tokenizer_sha256 == ""
    digest = hashlib.sha256(b"{}").hexdigest()
    assert read_target(str(model), with_tokenizer=True).tokenizer_sha256 == digest


def test_tokenizer_digest_of_a_cached_blob_is_its_name(model):
    blob = model / ("a" * 64)
    blob.write_text("not hashed")
    (model / "tokenizer.json").symlink_to(blob)
    assert read_target(str(model), with_tokenizer=True).tokenizer_sha256 == "a" * 64


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": NaN}', "\x00"])
def test_what_is_no_config(model, text):
    (model / "config.json").write_text(text)
    with pytest.raises(TargetError, match="not JSON") as caught:
        read_target(str(model))
    assert caught.value.where == str(model / "config.json")


def test_size_limit_and_missing_files(model):
    (model / "config.json").write_text(" " * (limits.config_max_bytes + 1))
    with pytest.raises(TargetError, match="too large"):
        read_target(str(model))
    (model / "config.json").unlink()
    with pytest.raises(TargetError) as caught:
        read_target(str(model))
    assert caught.value.actual == "no such file"


def test_an_absent_model_says_where_it_was_looked_for():
    with pytest.raises(TargetError) as caught:
        read_target("org/absent", revision="v1", environment={"HF_HUB_CACHE": "/no/cache"})
    assert caught.value.where == "org/absent (revision v1)"
    assert "/no/cache" in caught.value.expected


@pytest.mark.parametrize("more", [{"rope_theta": 10**400}, {"rope_parameters": {"rope_theta": 10**400}}])
def test_a_rope_base_that_no_float_holds_is_none(more):
    assert target_from_config({"num_hidden_layers": 2, "hidden_size": 8, **more}, "m").rope_theta is None
