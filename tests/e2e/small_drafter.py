"""A small EAGLE-3 drafter's config and tensors, and its target's config."""

from __future__ import annotations

WIDTH, VOCABULARY = 64, 256
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
TENSORS = {
    "fc.weight": ("BF16", (WIDTH, 3 * WIDTH)),
    "midlayer.hidden_norm.weight": ("BF16", (WIDTH,)),
    "midlayer.input_layernorm.weight": ("BF16", (WIDTH,)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.k_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.v_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.o_proj.weight": ("BF16", (WIDTH, 64)),
    "midlayer.post_attention_layernorm.weight": ("BF16", (WIDTH,)),
    "norm.weight": ("BF16", (WIDTH,)),
    "lm_head.weight": ("BF16", (VOCABULARY, WIDTH)),
}
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": 61,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}
