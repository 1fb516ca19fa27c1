"""Tensor names of drafters, whatever prefix their producer gives them."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import TensorFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Projections that read a layer's input; EAGLE-3 gives their first layer twice the width (embedding and state).
_INPUT_PROJECTIONS = (
    "self_attn.q_proj.weight",
    "self_attn.qkv_proj.weight",
    "self_attn.q_a_proj.weight",
    "self_attn.kv_a_proj_with_mqa.weight",
    "self_attn.fused_qkv_a_proj_with_mqa.weight",
)
_FIRST_LAYERS = ("midlayer", "layers.0", "midlayer.0")
_PREFIXES = ("model.", "draft_model.", "eagle_module.")


class TensorIndex:
    """The tensors of a drafter by short name (without "model.").

    Attributes:
        by_name: Short name to tensor.
    """

    def __init__(self, tensors: Iterable[TensorFact]) -> None:
        self.by_name = {short_name(tensor.name): tensor for tensor in tensors}

    def get(self, *names: str) -> TensorFact | None:
        """The first of the short names that is there, or None."""
        return next((self.by_name[name] for name in names if name in self.by_name), None)

    def matrix(self, *names: str) -> TensorFact | None:
        """As `get`, but only tensors of two dimensions (a quantised weight may be stored packed or flat)."""
        found = self.get(*names)
        return found if found is not None and len(found.shape) == 2 else None

    def with_part(self, *parts: str) -> TensorFact | None:
        """The first tensor, by name, whose short name holds one of the parts."""
        return next(
            (self.by_name[name] for name in sorted(self.by_name) if any(part in name for part in parts)),
            None,
        )

    def input_projection(self) -> TensorFact | None:
        """The first layer's projection of its input, or None."""
        return self.matrix(*(f"{layer}.{name}" for layer in _FIRST_LAYERS for name in _INPUT_PROJECTIONS))

    def hidden_size(self) -> int | None:
        """The drafter's own width by its norms or its fusion layer, or None."""
        norms = ("norm.weight", *(f"{layer}.post_attention_layernorm.weight" for layer in _FIRST_LAYERS))
        norm = self.get(*norms)
        if norm is not None and len(norm.shape) == 1:
            return norm.shape[0]
        fc = self.matrix("fc.weight")
        return fc.shape[0] if fc is not None else None

    def layers(self) -> dict[str, set[int]]:
        """Layer prefix ("midlayer", "layers", "mtp", ...) to the layer numbers found (0 for an unnumbered one)."""
        found: dict[str, set[int]] = {}
        for name in self.by_name:
            head, _, rest = name.partition(".")
            if head in ("layers", "midlayer", "mtp", "mtp_layers"):
                number = rest.partition(".")[0]
                found.setdefault(head, set()).add(int(number) if number.isdecimal() else 0)
        return found


def short_name(name: str) -> str:
    """A tensor's name without the prefixes that wrappers add."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def described(tensor: TensorFact) -> str:
    """A tensor for a message: "fc.weight [4096, 12288]"."""
    return f"{tensor.name} {list(tensor.shape)}"
