"""Names under which a release's class loads a drafter's tensors, where it would drop those of the checkpoint.

Nothing is renamed on a guess: the old name must be one that the profile does not show to be loaded, and the new one
must be shown. A decoder layer is renamed as a whole or not at all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from drafter_contracts.checkpoint.facts import TensorFact
    from drafter_contracts.engines.profile import Drafter

_MIDLAYER, _LAYERS, _FIRST = "midlayer", "layers", "layers.0"
_WRAPPERS = ("model.", "draft_model.", "eagle_module.")
#: The norms of three chunks, as their forerunners named them.
_CHUNK_NORMS = {
    "aux_norm_low.": "fc_norm.0.",
    "aux_norm_mid.": "fc_norm.1.",
    "aux_norm_high.": "fc_norm.2.",
}

#: Modules of drafters that profiles or advisories speak of; others were never offered to a loader.
_PARTS = frozenset({
    "d2t", "t2d", "fc", "fc_norm", "input_norm", "aux_hidden_norms", "norm", "hidden_norm", "lm_head", "embed_tokens",
    "rotary_emb", "mask_hidden", "mask_embedding", "markov_head", "confidence_head", "input_layernorm",
    "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "self_attn.q_norm", "self_attn.k_norm", "self_attn.q_a_proj", "self_attn.q_a_layernorm", "self_attn.q_b_proj",
    "self_attn.kv_a_proj_with_mqa", "self_attn.kv_a_layernorm", "self_attn.kv_b_proj",
    "self_attn.fused_qkv_a_proj_with_mqa", "self_attn.rotary_emb", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
})  # fmt: skip


def renames(known: Drafter, tensors: Iterable[TensorFact]) -> dict[str, str]:
    """Tensor names to those under which the class loads them; only of those that it does not load as they are.

    Args:
        known: The release's class for the drafter.
        tensors: The checkpoint's.
    """
    names = sorted(tensor.name for tensor in tensors)
    found: dict[str, str] = {}
    for name in names:
        if loads(known, name):
            continue
        new = next((other for other in _others(name) if loads(known, other)), "")
        if new and new not in names and new not in found.values():
            found[name] = new
    return found


def loads(known: Drafter, name: str) -> bool:
    """Whether the profile shows that the class loads a tensor, or others of the same module or layer.

    A layer beyond the first is loaded where the first is: a class that was built with one says nothing of others. So
    are norms of chunks.
    """
    place = _layer(name) or _module(name)
    if not place:
        return name in known.loads
    return any(word == place or word.startswith(place + ".") for word in known.loads)


def _layer(name: str) -> str:
    """The layer that a tensor is of ("layers.0", "model.midlayer"), every number as 0; "" for others."""
    wrapper, plain = _unwrapped(name)
    head, _, rest = plain.partition(".")
    if head == _MIDLAYER:
        return wrapper + _MIDLAYER
    return f"{wrapper}{_FIRST}" if head == _LAYERS and rest.partition(".")[0].isdecimal() else ""


def _module(name: str) -> str:
    """The module that a tensor is of ("fc", "fc_norm.0"), every number as 0; "" for a tensor of none ("d2t")."""
    parts = ["0" if part.isdecimal() else part for part in name.split(".")[:-1]]
    return "" if f"{'.'.join(parts)}." in _WRAPPERS else ".".join(parts)


def _unwrapped(name: str) -> tuple[str, str]:
    wrapper = next((wrapper for wrapper in _WRAPPERS if name.startswith(wrapper)), "")
    return wrapper, name.removeprefix(wrapper)


def _others(name: str) -> Iterator[str]:
    """Other names of one tensor, those nearest to it first."""
    wrapper, plain = _unwrapped(name)
    for spelled in _spellings(plain):
        for prefix in dict.fromkeys((wrapper, "", "model.")):
            if prefix + spelled != name:
                yield prefix + spelled


def _spellings(plain: str) -> Iterator[str]:
    yield plain
    for here, there in ((f"{_MIDLAYER}.", f"{_FIRST}."), (f"{_FIRST}.", f"{_MIDLAYER}.")):
        if plain.startswith(here):
            yield there + plain.removeprefix(here)
    for old, new in _CHUNK_NORMS.items():
        if plain.startswith(old):
            yield new + plain.removeprefix(old)


def canonical(name: str) -> str:
    """One name for all the names of a tensor, so that checkpoints can be compared whatever their spelling."""
    plain = _unwrapped(name)[1]
    if plain.startswith(f"{_MIDLAYER}."):
        return f"{_FIRST}.{plain.removeprefix(f'{_MIDLAYER}.')}"
    for old, new in _CHUNK_NORMS.items():
        if plain.startswith(old):
            return new + plain.removeprefix(old)
    return plain


def told(known_as: dict[str, str], engine: str) -> Iterator[str]:
    """Renames as sentences, one for each pair of prefixes."""
    groups: dict[tuple[str, str], int] = {}
    for old, new in known_as.items():
        pair = _prefixes(old, new)
        groups[pair] = groups.get(pair, 0) + 1
    for (old, new), number in groups.items():
        what = f"{old} is renamed {new}" if number == 1 else f"{number} tensors {old} are renamed {new}"
        yield f"{what}: the class of {engine} loads them under that name and not under the first"


def _prefixes(old: str, new: str) -> tuple[str, str]:
    """What differs of two names, and a star for the parts that they share at the end."""
    left, right = old.split("."), new.split(".")
    shared = 0
    while shared < min(len(left), len(right)) and left[-1 - shared] == right[-1 - shared]:
        shared += 1
    if not _layer(old) or not shared:
        return old, new
    ends = len(left) - shared, len(right) - shared
    return ".".join((*left[: ends[0]], "*")), ".".join((*right[: ends[1]], "*"))


def asked_about(name: str) -> bool:
    """Whether a tensor is of a module that classes were asked about: of any other a profile says nothing."""
    return _part(name) in _PARTS


def _part(name: str) -> str:
    """The module that a tensor is of, its layer left out: "self_attn.q_proj", "fc", "d2t"."""
    plain = canonical(name)
    head, _, rest = plain.partition(".")
    if head == "layers":
        rest = rest.partition(".")[2]
        return rest.rpartition(".")[0]
    return plain if plain in {"d2t", "t2d"} else head
