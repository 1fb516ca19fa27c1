"""Building a drafter's class with one config, and what the built model looks like."""

from __future__ import annotations

import re
from types import CodeType

from drafter_contracts.engines.scan.probes.layers import (
    RECORD,
    WIDTH,
    DraftDict,
    Leaf,
    Tensor,
    is_embedding,
    is_linear,
    is_norm,
    reach,
)
from drafter_contracts.engines.scan.probes.readings import put
from drafter_contracts.engines.scan.probes.recording import ITSELF, TEXT_PART, RecordingConfig
from drafter_contracts.engines.scan.standins import Standin

#: Names under which drafters keep the layer that takes the target's states in.
FUSION_NAMES = ("fc", "eh_proj", "main_proj", "input_proj", "pre_projection", "hidden_proj", "embedding_proj", "h_proj")
#: Those that take the target's state alone; the token's embedding has a layer of its own.
LONE_NAMES = ("h_proj",)
#: Numbers that the drafter's config of every run has; sizes differ so that they can be told apart.
HIDDEN, OTHER_WIDTH = 64, 96
BASE: dict[str, object] = {
    "hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 8,
    "intermediate_size": 128, "vocab_size": 1024, "draft_vocab_size": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False,
    "model_type": "drafter", "architectures": ["Drafter"], "attention_bias": False,
}  # fmt: skip
#: Keys of multi-head latent attention and of mixtures of experts, for the classes that ask for them.
MORE: dict[str, object] = {
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 16, "q_lora_rank": 16,
    "num_experts": 8, "n_routed_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 128, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
    "n_shared_experts": 1, "num_nextn_predict_layers": 1, "layer_norm_eps": 1e-6, "norm_eps": 1e-6,
    "partial_rotary_factor": 1.0, "markov_rank": 4, "markov_head_type": "vanilla", "block_size": 4,
    "enable_confidence_head": True, "hybrid_override_pattern": "*", "sliding_window": 128,
    "hidden_activation": "gelu_pytorch_tanh",
    "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, "shared_expert_intermediate_size": 0,
    "routed_scaling_factor": 1.0, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "rope_interleave": True,
    "mtp_hybrid_override_pattern": "*", "use_gemma_norm": False,
    "layer_types": ["full_attention"] * 8, "layers_block_type": ["attention"] * 8,
}  # fmt: skip
#: Geometry of a LiLiCorr head.
LATTICE: dict[str, object] = {
    "lilicorr_candidate_topk": 4, "lilicorr_hidden_size": 0, "lilicorr_num_layers": 1, "lilicorr_num_heads": 8,
    "lilicorr_mlp_ratio": 2.0, "lilicorr_factor_dim": 8, "lilicorr_vector_eps": 1e-6, "lilicorr_logit_scale": 1.0,
}  # fmt: skip
#: What a config needs besides to be that of a block drafter; tried in turn where a class refuses a plain one.
PRESETS: tuple[dict[str, object], ...] = (
    {},
    {"markov_rank": 4, "markov_head_type": "vanilla", "block_size": 4, "enable_confidence_head": True},
    {"dflash_config": {"selector_rank": 4, "selector_top_k": 2}, "block_size": 4},
    {"markov_rank": 4, "markov_head_type": "vanilla", "block_size": 4, "dflash_config": {"target_layer_ids": [0]}},
    {"dflash_config": LATTICE, "block_size": 4},
    {"layer_types": ["sliding_attention"]},
    {"model_type": "bailing_hybrid"},
)
#: Names of decoder layers.
_LAYERS = r"layers?\.|midlayer|stages|decoder|block"
#: How a config says that it lacks a key.
MISSING = re.compile(r"config has no attribute '([\w.]+)'")


class Built:
    """A drafter's class, built.

    Attributes:
        model: The instance, or None.
        error: Why there is none: "ValueError: ...".
        config: Its config.
        log: Keys that were read, dotted.
        hidden: The drafter's own width by its config.
    """

    def __init__(self, cls: type, values: dict[str, object]) -> None:
        self.log: set[str] = set()
        self.config = RecordingConfig(values, self.log)
        self.model: object = None
        self.error = ""
        width = values.get("hidden_size")
        self.hidden = WIDTH[0] = width if isinstance(width, int) else HIDDEN
        RECORD.reset()
        try:
            self.model = cls(config=self.config, quant_config=None)
        except Exception as error:  # noqa: BLE001 - whatever the release raises is the answer
            self.error = f"{type(error).__name__}: {error}"

    def leaves(self) -> list[tuple[str, Leaf]]:
        """Leaves with their dotted names."""
        if self.model is None:
            return []
        return [(name, one) for name, one in self.model.named_modules() if isinstance(one, Leaf)]  # type: ignore[attr-defined]

    def fusion(self) -> tuple[str, Leaf] | None:
        """The layer that takes the target's states in: a linear layer of a known name, or of several widths."""
        linear = [(n, one) for n, one in self.leaves() if is_linear(one)]
        found = [(n, one) for n, one in linear if n.rpartition(".")[2] in FUSION_NAMES]
        found.sort(key=lambda item: (FUSION_NAMES.index(item[0].rpartition(".")[2]), item[0].count("."), item[0]))
        if not found:
            found = [(n, one) for n, one in linear if _fuses(one, self.hidden) and not re.search(_LAYERS, n)]
        return found[0] if found else None

    def is_blind(self) -> str:
        """Name of the inner model's class if no method of it, its layers or the drafter looks at spec_info, or ""."""
        inner = vars(self.model).get("model") if self.model is not None else None
        if inner is None or any(_looks(one) for _, one in self.model.named_modules()):  # type: ignore[attr-defined]
            return ""
        return type(inner).__name__

    def width(self) -> int | None:
        """Columns of the fusion layer."""
        found = self.fusion()
        size = found[1].in_size if found else None
        return size if isinstance(size, int) else None

    def norms(self) -> dict[str, int]:
        """Names of norms outside decoder layers, with their widths."""
        return {
            name: int(str(leaf.in_size))
            for name, leaf in self.leaves()
            if is_norm(leaf) and leaf.in_size is not None and not re.search(_LAYERS, name)
        }

    def embeddings(self) -> dict[str, Leaf]:
        """Embeddings and heads by name; a shared one has several."""
        if self.model is None:
            return {}
        return {name: one for name, one in reach(self.model, "") if isinstance(one, Leaf) and is_embedding(one)}  # type: ignore[arg-type]

    def inner(self) -> object:
        """The module that owns the fusion layer."""
        found = self.fusion()
        if found is None:
            return None
        owner = self.model
        for part in found[0].split(".")[:-1]:
            key = part if isinstance(owner, DraftDict) else int(part) if part.isdigit() else None
            owner = getattr(owner, part) if key is None else owner[key]  # type: ignore[index]
        return owner


def _looks(module: object) -> bool:
    """Whether a method of a module's class names what the target hands on (`forward_batch.spec_info`)."""
    waiting: list[object] = [member for base in type(module).__mro__ for member in vars(base).values()]
    while waiting:
        one = waiting.pop()
        one = getattr(one, "fget", one)
        code = one if isinstance(one, CodeType) else getattr(getattr(one, "__func__", one), "__code__", None)
        if isinstance(code, CodeType):
            if "spec_info" in code.co_names:
                return True
            waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return False


def _fuses(leaf: Leaf, width: int) -> bool:
    """Whether a linear layer takes several states of the drafter's width and gives one."""
    size = leaf.in_size
    return leaf.out_size == width and isinstance(size, int) and size > width and size % width == 0


def run_forward(built: Built, incoming: int) -> tuple[bool, str, str]:
    """Give the drafter states of this width.

    Returns:
        Whether the fusion layer was called, the label of the state that is handed to the next step, and the
        exception if the pass failed.
    """
    found = built.fusion()
    if found is None:
        return False, "", "no fusion layer"
    RECORD.reset()
    label, error = "", ""
    try:
        result = _forward(built, Tensor(incoming, "target states"))
        recycled = result[1] if isinstance(result, tuple) and len(result) == 2 else None
        if isinstance(recycled, list) and recycled and isinstance(recycled[0], Tensor):
            label = recycled[0].label
    except Exception as problem:  # noqa: BLE001 - whatever the release raises is the answer
        error = f"{type(problem).__name__}: {problem}"
    return any(leaf is found[1] for leaf in RECORD.calls), label, error


def _forward(built: Built, states: Tensor) -> object:
    project = getattr(built.model, "project_target_hidden", None)
    if project is not None:
        return project(states)
    batch = Standin("forward_batch")
    batch.spec_info = Standin("spec_info")
    batch.spec_info.hidden_states = states
    batch.mm_input_embeds = None
    return built.inner().forward(Standin("input_ids"), Standin("positions"), batch)  # type: ignore[attr-defined]


def complete(cls: type, values: dict[str, object], failures: dict[str, str]) -> tuple[dict[str, object], Built]:
    """A config with which the class can be built: plain, or with one of `PRESETS`.

    Args:
        cls: The class.
        values: The config to start from.
        failures: The builder's record of layers that could not be built.

    Returns:
        The config and the last attempt.
    """
    first: tuple[dict[str, object], Built] | None = None
    for preset in PRESETS:
        made, built = _complete(cls, {**values, **preset}, failures)
        if built.model is not None:
            return made, built
        first = first or (made, built)
    assert first is not None  # noqa: S101 - there is a preset
    return first


def _complete(cls: type, values: dict[str, object], failures: dict[str, str]) -> tuple[dict[str, object], Built]:
    """Add keys that the class (or a layer of it) insists on, one by one."""
    made = dict(values)
    for _ in range(60):
        failures.clear()
        built = Built(cls, made)
        missing = next((found for text in (built.error, *failures.values()) if (found := MISSING.search(text))), None)
        if missing is None or stated(made, missing[1]):
            break
        name = missing[1].rpartition(".")[2]
        made = put(made, missing[1], MORE[name] if name in MORE else guess(name))
    return made, built


def stated(config: dict[str, object], dotted: str) -> bool:
    """Whether a config has a dotted key."""
    value: object = config
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def guess(name: str) -> object:
    """A value for a key that a class insists on, by its name."""
    if name == TEXT_PART:
        return dict(BASE)
    if name.startswith("get_"):
        return ITSELF
    if name.endswith("hidden_size"):
        return HIDDEN
    if name.startswith(("use_", "enable_", "has_", "is_", "norm_")):
        return False
    if name.endswith("eps"):
        return 1e-6
    if name.endswith(("_config", "_parameters", "_kwargs")):
        return {}
    if name.endswith(("_ids", "_layers_list")):
        return []
    if name.endswith(("_types", "_block_type", "_pattern", "_ratios", "_freqs")):
        return ["full_attention"] * 8
    if name.startswith("num_") or name.endswith(("_size", "_dim", "_rank", "_heads", "_freq")):
        return 8
    return 1
