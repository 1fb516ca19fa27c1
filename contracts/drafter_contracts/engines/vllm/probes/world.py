"""The surroundings in which a vLLM release's model classes are built and run symbolically: one rank, plain settings.

As for SGLang (`scan.probes.world`), nothing here describes a release: these are the inputs of an experiment.
"""

from __future__ import annotations

import typing
from itertools import product
from string import ascii_lowercase

from drafter_contracts.engines.scan.probes import symbolic
from drafter_contracts.engines.scan.probes.building import Builder
from drafter_contracts.engines.scan.probes.sublayers import Leaf
from drafter_contracts.engines.scan.probes.symbolic import Value
from drafter_contracts.engines.scan.probes.world import OTHER, PIPELINE, Config, Settings, make_config
from drafter_contracts.engines.scan.standins import Module, ModuleList, Standin, StandinMeta
from drafter_contracts.engines.scan.surroundings import MISSING
from drafter_contracts.engines.vllm.probes import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Parts of the release that only compile, schedule, load or talk to kernels: what they give is unknown.
FOREIGN = (
    "compilation", "distributed", "logger.py", "platforms", "utils", "envs.py", "_custom_ops.py", "_aiter_ops.py",
    "forward_context.py", "multimodal", "inputs", "entrypoints", "renderers", "triton_utils", "third_party", "lora",
    "tokenizers",
    "model_executor/model_loader", "model_executor/kernels", "model_executor/custom_op.py", "ir", "tracing",
)  # fmt: skip
#: Codes of languages: a class that transcribes is refused for one that nobody knows.
_LANGUAGES = (*map("".join, product(ascii_lowercase, repeat=2)), *map("".join, product(ascii_lowercase, repeat=3)))
_LAYERS = "vllm.model_executor.layers"


class ProtocolMeta(StandinMeta):
    """Metaclass of the release's interfaces: an instance of an interface has all that the interface declares."""

    def __instancecheck__(self, instance: object) -> bool:
        """As `typing.runtime_checkable`: by inheritance, else by the names that are declared."""
        if self in type(instance).__mro__:
            return True
        declared = _declared(self)
        return bool(declared) and all(hasattr(instance, name) for name in declared)

    def __subclasscheck__(self, subclass: type) -> bool:
        """As above, for a class."""
        if self in subclass.__mro__:
            return True
        declared = _declared(self)
        return bool(declared) and all(hasattr(subclass, name) for name in declared)


def _declared(cls: type) -> list[str]:
    """Names that an interface declares; nothing for a class that only inherits from one."""
    if Protocol not in cls.__bases__:
        return []
    found: list[str] = []
    for base in cls.__mro__:
        if Protocol in base.__bases__:
            found += [*vars(base), *vars(base).get("__annotations__", {})]
    return [name for name in dict.fromkeys(found) if not name.startswith("_")]


class Protocol(metaclass=ProtocolMeta):
    """`typing.Protocol`: real ones cannot be combined with the stand-in of torch.nn.Module."""

    def __class_getitem__(cls, _item: object) -> type:
        return cls


class DelegatedError(Exception):
    """A model builds its decoder by whatever architecture its config names.

    Attributes:
        path: The part of the config that names it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"its decoder is of the class that {path}.architectures names")
        self.path = path


def _path(config: Any) -> str:
    """Where a part of a target's config lies in it.

    Raises:
        TypeError: It is no part of it.
    """
    if not isinstance(config, Config) or not config.__dict__["_path"]:
        raise TypeError("its decoder's config is no part of the target's")
    return str(config.__dict__["_path"])


def _inner_model(release: LazyRelease) -> Callable[..., object]:
    """`model_executor/models/utils.py: init_vllm_registered_model`, for an architecture that the model names."""

    def init(vllm_config: Any, *, prefix: str = "", hf_config: Any = None, architectures: Any = None) -> object:
        inner = vllm_config.model_config.hf_config if hf_config is None else hf_config
        if not architectures:
            raise DelegatedError(_path(inner))
        cls = registry.load(release, registry.entries(release).targets[architectures[0]])
        text = inner if getattr(inner, "_depth", None) is not None else inner.get_text_config()
        return cls(vllm_config=VllmConfig(text), prefix=prefix)

    return init


def _initialize(
    vllm_config: Any = None, *, prefix: str = "", model_class: type | None = None, **_more: object
) -> object:
    """`model_executor/model_loader/utils.py: initialize_model`, for a class that the model names."""
    if model_class is None:
        raise DelegatedError(_path(vllm_config.model_config.hf_config))
    return model_class(vllm_config=vllm_config, prefix=prefix)


class CustomOp(Module):
    """`model_executor/custom_op.py: CustomOp` and `PluggableLayer`: a module that is registered under a name."""

    @classmethod
    def register(cls, *_names: object, **_options: object) -> Callable[[type], type]:
        """A decorator that changes nothing."""
        return lambda registered: registered

    register_oot = register


class VllmBuilder(Builder):
    """Decides what of a vLLM model is built, and what is a sublayer.

    Attributes:
        expected: The class that is built next is a decoder layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expected = False

    def sublayer(self, cls: type) -> bool:
        """Layers of the release's own library, and everything that is not the release's."""
        return cls.__module__.startswith(_LAYERS) or not cls.__module__.startswith("vllm")

    def is_layer(self, cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """The class that `make_layers` asks for; in models with a list of their own, one that is told its place."""
        expected, self.expected = self.expected, False
        return expected or super().is_layer(cls, args, kwargs)


class VllmConfig(Settings):
    """The release's configuration as its models see it, around a target's config."""

    def __init__(self, config: object) -> None:
        super().__init__("vllm_config")
        model = Settings("model_config")
        text = getattr(config, "get_text_config", lambda: config)()
        modes = Settings("multimodal_config")
        model.__dict__.update(hf_config=config, hf_text_config=text, dtype=Standin("dtype"), multimodal_config=modes)
        model.__dict__.update(max_model_len=4096, is_encoder_decoder=False, quantization=None, model="target")
        model.__dict__.update(runner_type="generate", get_multimodal_config=lambda: modes)
        self.__dict__.update(model_config=model, quant_config=None, lora_config=None, speculative_config=None)
        self.__dict__.update(cache_config=Settings("cache_config"), parallel_config=Settings("parallel_config"))
        scheduler = Settings("scheduler_config")
        scheduler.__dict__.update(max_num_batched_tokens=8192, max_num_seqs=256)
        self.__dict__["scheduler_config"] = scheduler
        self.__dict__["with_hf_config"] = lambda hf_config, *_more, **_named: VllmConfig(hf_config)


def _make_layers(builder: VllmBuilder) -> Callable[..., object]:
    """`model_executor/models/utils.py: make_layers` on one rank."""

    def make_layers(
        num_hidden_layers: int = 0, layer_fn: Callable[..., object] = Standin, prefix: str = "", **_more: object
    ) -> tuple[int, int, ModuleList]:
        made: list[object] = []
        for i in range(num_hidden_layers):
            builder.expected = True
            made.append(layer_fn(prefix=f"{prefix}.{i}"))
        builder.expected = False
        return 0, num_hidden_layers, ModuleList(made)

    return make_layers


def _rule(name: str) -> object:
    if name.startswith("get_") and name.endswith("world_size"):
        return lambda *_args, **_kwargs: 1
    if name.startswith("get_") and name.endswith("_rank"):
        return lambda *_args, **_kwargs: 0
    return MISSING


def install(release: LazyRelease) -> VllmBuilder:
    """Put the surroundings in place. Before anything of the release is looked up."""
    builder = VllmBuilder()
    StandinMeta.constructor = builder
    Standin.answer = symbolic.answer
    typing.Protocol = Protocol  # type: ignore[assignment]
    typing.runtime_checkable = lambda cls: cls
    release.rule = _rule
    release.stub(*FOREIGN)
    parallel = release.import_module("vllm.distributed")
    state = release.import_module("vllm.distributed.parallel_state")
    for module in (parallel, state):
        module.get_pp_group = lambda: PIPELINE  # type: ignore[attr-defined]
        for name in ("get_tp_group", "get_ep_group", "get_dp_group", "get_dcp_group", "get_pcp_group"):
            setattr(module, name, lambda: OTHER)
        for name in ("get_tensor_model_parallel_world_size", "get_pipeline_model_parallel_world_size"):
            setattr(module, name, lambda: 1)
        module.get_tensor_model_parallel_rank = lambda: 0  # type: ignore[attr-defined]
        module.model_parallel_is_initialized = lambda: False  # type: ignore[attr-defined]
    operations = release.import_module("vllm.model_executor.custom_op")
    operations.CustomOp = operations.PluggableLayer = CustomOp  # type: ignore[attr-defined]
    release.import_module("vllm.model_executor.model_loader.utils").initialize_model = _initialize  # type: ignore[attr-defined]
    release.foreign("transformers.models.whisper.tokenization_whisper.LANGUAGES", dict.fromkeys(_LANGUAGES, ""))
    release.replace("init_vllm_registered_model", _inner_model(release))
    platform = release.import_module("vllm.platforms").current_platform  # type: ignore[attr-defined]
    for name in ("is_cuda", "is_cuda_alike", "has_device_capability"):
        setattr(platform, name, lambda *_args, **_kwargs: True)
    release.import_module("vllm.envs").VLLM_MOE_ROUTING_SIMULATION_STRATEGY = ""  # type: ignore[attr-defined]
    release.foreign(
        "torch.nn.modules.module.register_module_module_registration_hook", lambda _hook: Standin("registration")
    )
    release.replace("make_layers", _make_layers(builder))
    release.replace("get_current_vllm_config", lambda: VllmConfig(Config("", None, [])))
    release.replace("get_current_vllm_config_or_none", lambda: None)
    release.foreign("torch.Tensor", Value)
    release.foreign("torch.cat", symbolic.concatenate)
    release.foreign("triton.jit", Leaf("kernel"))
    release.foreign("torch.nn.Module", Module)
    return builder


def target_config(variant: str, depth: int, architecture: str, model_type: str, kind: int) -> tuple[Config, list[str]]:
    """A target's config, as `scan.probes.world.make_config`, with what only vLLM's classes ask of one."""
    config, log = make_config(variant, depth, architecture, model_type, kind)
    part = config
    for name in variant.split(".") if variant else ():
        part = part.__dict__[name]
    part.__dict__["max_window_layers"] = depth
    config.__dict__["vision_feature_layer"] = -1
    return config, log


def instantiate(cls: type, config: Config) -> Any:
    """Build a model as the release's loader does (`model_loader/utils.py: initialize_model`)."""
    return cls(vllm_config=VllmConfig(config), prefix="")
