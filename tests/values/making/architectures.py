"""Tiny random targets of many classes, built by transformers in milliseconds."""

from __future__ import annotations

import torch
import transformers

LAYERS = 4
COMMON = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LATENT = {
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_shared_experts": 1,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
#: Class prefix to what its config says beside `COMMON`.
SHAPES = {
    "Llama": {},
    "Mistral": {},
    "Qwen2": {},
    "Qwen3": {},
    "Qwen3Moe": EXPERTS,
    "Mixtral": {"num_local_experts": LAYERS, "num_experts_per_tok": 2},
    "GptOss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "rope_parameters": None},
    "DeepseekV3": LATENT,
    "Gemma3Text": {"sliding_window": 8},
    "Cohere": {},
    "OPT": {"ffn_dim": 48},
    "GPT2": {"n_layer": LAYERS, "n_embd": 32, "n_head": 4, "n_positions": 128},
}


def config(shape: str, **own):
    """Config of a class."""
    return getattr(transformers, f"{shape}Config")(**{**COMMON, **SHAPES.get(shape, {}), **own})


def build(folder: str, shape: str, **own) -> transformers.PreTrainedModel:
    """A random target, saved into a folder; norms differ from one."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config(shape, **own)).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model
