"""The surroundings in which a release's model classes are built and run symbolically: one rank, plain settings.

Nothing here describes a release: these are the inputs of an experiment (a configuration, a group of one process)
and the hooks that turn sublayers into atoms. What a class does with them is the release's own code.
"""

from __future__ import annotations

import ast
import re

from drafter_contracts.engines.scan.lazy import MISSING
from drafter_contracts.engines.scan.probes import structs, symbolic
from drafter_contracts.engines.scan.probes.building import Builder
from drafter_contracts.engines.scan.probes.sublayers import Leaf
from drafter_contracts.engines.scan.probes.symbolic import TRACE, Value
from drafter_contracts.engines.scan.standins import Module, Standin, StandinMeta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from drafter_contracts.engines.scan.lazy import LazyRelease

_SIZE = re.compile(r"^get_\w*(world_)?size$")
_RANK = re.compile(r"^get_\w*rank$")
_GROUP = re.compile(r"^get_\w*group$")
#: Files that wrap kernels: what they return is an unknown tensor.
_KERNEL_WRAPPERS = ("layers/elementwise.py", "layers/gemma4_fused_ops.py")
#: What the launch sets in its own environment for models that insist on it (`arg_groups/overrides.py`).
_ENVIRONMENT = {"SGLANG_ENABLE_UNIFIED_RADIX_TREE": "1"}
#: Where the engine sets a model up.
_RUNNER = "model_executor/model_runner.py"
#: Functions by which release code reaches the launch's settings (`server_args.py`, `runtime_context.py`).
_SETTINGS_FUNCTIONS = (
    "get_server_args",
    "get_global_server_args",
    "get_context",
    "get_device",
    "get_model",
    "get_exec",
    "get_schedule",
    "get_memory",
    "get_spec",
    "get_lora",
    "get_mm",
    "get_disagg",
    "get_serving",
    "get_observability",
    "get_flags",
    "get_forward",
    "get_resources",
    "get_forward_context",
)

#: Numbers of the configuration that every model class is built with.
_NUMBERS: dict[str, object] = {
    "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 8, "intermediate_size": 128,
    "vocab_size": 1024, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "rope_theta": 10000.0,
    "num_experts": 8, "n_routed_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 128, "first_k_dense_replace": 1, "decoder_sparse_step": 1,
    "hidden_act": "silu", "tie_word_embeddings": False, "model_type": "probe", "attention_bias": False,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 16, "q_lora_rank": 16,
    "sliding_window": 128, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "layernorm_epsilon": 1e-6,
    "video_pruning_rate": 0.0, "num_blocks": 1, "attn_res_block_size": 4, "projector_hidden_act": "gelu",
    "num_loops": 1, "full_attention_interval": 2, "partial_rotary_factor": 1.0, "norm_eps": 1e-6,
}  # fmt: skip


#: Kinds of attention that the layers of the probe's config take in turn; the next is tried where one is refused.
KINDS = (("full_attention", "sliding_attention"), ("full_attention", "linear_attention"))


class Frequency(int):
    """How often layers are sparse: one number for some configs, one per layer for others."""

    _depth: int

    def __new__(cls, value: int, depth: int) -> Self:
        """A number that is a list of itself, too."""
        made = super().__new__(cls, value)
        made._depth = depth
        return made

    def __len__(self) -> int:
        return self._depth

    def __getitem__(self, index: int) -> int:
        return int(self)


class Config(Standin):
    """A target's config: its depth is recorded when read, everything unknown is a stand-in.

    Args:
        path: Dotted path of this (sub)config, "" for the top.
        depth: Number of decoder layers, or None where this config has none.
        log: Paths of the depth that were read.
    """

    def __init__(self, path: str, depth: int | None, log: list[str], kinds: int = 0) -> None:
        super().__init__(f"config.{path}" if path else "config")
        self.__dict__.update(_NUMBERS)
        self.__dict__.update(_path=path, _depth=depth, _log=log)
        if depth is not None:
            self.__dict__.update(
                layer_types=[KINDS[kinds][i % 2] for i in range(depth)],
                layers_block_type=[("attention", "linear_attention")[i % 2 if kinds else 0] for i in range(depth)],
                moe_layer_freq=Frequency(1, depth),
                hybrid_layer_pattern=[i % 2 for i in range(depth)],
                hybrid_override_pattern=("*-*E" * depth)[:depth],
                mlp_layer_types=["sparse" if i else "dense" for i in range(depth)],
            )

    @property
    def num_hidden_layers(self) -> object:
        """Depth; reading it is recorded."""
        if self.__dict__["_depth"] is None:
            return Standin("no depth")
        path = self.__dict__["_path"]
        self.__dict__["_log"].append(f"{path}.num_hidden_layers" if path else "num_hidden_layers")
        return self.__dict__["_depth"]

    @num_hidden_layers.setter
    def num_hidden_layers(self, value: object) -> None:
        self.__dict__["_depth"] = value

    def get_text_config(self, *_args: object, **_kwargs: object) -> object:
        """As transformers': the text sub-config, or itself."""
        return self.__dict__.get("text_config", self)

    def to_dict(self) -> dict[str, object]:
        """The numbers."""
        return dict(_NUMBERS)

    def update(self, values: dict[str, object]) -> None:
        """Set several."""
        for name, value in values.items():
            setattr(self, name, value)


#: Where a config may keep its decoder's part: tried in this order until the model builds layers.
VARIANTS = ("", "text_config", "llm_config", "language_config", "thinker_config.text_config")


def make_config(variant: str, depth: int, architecture: str, model_type: str, kinds: int) -> tuple[Config, list[str]]:
    """A config whose decoder part sits at `variant`, and the log of depths read."""
    log: list[str] = []
    if not variant:
        top = Config("", depth, log, kinds)
    else:
        top = holder = Config("", None, log)
        parts = variant.split(".")
        for position, part in enumerate(parts):
            last = position == len(parts) - 1
            inner = Config(".".join(parts[: position + 1]), depth if last else None, log, kinds)
            holder.__dict__[part] = inner
            holder = inner
    top.__dict__["architectures"] = [architecture]
    (holder if variant else top).__dict__["model_type"] = model_type
    return top, log


class Group(Standin):
    """A process group of one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__.update(world_size=1, rank=0, rank_in_group=0, local_rank=0, is_first_rank=True)
        self.__dict__.update(is_last_rank=True, size=1, all_reduce=symbolic.unwrap_first(None))
        self.__dict__.update(all_gather=symbolic.unwrap_first(None), reduce_scatter=symbolic.unwrap_first(None))


PIPELINE = Group("pp_group")
OTHER = Group("group")


_OPTIONAL_SIZES = ("moe_dense_tp_size", "chunked_prefill_size", "page_size")


class Settings(Standin):
    """Parallel sizes of one, ranks of zero, groups of one, everything else off."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name.endswith("_size") and name not in _OPTIONAL_SIZES:
            return 1
        if name.endswith("_rank"):
            return 0
        if name == "pp_group":
            return PIPELINE
        if name.endswith("_group"):
            return OTHER
        return super().__getattr__(name)


#: Launch settings, as the release reads them; a probe sets `speculative_algorithm`.
SETTINGS = Settings("settings")
SETTINGS.speculative_algorithm = "EAGLE3"
SETTINGS.moe.init_expert_location = "trivial"
SETTINGS.language_only = True
SETTINGS.disable_radix_cache = False
SETTINGS.enable_mamba_extra_buffer = lambda: True
SETTINGS.mamba.enable_mamba_extra_buffer = True
SETTINGS.mamba.mamba_radix_cache_strategy = "extra_buffer"


def _mm_embed(
    input_ids: object = None,  # noqa: ARG001 - named as the release's callers name it
    forward_batch: object = None,
    language_model: Any = None,
    *_more: object,
    **kwargs: object,
) -> object:
    """What `managers/mm_utils.py: general_mm_embed_routine` does for a batch without images."""
    for name in ("multimodal_model", "data_embedding_funcs", "placeholder_tokens", "use_deepstack", "feature_dtypes",
                 "image_data_embedding_func", "audio_data_embedding_func", "data_embedding_func_mapping",
                 "placeholder_token", "skip_mm_process"):  # fmt: skip
        kwargs.pop(name, None)
    return language_model(input_ids=None, forward_batch=forward_batch, input_embeds=TRACE.fresh(), **kwargs)


def _rule(name: str) -> object:
    if name.endswith("_rank_size"):
        return lambda *_args, **_kwargs: (0, 1)
    if _SIZE.match(name):
        return lambda *_args, **_kwargs: 1
    if _RANK.match(name):
        return lambda *_args, **_kwargs: 0
    if name == "get_pp_group":
        return lambda *_args, **_kwargs: PIPELINE
    if _GROUP.match(name):
        return lambda *_args, **_kwargs: OTHER
    return MISSING


def _jit(*functions: object, **_options: object) -> object:
    """triton.jit: a kernel is launched by `kernel[grid](...)`, which a function does not allow."""
    return Leaf("kernel") if functions else _jit


class _Pretrained(Module):
    """Stand-in for transformers' PreTrainedModel: a module with a few methods that do nothing here."""

    def post_init(self) -> None:
        """Initialise weights: there are none."""

    def init_weights(self) -> None:
        """As above."""


def install(release: LazyRelease) -> Builder:
    """Put the surroundings in place. Before anything of the release is looked up."""
    builder = Builder()
    StandinMeta.constructor = builder
    Standin.answer = symbolic.answer
    release.rule = _rule
    release.stub(*_KERNEL_WRAPPERS)
    release.foreign("os.environ", dict(_ENVIRONMENT))
    release.foreign("os.getenv", _ENVIRONMENT.get)
    plain = SETTINGS
    parallel = Settings("parallel")
    plain.comm.boundary_reduction = "ar"
    constants: dict[str, Callable[..., object]] = {
        "get_parallel": lambda: parallel,
        "_configured_parallel": lambda name: getattr(parallel, name),
        "declare_load_time_override": lambda *_args, **_kwargs: None,
        "is_cuda": lambda: True,
        "load_joint_head_config": lambda *_args, **_kwargs: None,
        "_get_raw_quant_config": lambda *_args, **_kwargs: None,
        "maybe_offload_to_cpu": symbolic.unwrap_first(None),
        "update_vit_attn_dummy_heads_config": symbolic.unwrap_first(None),
        "general_mm_embed_routine": _mm_embed,
    }
    constants.update({name: lambda: plain for name in _SETTINGS_FUNCTIONS})
    for name, value in constants.items():
        release.replace(name, value)
    release.foreign("torch.Tensor", Value)
    structs.install(release)
    release.foreign("triton.jit", _jit)
    release.replace("CLIPVisionConfig", Standin("CLIPVisionConfig"))
    release.replace("get_global_expert_distribution_recorder", lambda: Standin("recorder"))
    for name in ("transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel"):
        release.foreign(name, _Pretrained)
    release.foreign("sglang.kernels.fused_op.BaseFusedOp", Module)
    release.foreign("torch.cat", symbolic.concatenate)
    _start_up(release)
    return builder


def _start_up(release: LazyRelease) -> None:
    """Settings that the engine's start-up puts in place of an option that was not given, as its own code makes them.

    Some releases hand options to their layers in a dictionary, where `"key": Kind(server_args.key)` replaces the text.
    """
    table = "global_server_args_dict"
    if f"{table}.update" not in release.sources.get(_RUNNER, ""):
        return
    runner = release.module(_RUNNER)
    entries = (node for node in ast.walk(runner._index.tree) if isinstance(node, ast.Dict))  # noqa: SLF001 - ours
    for key, value in (pair for node in entries for pair in zip(node.keys, node.values, strict=True)):
        name = key.value if isinstance(key, ast.Constant) else None
        if not isinstance(name, str) or not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            continue
        settings: dict[str, object] = runner[table]  # type: ignore[assignment]
        if [ast.unparse(arg) for arg in value.args] == [f"server_args.{name}"] and settings.get(name, "") is None:
            settings[name] = runner[value.func.id](None)  # type: ignore[operator]


def make_batch() -> Standin:
    """A batch of a few tokens, in no special mode."""
    batch = Standin("forward_batch")
    batch.aux_hidden_states_buffer = None
    batch.residual_stream = None
    batch.capture_hidden_mode.need_capture = batch.capture_hidden_mode.is_full = lambda: True
    return batch


def instantiate(cls: type, config: Config) -> object:
    """Build a model as the release's loader does (`model_loader/loader.py: _initialize_model`)."""
    return cls(config=config, quant_config=None)
