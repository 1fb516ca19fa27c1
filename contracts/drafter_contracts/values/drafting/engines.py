"""Where an engine computes something else than the checkpoint says: it would not serve what `evaluate` finds."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import EAGLE3, DrafterFacts
from drafter_contracts.values.drafting.weights import Weights

#: Endings of tensors for which SGLang 0.5.23's class (models/llama_eagle3.py) has no parameter. It leaves such tensors
#: out without a word; its first projections never have a bias.
_NOT_LOADED = (
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "self_attn.q_proj.bias",
    "self_attn.k_proj.bias",
    "self_attn.v_proj.bias",
    "mlp.gate_proj.bias",
    "mlp.up_proj.bias",
    "mlp.down_proj.bias",
)


def dropped_by_sglang(facts: DrafterFacts, weights: Weights) -> list[str]:
    """A note on the tensors that SGLang 0.5.23 would not load; none if it loads all.

    Args:
        facts: The drafter's.
        weights: Its tensors, by their one name.
    """
    if facts.method != EAGLE3:
        return []
    dropped = [name for ending in _NOT_LOADED for name in weights.ending(ending)]
    if "fc.bias" in weights and not facts.config.get("bias"):
        dropped.append("fc.bias")
    if not (facts.config.get("bias") or facts.config.get("attention_bias")):
        dropped += weights.ending("self_attn.o_proj.bias")
    # Its layers after the first read hidden_norm.
    dropped += [name for name in weights.ending(".input_layernorm.weight") if not name.startswith("layers.0.")]
    if not dropped:
        return []
    return [f"computed here, and not loaded by SGLang 0.5.23 (models/llama_eagle3.py): {', '.join(sorted(dropped))}"]
