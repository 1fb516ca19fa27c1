"""The incident's drafter and targets, made from their shapes: real headers and configs, no weights.

Used by the demo, the benchmarks and the end-to-end tests.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts.checkpoint.skeleton import write_skeleton

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Kimi-K2.5: decoder layers, width of the residual stream, vocabulary.
LAYERS, WIDTH, VOCABULARY = 61, 7168, 163840
#: The layout that the drafter was trained on, as output ids.
TRAINED_OUTPUT_IDS = (2, 30, 58)
HEADS, KV_HEADS, HEAD_WIDTH, MLP_WIDTH = 64, 8, 128, 18432

KIMI = "KimiK25ForConditionalGeneration"
DEEPSEEK = "DeepseekV3ForCausalLM"

#: The incident's options, but for the two paths.
EVERY_OPTION = (
    "--trust-remote-code",
    "--tp",
    "8",
    "--speculative-algorithm",
    "EAGLE3",
    "--speculative-num-steps",
    "3",
    "--speculative-eagle-topk",
    "1",
    "--speculative-num-draft-tokens",
    "4",
)


def drafter_config(ids: Sequence[int] | None) -> dict[str, object]:
    """config.json of the drafter with these capture ids (None: with none), as SpecForge writes it."""
    config: dict[str, object] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": MLP_WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": VOCABULARY,
        "max_position_embeddings": 262144,
        "rope_theta": 50000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(ids), "use_aux_hidden_state": True}
    return config


def drafter_tensors() -> dict[str, tuple[str, Sequence[int]]]:
    """Names and shapes of the drafter's tensors: a Llama layer over the embedding and one `fc` output."""
    shapes: dict[str, Sequence[int]] = {
        "fc.weight": (WIDTH, 3 * WIDTH),
        "midlayer.hidden_norm.weight": (WIDTH,),
        "midlayer.input_layernorm.weight": (WIDTH,),
        "midlayer.self_attn.q_proj.weight": (HEADS * HEAD_WIDTH, 2 * WIDTH),
        "midlayer.self_attn.k_proj.weight": (KV_HEADS * HEAD_WIDTH, 2 * WIDTH),
        "midlayer.self_attn.v_proj.weight": (KV_HEADS * HEAD_WIDTH, 2 * WIDTH),
        "midlayer.self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_WIDTH),
        "midlayer.post_attention_layernorm.weight": (WIDTH,),
        "midlayer.mlp.gate_proj.weight": (MLP_WIDTH, WIDTH),
        "midlayer.mlp.up_proj.weight": (MLP_WIDTH, WIDTH),
        "midlayer.mlp.down_proj.weight": (WIDTH, MLP_WIDTH),
        "norm.weight": (WIDTH,),
        "lm_head.weight": (VOCABULARY, WIDTH),
    }
    return {name: ("BF16", shape) for name, shape in shapes.items()}


def write_drafter(directory: str, *, ids: Sequence[int] | None) -> str:
    """Write the drafter with these capture ids in its config; returns the directory."""
    write_skeleton(directory, drafter_config(ids), drafter_tensors())
    return directory


def write_small_drafter(directory: str, *, ids: Sequence[int]) -> str:
    """Write the drafter with the same `fc` but a narrow layer and a draft vocabulary: half a gigabyte to send."""
    heads, narrow, drafted = 8, 2048, 8192
    config = drafter_config(ids) | {
        "intermediate_size": narrow,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "draft_vocab_size": drafted,
    }
    swap = {HEADS * HEAD_WIDTH: heads * HEAD_WIDTH, MLP_WIDTH: narrow, VOCABULARY: drafted}
    tensors: dict[str, tuple[str, Sequence[int]]] = {
        name: (dtype, [swap.get(size, size) for size in shape]) for name, (dtype, shape) in drafter_tensors().items()
    }
    tensors |= {"d2t": ("I64", (drafted,)), "t2d": ("BOOL", (VOCABULARY,))}
    write_skeleton(directory, config, tensors)
    return directory


def target_config(architecture: str = KIMI) -> dict[str, object]:
    """config.json of the target: Kimi-K2.5, or its language model alone (a DeepSeek-V3 class of the same numbers)."""
    text: dict[str, object] = {
        "architectures": [DEEPSEEK],
        "model_type": "kimi_k2" if architecture == KIMI else "deepseek_v3",
        "hidden_size": WIDTH,
        "intermediate_size": MLP_WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 384,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 262144,
        "rope_theta": 50000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    if architecture != KIMI:
        return text | {"architectures": [architecture]}
    return {"architectures": [KIMI], "model_type": "kimi_k25", "torch_dtype": "bfloat16", "text_config": text}


def write_target(directory: str, architecture: str = KIMI) -> str:
    """Write the target's config.json; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(target_config(architecture)), indent=2)
    with open(os.path.join(directory, "config.json"), "wb") as file:
        file.write(data + b"\n")
    return directory
