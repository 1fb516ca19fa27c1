"""Small real checkpoints and targets from a field case's facts: right shapes, no weights."""

from __future__ import annotations

import json
from pathlib import Path

from drafter_contracts.checkpoint.skeleton import write_skeleton

#: What a config must say besides the numbers of the case, by target architecture.
MODEL_TYPES = {
    "GptOssForCausalLM": "gpt_oss",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "KimiK25ForConditionalGeneration": "kimi_k25",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2_5_VLForConditionalGeneration": "qwen2_5_vl",
    "Gemma2ForCausalLM": "gemma2",
    "LlamaForCausalLM": "llama",
    "MiMoForCausalLM": "mimo",
}
NESTED = ("KimiK25ForConditionalGeneration", "Qwen3_5ForConditionalGeneration")
DFLASH_LAYERS = 5


def write_target(folder: Path, facts: dict[str, object]) -> str:
    """config.json of the target."""
    architecture = str(facts["arch"])
    text: dict[str, object] = {
        "num_hidden_layers": facts["num_layers"],
        "hidden_size": facts["hidden_size"],
        "vocab_size": facts["vocab_size"],
        "max_position_embeddings": facts.get("served_context", 131072),
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
        "rope_theta": 1000000.0,
    }
    if facts.get("attn_kind") == "MLA":
        text |= {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    if facts.get("mtp_layers"):
        text["num_nextn_predict_layers"] = facts["mtp_layers"]
    head = {"architectures": [architecture], "model_type": MODEL_TYPES[architecture]}
    nested_type = {"kimi_k25": "kimi_k2"}.get(str(head["model_type"]), f"{head['model_type']}_text")
    config = (
        {**head, "text_config": {"model_type": nested_type, **text}} if architecture in NESTED else {**head, **text}
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def _layer(
    name: str, hidden: int, *, attention_input: int, mla: bool = False
) -> dict[str, tuple[str, tuple[int, ...]]]:
    shapes: dict[str, tuple[int, ...]] = {
        f"{name}.input_layernorm.weight": (hidden,),
        f"{name}.post_attention_layernorm.weight": (hidden,),
        f"{name}.self_attn.o_proj.weight": (hidden, 4096),
        f"{name}.mlp.gate_proj.weight": (2 * hidden, hidden),
        f"{name}.mlp.up_proj.weight": (2 * hidden, hidden),
        f"{name}.mlp.down_proj.weight": (hidden, 2 * hidden),
    }
    if mla:
        shapes |= {
            f"{name}.self_attn.q_a_proj.weight": (1536, attention_input),
            f"{name}.self_attn.kv_a_proj_with_mqa.weight": (576, attention_input),
            f"{name}.self_attn.q_b_proj.weight": (6144, 1536),
            f"{name}.self_attn.kv_b_proj.weight": (8192, 512),
        }
    else:
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (4096, attention_input),
            f"{name}.self_attn.k_proj.weight": (1024, attention_input),
            f"{name}.self_attn.v_proj.weight": (1024, attention_input),
        }
    return {key: ("BF16", shape) for key, shape in shapes.items()}


def base_config(case: dict, target: dict) -> dict[str, object]:
    """What every drafter's config says."""
    hidden = target["hidden_size"]
    stated = case["drafter_config"]
    return {
        "hidden_size": hidden,
        "num_hidden_layers": stated.get("num_hidden_layers", 1),
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 2 * hidden,
        "vocab_size": stated.get("vocab_size", target["vocab_size"]),
        "max_position_embeddings": stated.get("max_position_embeddings", target.get("served_context", 131072)),
        "rms_norm_eps": 1e-6,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": stated.get("tie_word_embeddings", False),
    }


def write_eagle3(folder: Path, case: dict, target: dict, ids: list[int] | None) -> None:
    """An EAGLE-3 head: its config as SpecForge writes it, with these ids."""
    stated, hidden = case["drafter_config"], target["hidden_size"]
    mla = stated.get("attn_kind") == "MLA"
    name = "Eagle3DeepseekV2ForCausalLM" if mla else "LlamaForCausalLMEagle3"
    size = stated.get("draft_vocab_size", 32000)
    config = base_config(case, target) | {
        "architectures": stated.get("architectures", [name]),
        "model_type": "llama",
        "draft_vocab_size": size,
    }
    if mla:
        config |= {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    if stated.get("norm_before_fc"):
        config["norm_before_fc"] = True
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True}
    given = {name: ("BF16", tuple(shape)) for name, shape in case["drafter_tensors"].items()}
    tensors = {"fc.weight": ("BF16", (hidden, 3 * hidden)), "norm.weight": ("BF16", (hidden,))}
    layers = (
        ["midlayer"]
        if config["num_hidden_layers"] == 1
        else [f"layers.{i}" for i in range(config["num_hidden_layers"])]
    )
    for index, layer in enumerate(layers):
        tensors |= _layer(layer, hidden, attention_input=hidden if index else 2 * hidden, mla=mla)
        tensors[f"{layer}.hidden_norm.weight"] = ("BF16", (hidden,))
    if size is not None and not case["id"].startswith("c01"):
        tensors["lm_head.weight"] = ("BF16", (size, hidden))
    if size == 32000:
        tensors |= {"d2t": ("I64", (32000,)), "t2d": ("BOOL", (target["vocab_size"],))}
    for key in given:
        if key in {"d2t", "t2d"}:
            given[key] = (tensors[key][0], given[key][1])
    write_skeleton(str(folder), config, tensors | given)


def write_eagle(folder: Path, case: dict, target: dict) -> None:
    """An EAGLE head: one layer over embedding and final state."""
    hidden = target["hidden_size"]
    config = base_config(case, target) | {"architectures": ["LlamaForCausalLMEagle"], "model_type": "llama"}
    tensors = {
        "fc.weight": ("BF16", (hidden, 2 * hidden)),
        "embed_tokens.weight": ("BF16", (target["vocab_size"], hidden)),
    }
    layer = _layer("layers.0", hidden, attention_input=hidden)
    del layer["layers.0.input_layernorm.weight"]  # EAGLE heads have no norm on the input of their first layer
    write_skeleton(str(folder), config, tensors | layer)


def write_block(folder: Path, case: dict, target: dict, ids: list[int] | None, *, architecture: str, taps: int) -> None:
    """A DFLASH or DSPARK drafter."""
    hidden, dspark = target["hidden_size"], case["drafter_config"]["algorithm"] == "DSPARK"
    config = base_config(case, target) | {
        "architectures": [architecture],
        "model_type": "qwen3",
        "num_hidden_layers": DFLASH_LAYERS,
        "block_size": 7 if dspark else 16,
        "num_target_layers": target["num_layers"],
    }
    extra = {"mask_token_id": 7}
    config["dflash_config"] = extra if ids is None else {**extra, "target_layer_ids": ids}
    tensors = {
        "fc.weight": ("BF16", (hidden, taps * hidden)),
        "hidden_norm.weight": ("BF16", (hidden,)),
        "norm.weight": ("BF16", (hidden,)),
    }
    for index in range(DFLASH_LAYERS):
        tensors |= _layer(f"layers.{index}", hidden, attention_input=hidden)
    if dspark:
        config |= {"markov_rank": 64}
        tensors |= {
            "markov_head.markov_w1.weight": ("BF16", (target["vocab_size"], 64)),
            "markov_head.markov_w2.weight": ("BF16", (target["vocab_size"], 64)),
        }
    write_skeleton(str(folder), config, tensors)


def write_standalone(folder: Path, case: dict, target: dict) -> None:
    """A small language model of its own."""
    hidden, layers = 576, 30
    config = base_config(case, {**target, "hidden_size": hidden}) | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
    }
    tensors = {"model.embed_tokens.weight": ("BF16", (config["vocab_size"], hidden))}
    for index in range(layers):
        tensors |= _layer(f"model.layers.{index}", hidden, attention_input=hidden)
    write_skeleton(str(folder), config, tensors)


def write_speculators(folder: Path, case: dict, target: dict) -> None:
    """A DSPARK drafter as speculators exports it: dimensions nested, keys of its own."""
    stated, hidden = case["drafter_config"], target["hidden_size"]
    dimensions = base_config(case, target) | {"model_type": "qwen3", "num_hidden_layers": DFLASH_LAYERS}
    config = {
        "architectures": stated["architectures"],
        "speculators_model_type": "dspark",
        "speculators_version": "0.7.0",
        "transformer_layer_config": dimensions,
        "aux_hidden_state_layer_ids": stated["aux_ids"],
        "block_size": 7,
        "markov_rank": 64,
        "speculators_config": {"algorithm": "dspark", "verifier": {"architectures": [target["arch"]]}},
    }
    tensors = {
        "fc.weight": ("BF16", (hidden, len(stated["aux_ids"]) * hidden)),
        "hidden_norm.weight": ("BF16", (hidden,)),
        "markov_head.markov_w1.weight": ("BF16", (target["vocab_size"], 64)),
    }
    for index in range(DFLASH_LAYERS):
        tensors |= _layer(f"layers.{index}", hidden, attention_input=hidden)
    write_skeleton(str(folder), config, tensors)
