"""Every field of a manifest that a drafter's own files decide, with the place that says it.

One table for both sides: `build` fills a manifest from it, `audit` holds a manifest against it.
"""

from __future__ import annotations

from math import isfinite

import msgspec

from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import STANDALONE, DrafterFacts
from drafter_contracts.checkpoint.parts import (
    AUX_METHODS,
    CONCATENATION_NORM,
    DRAFT_VOCABULARY_KEYS,
    EMBEDDINGS,
    HEADS,
    MASK_TOKENS,
    chunk_norms,
)
from drafter_contracts.checkpoint.tensors import TensorIndex, described
from drafter_contracts.layout import NORM_CONCATENATION, NORM_NONE, NORM_PER_CHUNK

OWN, TARGET = "own", "target"
#: Dotted fields of a manifest that a drafter's files can decide. Of the target and of the boundaries they do where a
#: config states them outright; otherwise they are on word.
DERIVED_FIELDS = (
    "method",
    "target.layers",
    "target.hidden_size",
    "layout.boundaries",
    "layout.states",
    "layout.widths",
    "layout.norm",
    "layout.fc_input_width",
    "layout.known_by",
    "layout.stated.values",
    "draft.vocab_size",
    "draft.embeddings",
    "draft.lm_head",
    "draft.rope_theta",
    "draft.block_size",
    "draft.norm_output",
    "draft.norm_before_residual",
    "draft.architecture",
    "draft.hidden_size",
    "draft.layers",
    "draft.target_vocab_size",
    "draft.vocab_mapping",
    "draft.has_embedding",
    "draft.has_lm_head",
    "draft.context_length",
    "draft.rope_scaling",
    "draft.weights_dtype",
    "draft.quantization",
    "draft.attention",
    "draft.mask_token_id",
)
_QUANTIZATIONS = ("quantization_config", "compression_config", "quantization")
_WIDTHS = (
    "norm.weight",
    "midlayer.post_attention_layernorm.weight",
    "layers.0.post_attention_layernorm.weight",
    "midlayer.0.post_attention_layernorm.weight",
    "fc.weight",
)
_NORM_FLAGS = ("norm_before_fc", "eagle_config.norm_before_fc", "fc_norm", "eagle_config.fc_norm", "use_aux_norm")
#: Torch's words for safetensors' dtypes.
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "half": "F16", "float": "F32"}


class Derived(msgspec.Struct, frozen=True):
    """A fact with its place: "config.json: hidden_size" or "tensors: fc.weight [4096, 12288]"."""

    value: object
    place: str


def plain_dtype(name: str) -> str:
    """A dtype in safetensors' word, however it is spelled: "bfloat16", "torch.bfloat16" and "BF16" are "BF16"."""
    bare = name.removeprefix("torch.")
    return _DTYPES.get(bare, bare)


def derive_draft(facts: DrafterFacts) -> dict[str, Derived]:
    """The fields of `DraftRecord` that the files decide, by name; one that they leave open is absent."""
    view, index = ConfigView(facts.config), TensorIndex(facts.tensors)
    found = {
        **_shape(facts, view, index),
        **_vocabulary(facts, view, index),
        **_ownership(facts, view, index),
        **_running(facts, view, index),
    }
    return {name: fact for name, fact in found.items() if fact.value is not None and fact.value != ""}


def derive_norm(facts: DrafterFacts) -> Derived | None:
    """The norm between the taps and `fc`; None where there are no tensors and the config does not say."""
    if facts.method not in AUX_METHODS:
        return None
    norm = NORM_CONCATENATION if facts.norm_before_fc else NORM_PER_CHUNK if facts.fc_norm else NORM_NONE
    view, index = ConfigView(facts.config), TensorIndex(facts.tensors)
    if not facts.tensors:
        place = _config(view, *_NORM_FLAGS)
        return Derived(norm, place) if place else None
    chunks = chunk_norms(index)
    seen = index.get(CONCATENATION_NORM) or (chunks[0] if chunks else None)
    return Derived(norm, f"tensors: {described(seen)}" if seen is not None else "tensors: no norm before fc")


def fc_place(facts: DrafterFacts) -> str:
    """The fusion layer for messages: "tensors: fc.weight [4096, 12288]"."""
    return f"tensors: {facts.fc.name} [{facts.fc.out_width}, {facts.fc.in_width}]" if facts.fc is not None else ""


def fc_input_width(facts: DrafterFacts) -> int | None:
    """Columns of `fc` where it reads aux hidden states; None where there is none to look at."""
    return facts.fc.in_width if facts.fc is not None and facts.method in AUX_METHODS else None


def stated_depth(facts: DrafterFacts) -> int | None:
    """The target's decoder layers as the drafter's config states them, or None."""
    text = facts.target.get("layers", "")
    return count(int(text)) if text.isdecimal() else None


def count(value: int | None) -> int | None:
    """A number of 1 or more; None for anything else, such as a template's 0."""
    return value if value is not None and value >= 1 else None


def _config(view: ConfigView, *keys: str) -> str:
    """Place of the first of the keys that is there, "" if none is."""
    key = view.find(*keys)[1]
    return f"config.json: {key}" if key else ""


def _tensor(index: TensorIndex, *names: str) -> str:
    found = index.get(*names)
    return f"tensors: {described(found)}" if found is not None else ""


def _shape(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> dict[str, Derived]:
    by_names = f"tensors: {', '.join(facts.layer_prefixes)}"
    layers = facts.real_layers
    if layers is None and not facts.tensors:
        layers, by_names = facts.config_layers, "config.json: num_hidden_layers"
    width = _tensor(index, *_WIDTHS) if index.hidden_size() is not None else _config(view, "hidden_size")
    architecture = facts.architectures[0] if facts.architectures else ""
    return {
        "architecture": Derived(architecture, _config(view, "architectures")),
        "hidden_size": Derived(count(facts.hidden_size), width),
        "layers": Derived(count(layers), by_names),
    }


def _vocabulary(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> dict[str, Derived]:
    words = facts.vocabulary
    own = _tensor(index, *HEADS) if index.matrix(*HEADS) is not None else _tensor(index, "d2t")
    size = Derived(count(words.size), own or _config(view, *DRAFT_VOCABULARY_KEYS, "vocab_size"))
    target = Derived(count(words.target_size), _config(view, "vocab_size"))
    if words.d2t is not None:
        mapping = Derived(words.encoding, _tensor(index, "d2t"))
    elif size.value is not None and size.value == target.value:
        mapping = Derived("none", f"{size.place}; {target.place}" if size.place != target.place else target.place)
    else:
        mapping = Derived("", "")
    return {"vocab_size": size, "target_vocab_size": target, "vocab_mapping": mapping}


def _ownership(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> dict[str, Derived]:
    """What is there, and whose it is where that follows: a full head of its own may be a copy of the target's."""
    head, embedding = facts.has_lm_head, facts.has_embedding
    head_place = _tensor(index, *HEADS) or "tensors: no lm_head"
    embedding_place = _tensor(index, *EMBEDDINGS) or "tensors: no embed_tokens"
    whole = facts.method == STANDALONE
    tied = bool(embedding) and bool(facts.tie_word_embeddings)
    whose_head = whose_embedding = ""
    if head is True and (whole or facts.vocabulary.reduced):
        whose_head = OWN
    elif head is False and tied and whole:
        whose_head, head_place = OWN, _config(view, "tie_word_embeddings")
    elif head is False and not (tied or whole or facts.vocabulary.reduced):
        whose_head = TARGET
    narrower = count(facts.target_hidden_size) not in (None, facts.hidden_size)
    if embedding is True and (whole or narrower):
        whose_embedding = OWN
    elif embedding is False and not whole:
        whose_embedding = TARGET
    return {
        "has_lm_head": Derived(head, _tensor(index, *HEADS) or "tensors: no lm_head"),
        "has_embedding": Derived(embedding, embedding_place),
        "lm_head": Derived(whose_head, head_place),
        "embeddings": Derived(whose_embedding, embedding_place),
    }


def _running(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> dict[str, Derived]:
    theta = ("rope_theta", "rope_parameters.rope_theta", "rope_parameters.full_attention.rope_theta")
    by_tensors = index.input_projection()
    kind = f"tensors: {described(by_tensors)}" if by_tensors is not None else _config(view, "kv_lora_rank")
    flags = {name: (name, f"eagle_config.{name}") for name in ("norm_output", "norm_before_residual")}
    base = facts.rope_theta if facts.rope_theta is not None and isfinite(facts.rope_theta) else None
    blocks = ("block_size", "dflash_config.block_size", "dspark_block_size")
    contexts = ("max_position_embeddings", "max_sequence_length")
    dtype_place = "tensors: most weights" if facts.tensors else _config(view, "dtype", "torch_dtype")
    return {
        "context_length": Derived(count(facts.max_position_embeddings), _config(view, *contexts)),
        "rope_theta": Derived(base, _config(view, *theta)),
        "rope_scaling": Derived(facts.rope_scaling or None, _config(view, "rope_scaling", "rope_parameters")),
        "weights_dtype": Derived(plain_dtype(facts.dtype), dtype_place),
        "quantization": Derived(facts.quantization, _config(view, *_QUANTIZATIONS) or "hf_quant_config.json"),
        "attention": Derived(facts.attention, kind or "config.json: no kv_lora_rank"),
        "mask_token_id": Derived(facts.mask_token_id, _config(view, *MASK_TOKENS)),
        "block_size": Derived(count(facts.block_size), _config(view, *blocks)),
        **{name: Derived(view.flag(*keys), _config(view, *keys)) for name, keys in flags.items()},
    }
