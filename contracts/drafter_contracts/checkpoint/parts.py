"""Single facts of a drafter, each from its tensors where they speak and from config.json otherwise."""

from __future__ import annotations

from math import prod

from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import (
    DFLASH,
    DFLASH2,
    DSPARK,
    EAGLE3,
    NEXTN,
    P_EAGLE,
    DraftVocabulary,
    FcFacts,
    TensorFact,
)
from drafter_contracts.checkpoint.tensors import TensorIndex
from drafter_contracts.layout import NORM_CONCATENATION, NORM_NONE, NORM_PER_CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Methods whose `fc` reads aux hidden states.
AUX_METHODS = (EAGLE3, P_EAGLE, DFLASH, DFLASH2, DSPARK)
DRAFT_VOCABULARY_KEYS = ("draft_vocab_size", "truncated_vocab_size")
CONCATENATION_NORM = "input_norm.weight"
#: Norms of single chunks: speculators' and SGLang's name, its forerunner's, Laguna's.
CHUNK_NORMS = ("fc_norm.", "aux_norm_", "aux_hidden_norms.")
#: Where parallel drafters name the token that stands for a drafted position.
MASK_TOKENS = (
    "mask_token_id",
    "dflash_config.mask_token_id",
    "dspark_noise_token_id",
    "pard_token",
    "ptd_token_id",
)
HEADS = ("lm_head.weight", "shared_head.head.weight")
EMBEDDINGS = ("embed_tokens.weight", "embedding.weight")
_FLOATS = ("BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2")
_TORCH_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "half": "F16", "float": "F32"}


def target_depth(view: ConfigView, largest_id: int | None) -> tuple[int | None, str]:
    """Decoder layers of the target as the config states them, and the key; (None, "") if it does not.

    `num_target_layers` is the depth for z-lab, SpecForge, ModelOpt and DeepSpec but the number of taps for
    TorchSpec and Kimi-K3's DSPARK head: a depth exceeds every id.
    """
    depth = view.integer("target_num_hidden_layers")
    if depth is not None:
        return depth, "target_num_hidden_layers"
    if view.has("dspark_target_layer_ids"):
        return view.integer("num_hidden_layers"), "num_hidden_layers"
    for key in ("num_target_layers", "dflash_config.num_target_layers"):
        depth = view.integer(key)
        if depth is not None and (largest_id is None or depth > largest_id):
            return depth, key
    return None, ""


def fusion(view: ConfigView, index: TensorIndex, method: str, target_hidden_size: int | None) -> FcFacts | None:
    """The fusion layer, or None if no such tensor is there.

    Args:
        view: config.json.
        index: The tensors.
        method: One of `facts.METHODS`.
        target_hidden_size: Width of the target, if the caller knows it and the config does not say.
    """
    fc = index.matrix("fc.weight", "mtp.0.main_proj.weight")
    if fc is None:
        return None
    rows, columns = fc.shape
    bias = index.get("fc.bias") is not None
    if method not in AUX_METHODS:
        return FcFacts(fc.name, rows, columns, bias)
    width = view.integer("target_hidden_size") or target_hidden_size or view.integer("hidden_size") or rows
    taps = columns // width if width and columns % width == 0 else None
    return FcFacts(fc.name, rows, columns, bias, width, taps)


def norm_before_fc(view: ConfigView, index: TensorIndex) -> str:
    """One of `layout.NORMS`: by tensors if there are any, else by config."""
    if index.by_name:
        if index.get(CONCATENATION_NORM) is not None:
            return NORM_CONCATENATION
        return NORM_PER_CHUNK if chunk_norms(index) else NORM_NONE
    if view.flag("norm_before_fc", "eagle_config.norm_before_fc"):
        return NORM_CONCATENATION
    return NORM_PER_CHUNK if view.flag("fc_norm", "eagle_config.fc_norm", "use_aux_norm") else NORM_NONE


def chunk_norms(index: TensorIndex) -> list[TensorFact]:
    """The norms of single chunks."""
    return [index.by_name[name] for name in sorted(index.by_name) if name.startswith(CHUNK_NORMS)]


def vocabulary(view: ConfigView, index: TensorIndex) -> DraftVocabulary:
    """The draft vocabulary: rows of the head, else length of d2t, else what config.json says."""
    head, d2t, t2d = index.matrix(*HEADS), index.get("d2t"), index.get("t2d")
    stated, key = view.find(*DRAFT_VOCABULARY_KEYS)
    target = view.integer("vocab_size")
    if head is not None:
        size: int | None = head.shape[0]
    elif d2t is not None and d2t.shape:
        size = d2t.shape[0]
    else:
        size = view.integer(*DRAFT_VOCABULARY_KEYS) if stated is not None else target
    return DraftVocabulary(
        size=size,
        target_size=target,
        reduced=size is not None and target is not None and size < target,
        d2t=d2t.shape[0] if d2t is not None and d2t.shape else None,
        t2d=t2d.shape[0] if t2d is not None and t2d.shape else None,
        encoding="offset" if d2t is not None else "",
        config_key=key,
    )


def layers(view: ConfigView, index: TensorIndex, method: str) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Draft layers by tensor names, layers by config, and how the tensors name them."""
    found = index.layers()
    if method == NEXTN:
        keys = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
        stated = view.integer(*keys, "mtp_config.num_nextn_predict_layers") or view.integer("num_hidden_layers")
        heads = [name for name in index.by_name if "eh_proj." in name]
        found = {head: numbers for head, numbers in found.items() if head.startswith("mtp")}
        real = len(heads) or sum(len(numbers) for numbers in found.values()) or None
        return real, stated, tuple(f"{head}.N" for head in sorted(found)) or tuple(sorted({_prefix(n) for n in heads}))
    stated = None if view.has("dspark_target_layer_ids") else view.integer("num_hidden_layers", "num_draft_layers")
    real = sum(len(numbers) for numbers in found.values()) or None
    return real, stated, tuple(sorted(head if head == "midlayer" else f"{head}.N" for head in found))


def _prefix(name: str) -> str:
    head, _, rest = name.partition(".")
    return f"{head}.N" if rest[:1].isdecimal() else head


def rope(view: ConfigView) -> tuple[float | None, dict[str, object] | None]:
    """RoPE base and scaling, from either generation of Transformers' keys."""
    theta = view.number("rope_theta", "rope_parameters.rope_theta", "rope_parameters.full_attention.rope_theta")
    scaling = view.mapping("rope_scaling")
    if scaling is None:
        parameters = view.mapping("rope_parameters")
        plain = parameters is None or parameters.get("rope_type", "default") == "default"
        scaling = None if plain else parameters
    return theta, scaling


def dtype(view: ConfigView, tensors: Iterable[TensorFact]) -> str:
    """The dtype of most weights in safetensors' word, else the config's."""
    elements: dict[str, int] = {}
    for tensor in tensors:
        if tensor.dtype in _FLOATS:
            elements[tensor.dtype] = elements.get(tensor.dtype, 0) + prod(tensor.shape)
    if elements:
        return max(elements, key=lambda name: elements[name])
    stated = view.text("dtype", "torch_dtype").removeprefix("torch.")
    return _TORCH_DTYPES.get(stated, stated)


def attention(view: ConfigView, index: TensorIndex) -> str:
    """Kind of attention: "mla" or "mha"."""
    if index.input_projection() is not None:
        return "mla" if index.with_part("kv_a_proj_with_mqa", "fused_qkv_a_proj") is not None else "mha"
    return "mla" if isinstance(view.find("kv_lora_rank")[0], int) else "mha"


def quantization(view: ConfigView) -> str:
    """Method of the quantisation config, or ""."""
    stated = view.mapping("quantization_config", "compression_config", "quantization") or {}
    for key in ("quant_method", "quant_algo", "format"):
        if isinstance(stated.get(key), str):
            return str(stated[key])
    return "unknown" if stated and "quant_algo" not in stated else ""


def target(view: ConfigView, depth: int | None) -> dict[str, str]:
    """What the config says of its target; parts that it does not say are absent."""
    verifier = view.mapping("speculators_config.verifier") or {}
    architectures = verifier.get("architectures")
    parts = {
        "name": verifier.get("name_or_path") or view.text("target_model_name_or_path", "base_model_name_or_path"),
        "architectures": ", ".join(map(str, architectures)) if isinstance(architectures, list) else "",
        "model_type": view.text("target_model_type", "target_text_model_type"),
        "layers": depth or "",
        "hidden_size": view.integer("target_hidden_size") or "",
    }
    return {key: str(value) for key, value in parts.items() if value}
