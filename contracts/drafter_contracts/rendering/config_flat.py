"""A config in speculators' format laid flat: what an engine reads at the top lies at the top.

speculators nests the drafter's transformer (`transformer_layer_config`) and keeps its own records beside it
(`speculators_config`, ...); its capture ids are boundaries under a key of its own.
See https://github.com/vllm-project/speculators, `SpeculatorModelConfig` and `Eagle3SpeculatorConfig` of 0.9.0.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.rendering.config_edit import ConfigEdit

_NEST = "transformer_layer_config"
_MARKS = ("speculators_model_type", "speculators_version", "speculators_config")
#: Its capture ids: boundaries, under names that SGLang does not read them from.
_IDS = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
#: What the transformer says of itself, and the speculator cannot say for it.
_TRANSFORMERS_OWN = ("model_type",)
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def in_speculators_format(config: dict[str, object]) -> bool:
    """Whether a config has the layout of speculators."""
    return _NEST in config or any(mark in config for mark in _MARKS)


def lay_flat(edit: ConfigEdit, facts: DrafterFacts, engine: str) -> None:
    """Bring a config in speculators' format to the form that other trainers write; others stay as they are.

    Args:
        edit: The config.
        facts: What the drafter's files say.
        engine: The release for the reasons, "sglang 0.5.23".
    """
    if not in_speculators_format(edit.config):
        return
    _raise_nested(edit, engine)
    marks = [mark for mark in _MARKS if mark in edit.config]
    if marks:
        edit.config = {key: value for key, value in edit.config.items() if key not in marks}
        edit.changes.append(
            f"{', '.join(marks)} left out: speculators' own, of a format that this config no longer has"
        )
    edit.drop("auto_map", "it names speculators' code, which is not among the files")
    for key in _IDS:
        edit.drop(key, f"speculators' numbering, which {engine} does not read here")
    dtype = _DTYPES.get(facts.dtype, "")
    stated = edit.config.get("torch_dtype", edit.config.get("dtype"))
    if dtype and isinstance(stated, str) and stated.removeprefix("torch.") != dtype:
        key = "torch_dtype" if "torch_dtype" in edit.config else "dtype"
        edit.put(key, dtype, "the dtype of its weights")


def _raise_nested(edit: ConfigEdit, engine: str) -> None:
    nested = edit.config.get(_NEST)
    if not isinstance(nested, dict):
        edit.drop(_NEST, "it holds no dimensions")
        return
    top = {key: value for key, value in edit.config.items() if key != _NEST}
    own = {key: nested[key] for key in _TRANSFORMERS_OWN if nested.get(key) is not None}
    inner = {key: value for key, value in nested.items() if key != "architectures"}
    edit.config = {**inner, **top, **own}
    moved = sorted(key for key in inner if key not in top or key in own)
    edit.changes.append(f"{_NEST} is laid flat ({', '.join(moved)}): {engine} reads these keys at the top")
