"""Which tensors a drafter has, under one name each, and in which shapes.

A tensor that is not listed here could change the result, so it is refused by its name and never left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drafter_contracts.checkpoint.facts import DFLASH, DrafterFacts, TensorFact
from drafter_contracts.checkpoint.tensors import described
from drafter_contracts.errors import CheckpointError, UnsupportedDrafterError
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK
from drafter_contracts.rendering.tensor_names import canonical
from drafter_contracts.values.drafting.architecture import Architecture

EMBEDDING, HEAD, FC, CONTEXT_NORM = "embed_tokens.weight", "lm_head.weight", "fc.weight", "hidden_norm.weight"
DRAFT_TO_TARGET, TARGET_TO_DRAFT = "d2t", "t2d"
#: Beside the forward: the maps, RoPE's own table, and the verifier's parts that speculators keeps for its loss.
_BESIDE = ("d2t", "t2d", "verifier_norm.weight", "verifier_lm_head.weight")
ROPE_TABLE = "rotary_emb.inv_freq"
_FLOATS = ("BF16", "F16", "F32", "F64")
_NUMBERED_MIDLAYER = re.compile(r"^layers\.0\.(\d+)\.")


@dataclass(frozen=True)
class Wanted:
    """One tensor that the forward reads.

    Attributes:
        shape: As it must be; None for a size that the tensors agree on among themselves.
        required: Its absence is an error.
    """

    shape: tuple[int | None, ...]
    required: bool = True


def one_name(name: str) -> str:
    """A tensor's name, whatever its producer's prefix: `layers.N.*` for layers, `fc_norm.N` for norms of chunks."""
    plain = canonical(name)
    plain = _NUMBERED_MIDLAYER.sub(r"layers.\1.", plain)  # TensorRT-LLM: midlayer.N
    return EMBEDDING if plain == "embedding.weight" else plain


def tensors_by_name(facts: DrafterFacts, architecture: Architecture) -> dict[str, TensorFact]:
    """The tensors that the forward reads, by their one name.

    Args:
        facts: The drafter's headers.
        architecture: What is computed.

    Raises:
        UnsupportedDrafterError: Tensors that the forward does not know; all are named.
        CheckpointError: Tensors that are missing, of another shape or dtype, or there twice.
    """
    found: dict[str, TensorFact] = {}
    twice = []
    for tensor in facts.tensors:
        name = one_name(tensor.name)
        if name in found:
            twice.append(f"{found[name].name} and {tensor.name} are one tensor")
        found[name] = tensor
    wanted = _wanted(architecture, found)
    strange = [
        described(tensor)
        for name, tensor in found.items()
        if name not in wanted and name not in _BESIDE and not name.endswith(ROPE_TABLE)
    ]  # fmt: skip
    wrong = [*twice, *_wrong(wanted, found), *_wrong_norms(architecture, found)]
    where = f"{facts.path}: {facts.weights}"
    if wrong:
        raise CheckpointError(
            "the tensors are not those of the drafter that config.json describes",
            where=where,
            actual="; ".join(wrong + [f"{tensor} is not known" for tensor in strange]),
        )
    if strange:
        raise UnsupportedDrafterError(
            "tensors that the reference forward does not know, and that may change what the drafter computes",
            where=where,
            expected=f"those of a Llama-shaped {facts.method} drafter",
            actual=", ".join(strange),
        )
    return found


def _wrong(wanted: dict[str, Wanted], found: dict[str, TensorFact]) -> list[str]:
    wrong = []
    for name, want in wanted.items():
        tensor = found.get(name)
        if tensor is None:
            wrong += [f"{name} is missing"] if want.required else []
            continue
        fits = len(tensor.shape) == len(want.shape) and all(
            size in (None, actual) for size, actual in zip(want.shape, tensor.shape, strict=True)
        )
        if not fits:
            shape = ", ".join("?" if size is None else str(size) for size in want.shape)
            wrong.append(f"{described(tensor)} should be [{shape}]")
        if tensor.dtype not in _FLOATS:
            wrong.append(f"{tensor.name} is {tensor.dtype} and not one of {', '.join(_FLOATS)}")
    return wrong


def _wrong_norms(architecture: Architecture, found: dict[str, TensorFact]) -> list[str]:
    """Layers after the first have one norm of the state, under one of two names."""
    if architecture.method == DFLASH:
        return []
    wrong = []
    for number in range(1, architecture.layers):
        names = [name for name in state_norms(number) if name in found]
        if not names:
            wrong.append(f"{' or '.join(state_norms(number))} is missing")
        if len(names) > 1:
            # SGLang 0.5.23 reads hidden_norm, vLLM and speculators input_layernorm.
            wrong.append(f"{' and '.join(names)} are both there, and engines do not read the same one")
    return wrong


def state_norms(layer: int, method: str = "") -> tuple[str, ...]:
    """Names of the norm of a layer's state: an EAGLE-3 first layer's input_layernorm is the embedding's."""
    names = (f"layers.{layer}.hidden_norm.weight", f"layers.{layer}.input_layernorm.weight")
    if method == DFLASH:
        return names[1:]
    return names[:1] if layer == 0 else names


def _wanted(architecture: Architecture, found: dict[str, TensorFact]) -> dict[str, Wanted]:
    hidden, taps = architecture.hidden_size, architecture.taps
    width = taps * architecture.target_hidden_size
    wanted = {
        "norm.weight": Wanted((hidden,)),
        EMBEDDING: Wanted((None, hidden), required=False),
        HEAD: Wanted((None, hidden), required=False),
    }
    if architecture.method == DFLASH:
        wanted[CONTEXT_NORM] = Wanted((hidden,))
    if FC in found or architecture.method == DFLASH:
        wanted |= {FC: Wanted((hidden, width)), "fc.bias": Wanted((hidden,), required=False)}
    if architecture.norm == NORM_CONCATENATION:
        wanted["input_norm.weight"] = Wanted((width,))
    if architecture.norm == NORM_PER_CHUNK:
        chunk = Wanted((architecture.target_hidden_size,))
        wanted |= {f"fc_norm.{number}.weight": chunk for number in range(taps)}
    for number in range(architecture.layers):
        wanted |= _of_layer(architecture, number, found)
    return wanted


def _of_layer(architecture: Architecture, number: int, found: dict[str, TensorFact]) -> dict[str, Wanted]:
    hidden, head = architecture.hidden_size, architecture.head_width
    queries, keys = architecture.heads * head, architecture.key_heads * head
    first = number == 0 and architecture.method != DFLASH
    reads = 2 * hidden if first else hidden
    gate = found.get(f"layers.{number}.mlp.gate_proj.weight")
    inner = gate.shape[0] if gate is not None and gate.shape else None
    projections = {
        "self_attn.q_proj": (queries, reads),
        "self_attn.k_proj": (keys, reads),
        "self_attn.v_proj": (keys, reads),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    wanted = {f"{name}.weight": Wanted(shape) for name, shape in projections.items()}
    wanted |= {f"{name}.bias": Wanted(shape[:1], required=False) for name, shape in projections.items()}
    wanted |= {
        "self_attn.q_norm.weight": Wanted((head,), required=False),
        "self_attn.k_norm.weight": Wanted((head,), required=False),
        "input_layernorm.weight": Wanted((hidden,), required=first or architecture.method == DFLASH),
        "post_attention_layernorm.weight": Wanted((hidden,)),
    }
    if architecture.method != DFLASH:
        wanted["hidden_norm.weight"] = Wanted((hidden,), required=first)
    return {f"layers.{number}.{name}": want for name, want in wanted.items()}
