"""Drafters that are published, resolved and served: the shape of each target, its layout, what its config says."""

from __future__ import annotations

from typing import NamedTuple

WIDTH, WIDE, HEADS, KV_HEADS, HEAD, VOCABULARY = 64, 256, 4, 2, 16, 320
#: Releases that are launched with what `resolve` prints.
RELEASES = ("0.5.9", "0.5.23")
#: Ways to be told what a release needs.
PREFERENCES = ("flags", "render")
RECOMMENDED = ("--steps", "3", "--topk", "1", "--draft-tokens", "4")
COMMON = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": WIDE,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_bias": False,
    "mlp_bias": False,
}


class Case(NamedTuple):
    """A drafter.

    Attributes:
        shape: The target's.
        boundaries: What it was trained on, in concatenation order.
        ids: What its config says; None for no ids.
        speculators: Whether its config is in speculators' format.
    """

    shape: str
    boundaries: tuple[int, ...]
    ids: tuple[int, ...] | None = None
    speculators: bool = False


#: What is served: the targets have 8 decoder layers.
CASES = {
    "llama, ids as they must be": Case("llama", (1, 3, 5), (0, 2, 4)),
    "llama, ids of boundaries": Case("llama", (2, 4, 7), (2, 4, 7)),
    "llama, another order": Case("llama", (5, 1, 3), (4, 0, 2)),
    "llama, two layers": Case("llama", (3, 6), (3, 6)),
    "llama, speculators": Case("llama", (2, 4, 7), (2, 4, 7), speculators=True),
    "qwen3, the default": Case("qwen3", (2, 4, 5)),
    "qwen3, no ids": Case("qwen3", (1, 4, 6)),
    "qwen3_moe, another layout": Case("qwen3_moe", (2, 3, 7), (2, 3, 7)),
    "deepseek_v3, ids moved": Case("deepseek_v3", (3, 5, 7), (2, 4, 6)),
    "deepseek_v3, the first layer": Case("deepseek_v3", (1, 4, 6), (0, 3, 5)),
    "deepseek_v3, another order": Case("deepseek_v3", (7, 2, 4), (6, 1, 3)),
    "gpt_oss, another layout": Case("gpt_oss", (2, 4, 6), (2, 4, 6)),
    "gpt_oss, the last layer": Case("gpt_oss", (3, 5, 8), (3, 5, 8)),
}
#: What a release cannot be made to serve, by the code of the first finding.
REFUSED = {"0.5.9": {"llama, two layers": "FC_SIZE", "gpt_oss, the last layer": "CAPTURE_COUNT"}, "0.5.23": {}}
#: Of those, what the whole engine serves while it speculates: one of each shape, and what only a render can say.
WHOLE = (
    "llama, ids of boundaries",
    "llama, another order",
    "llama, speculators",
    "qwen3, no ids",
    "qwen3_moe, another layout",
    "deepseek_v3, ids moved",
    "gpt_oss, the last layer",
)


def config(case: Case) -> dict[str, object]:
    """A drafter's config.json."""
    if not case.speculators:
        own = {"architectures": ["LlamaForCausalLMEagle3"], **COMMON, "draft_vocab_size": VOCABULARY}
        if case.ids is not None:
            own["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(case.ids), "use_aux_hidden_state": True}
        return own
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": VOCABULARY,
        "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": list(case.ids or ()),
        "transformer_layer_config": COMMON,
        "torch_dtype": "float32",
        "tie_word_embeddings": False,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": "org/target", "architectures": ["LlamaForCausalLM"]},
        },
    }


def tensors(case: Case) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names, types and shapes of its weights."""
    layer = "layers.0" if case.speculators else "midlayer"
    shapes = {
        "fc": (WIDTH, len(case.boundaries) * WIDTH),
        f"{layer}.hidden_norm": (WIDTH,),
        f"{layer}.input_layernorm": (WIDTH,),
        f"{layer}.post_attention_layernorm": (WIDTH,),
        f"{layer}.self_attn.q_proj": (HEADS * HEAD, 2 * WIDTH),
        f"{layer}.self_attn.k_proj": (KV_HEADS * HEAD, 2 * WIDTH),
        f"{layer}.self_attn.v_proj": (KV_HEADS * HEAD, 2 * WIDTH),
        f"{layer}.self_attn.o_proj": (WIDTH, HEADS * HEAD),
        f"{layer}.mlp.gate_proj": (WIDE, WIDTH),
        f"{layer}.mlp.up_proj": (WIDE, WIDTH),
        f"{layer}.mlp.down_proj": (WIDTH, WIDE),
        "norm": (WIDTH,),
        "lm_head": (VOCABULARY, WIDTH),
    }
    if case.speculators:
        shapes["embed_tokens"] = (VOCABULARY, WIDTH)
    return {f"{name}.weight": ("F32", shape) for name, shape in shapes.items()}
