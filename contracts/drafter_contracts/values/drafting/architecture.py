"""What a drafter computes, told by its config and tensor shapes; anything else is refused by its name.

No weight is read here.
"""

from __future__ import annotations

from dataclasses import dataclass

from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import DFLASH, EAGLE3, DrafterFacts
from drafter_contracts.checkpoint.facts_from import require_consistent
from drafter_contracts.errors import CheckpointError, ContradictionError, UnsupportedDrafterError
from drafter_contracts.layout import NORM_CONCATENATION, NORM_NONE, NORM_PER_CHUNK
from drafter_contracts.manifest_records import DraftRecord
from drafter_contracts.values.drafting.flags import norm_before_residual, norm_output, theta
from drafter_contracts.values.drafting.layers import ACTIVATIONS
from drafter_contracts.values.drafting.rope import Rope

#: What transformers' Llama config falls back to.
_DEFAULT_EPSILON = 1e-6
#: Model types whose decoder layer is Llama's: same norms, half-split RoPE, no sinks, no scaled embeddings.
_LLAMA_SHAPED = ("", "llama", "llama4_text", "mistral", "qwen2", "qwen3", "eagle3", "speculator_model")
#: Config keys of other decoder layers: key to the values under which they change nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "partial_rotary_factor": (1, 1.0),
    "rope_parameters.partial_rotary_factor": (1, 1.0),
    "rope_scaling.partial_rotary_factor": (1, 1.0),
    "rope_is_neox_style": (True,),
    "rope_interleave": (False,),
    "attn_logit_softcapping": (0, 0.0),
    "final_logit_softcapping": (0, 0.0),
    "attention_multiplier": (),
    "query_pre_attn_scalar": (),
    "residual_multiplier": (1, 1.0),
    "embedding_multiplier": (1, 1.0),
    "logits_scaling": (1, 1.0),
    "logit_scale": (1, 1.0),
    "attention_chunk_size": (),
    "num_experts": (0,),
    "num_local_experts": (0,),
    "parallel_drafting": (False,),
    "is_causal": (False,),
    "sample_from_anchor": (False,),
    "use_gemma_norm": (False,),
    **{
        f"dflash_config.{key}": neutral
        for key, neutral in {
            "output_multiplier": (1, 1.0),
            "final_logit_softcapping": (0, 0.0),
            "input_embedding_scale": (1, 1.0),
            "attention_value_scale": (1, 1.0),
            "attention_sink_bias": (False,),
            "conv_kernel_size": (0,),
            "selector_rank": (0,),
            "is_causal": (False,),
            "sample_from_anchor": (False,),
            "projector_type": ("dflash",),
        }.items()
    },
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A drafter's shape and switches. Sizes are numbers of elements.

    Attributes:
        method: "EAGLE3" or "DFLASH".
        hidden_size: H_d.
        target_hidden_size: H_t.
        taps: k.
        layers: Decoder layers, by tensor names.
        heads: Query heads.
        key_heads: Key and value heads.
        head_width: Of one head.
        activation: Of the MLP.
        epsilon: Of every RMSNorm.
        rope: Positions.
        norm: Norm before `fc`: one of `layout.NORMS`.
        norm_before_residual: The first layer's residual starts from the normed state.
        norm_output: The state passed to the next step is the normed one.
        notes: What was assumed, and where an engine does otherwise.
    """

    method: str
    hidden_size: int
    target_hidden_size: int
    taps: int
    layers: int
    heads: int
    key_heads: int
    head_width: int
    activation: str
    epsilon: float
    rope: Rope
    norm: str = NORM_NONE
    norm_before_residual: bool = False
    norm_output: bool = False
    notes: tuple[str, ...] = ()


def read_architecture(facts: DrafterFacts, target_hidden_size: int, stated: DraftRecord | None) -> Architecture:
    """What to compute.

    Args:
        facts: The drafter's config and headers, read with the same `target_hidden_size`.
        target_hidden_size: H_t.
        stated: What a manifest says of the drafter, or None.

    Raises:
        UnsupportedDrafterError: Another method, attention or decoder layer; every reason is named.
        ContradictionError: Two statements about what is computed.
        CheckpointError: No weights, or sizes that are not stated.
    """
    _require_method(facts)
    require_consistent(facts)
    view, notes = ConfigView(facts.config), list(facts.notes)
    rope = Rope(theta(facts, stated, notes), facts.rope_scaling)
    _require_llama_shape(facts, view, rope)
    hidden = facts.hidden_size
    heads = view.integer("num_attention_heads")
    if not hidden or not heads:
        raise CheckpointError(
            "sizes are missing",
            where=f"{facts.path}/config.json",
            expected="hidden_size and num_attention_heads",
            actual=f"{hidden} and {heads}",
        )
    if facts.beside:
        notes.append(f"not read, and engines read them too: {', '.join(facts.beside)}")
    epsilon = view.number("rms_norm_eps")
    if epsilon is None:
        notes.append(f"rms_norm_eps is not stated: {_DEFAULT_EPSILON:g}, Llama's default, is used")
    unrolled = facts.method == EAGLE3
    return Architecture(
        method=facts.method,
        hidden_size=hidden,
        target_hidden_size=target_hidden_size,
        taps=_taps(facts, hidden, target_hidden_size, notes),
        layers=facts.real_layers or 0,
        heads=heads,
        key_heads=view.integer("num_key_value_heads") or heads,
        head_width=view.integer("head_dim") or hidden // heads,
        activation=view.text("hidden_act", "hidden_activation") or "silu",
        epsilon=_DEFAULT_EPSILON if epsilon is None else epsilon,
        rope=rope,
        norm=NORM_CONCATENATION if facts.norm_before_fc else NORM_PER_CHUNK if facts.fc_norm else NORM_NONE,
        norm_before_residual=unrolled and norm_before_residual(facts, stated, notes),
        norm_output=unrolled and norm_output(facts, stated, notes),
        notes=tuple(notes),
    )


def _require_method(facts: DrafterFacts) -> None:
    if facts.weights == "none" or not facts.tensors:
        raise CheckpointError("no weights to compute with", where=facts.path, expected="*.safetensors", actual="none")
    if facts.method not in (EAGLE3, DFLASH):
        raise UnsupportedDrafterError(
            f"the reference forward computes {EAGLE3} and {DFLASH} drafters and no {facts.method}; "
            "the acceptance that an engine measures would settle it",
            where=facts.path,
            expected=f"{EAGLE3} or {DFLASH}",
            actual=f"{facts.method} ({'; '.join(facts.method_evidence)})",
        )


def _require_llama_shape(facts: DrafterFacts, view: ConfigView, rope: Rope) -> None:
    """Refuse every decoder layer but Llama's, naming all reasons at once."""
    found = rope.problems()
    if facts.attention != "mha":
        found.append(f"attention {facts.attention.upper()}")
    if facts.quantization:
        found.append(f"weights quantised by {facts.quantization}")
    kind = view.text("transformer_layer_config.model_type") or view.text("model_type")
    if kind.lower() not in _LLAMA_SHAPED:
        found.append(f"a decoder layer of model_type {kind!r}")
    for key, neutral in _NEUTRAL.items():
        value, place = view.find(key)
        if place and value not in neutral:
            found.append(f"{place} = {value!r}")
    activation = view.text("hidden_act", "hidden_activation") or "silu"
    if activation not in ACTIVATIONS:
        found.append(f"the activation {activation!r}")
    window, place = view.find("sliding_window")
    if place and view.flag("use_sliding_window") is not False:
        found.append(f"a sliding window ({place} = {window!r})")
    kinds = view.find("layer_types")[0]
    if isinstance(kinds, list) and set(map(str, kinds)) - {"full_attention"}:
        found.append(f"layers of the kinds {', '.join(sorted(set(map(str, kinds))))}")
    if facts.method == DFLASH:
        found += [
            f"a {DFLASH} drafter whose {what} is not stated"
            for what, value in (("block_size", facts.block_size), ("mask_token_id", facts.mask_token_id))
            if value is None
        ]
    if found:
        raise UnsupportedDrafterError(
            f"the reference forward does not compute {'; '.join(found)}",
            where=facts.path,
            expected=f"a Llama-shaped {facts.method} drafter",
            actual=", ".join(facts.architectures),
        )


def _taps(facts: DrafterFacts, hidden: int, target: int, notes: list[str]) -> int:
    """k, by the columns of `fc`; 1 where there is no `fc` and the state goes in as it is."""
    stated = facts.target_hidden_size
    if stated and stated != target:
        raise ContradictionError(
            "the drafter was made for a target of another width",
            where=f"{facts.path}/config.json target_hidden_size",
            expected=str(target),
            actual=str(stated),
        )
    if facts.fc is None:
        if hidden != target:
            raise CheckpointError(
                "no fc, and the target's state does not fit the drafter",
                where=facts.path,
                expected=f"fc.weight [{hidden}, taps * {target}]",
                actual="none",
            )
        notes.append("no fc among the tensors: the one tapped state goes in as it is")
        return 1
    taps, rest = divmod(facts.fc.in_width, target)
    if rest or not taps:
        raise ContradictionError(
            "fc reads no whole number of the target's states",
            where=f"{facts.path}: {facts.fc.name}",
            expected=f"a multiple of {target} columns",
            actual=str(facts.fc.in_width),
        )
    if facts.fc.in_width == hidden and facts.method == EAGLE3:
        notes.append(
            "fc is applied to its one tap, as it was trained; SGLang 0.5.23 (models/llama_eagle3.py) skips fc, and the "
            "norm before it, where the state is as wide as the drafter"
        )
    return taps
