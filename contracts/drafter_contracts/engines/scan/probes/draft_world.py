"""The surroundings in which drafters' classes are built: which classes are run for real and which become leaves."""

from __future__ import annotations

import re

from drafter_contracts.engines.scan.probes.layers import (
    DraftDict,
    DraftList,
    DraftModule,
    Leaf,
    Parameter,
    Tensor,
    concatenate,
    load,
)
from drafter_contracts.engines.scan.standins import StandinMeta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease


def _torch_layer(name: str) -> type:
    """A class that takes torch.nn.<name>'s place."""
    positions = {"Linear": ("in_features", "out_features", "bias"), "Embedding": ("num_embeddings", "embedding_dim")}

    def construct(self: Leaf, *args: object, **kwargs: object) -> None:
        given = {**dict(zip(positions.get(name, ()), args, strict=False)), **kwargs}
        Leaf.__init__(self, name, given, torch=True)

    return type(name, (Leaf,), {"__init__": construct})


class Builder:
    """Decides for every module class of the release that is called whether it is built or becomes a leaf.

    Attributes:
        failures: Classes that could not be built below the top, with the reason: they became leaves.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.failures: dict[str, str] = {}

    def __call__(self, cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The hook of `StandinMeta.constructor`."""
        if not issubclass(cls, DraftModule) or issubclass(cls, (Leaf, DraftList, DraftDict)):
            return NotImplemented
        if ".models." not in cls.__module__:
            return Leaf(cls.__name__, _named(cls, args, kwargs), torch=False)
        self.depth += 1
        try:
            return type.__call__(cls, *args, **kwargs)
        except Exception as error:
            if self.depth == 1 or not _is_sublayer(cls):
                raise
            self.failures[cls.__name__] = f"{type(error).__name__}: {error}"
            return Leaf(cls.__name__, _named(cls, args, kwargs), torch=False)
        finally:
            self.depth -= 1


def _is_sublayer(cls: type) -> bool:
    return bool(re.search(r"Attention|MLP|Moe|MoE|Mlp|Block|Layer", cls.__name__))


def _named(cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    """Arguments of a constructor by name, defaults included."""
    constructor = next((vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)), None)
    code = getattr(constructor, "__code__", None)
    if code is None:
        return dict(kwargs)
    names = code.co_varnames[1 : code.co_argcount]
    defaults = getattr(constructor, "__defaults__", None) or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    return {**given, **dict(zip(names, args, strict=False)), **kwargs}


class PreTrained(DraftModule):
    """A class that takes transformers.PreTrainedModel's place."""

    def __init__(self, config: object = None, *_args: object, **_kwargs: object) -> None:
        self.config = config

    def post_init(self) -> None:
        """Initial values and tied weights: nothing that is looked at here."""


def install(release: LazyRelease) -> Builder:
    """Put the stand-ins in place; before anything of the release is looked up."""
    builder = Builder()
    StandinMeta.constructor = builder
    release.foreign("torch.nn.Module", DraftModule)
    release.foreign("torch.nn.ModuleList", DraftList)
    release.foreign("torch.nn.Sequential", DraftList)
    release.foreign("torch.nn.ModuleDict", DraftDict)
    release.foreign("torch.nn.Parameter", Parameter)
    release.foreign("torch.nn.parameter.Parameter", Parameter)
    for name in ("Linear", "Embedding", "LayerNorm", "GRU"):
        release.foreign(f"torch.nn.{name}", _torch_layer(name))
    for name in ("transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel"):
        release.foreign(name, PreTrained)
    release.foreign("sglang.kernels.fused_op.BaseFusedOp", DraftModule)
    release.foreign("torch.Tensor", Tensor)
    release.foreign("torch.cat", concatenate)
    release.replace("default_weight_loader", load)
    release.replace("get_rope", lambda *_args, **_kwargs: Leaf("RotaryEmbedding", {}, torch=False))
    return builder
