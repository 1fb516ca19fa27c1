"""Who made a drafter, as far as its files tell."""

from __future__ import annotations

from drafter_contracts.checkpoint.config_view import ConfigView, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Architecture to producer: names that only one framework writes, or that name the few that do.
_ARCHITECTURES = {
    "Eagle3LlamaForCausalLM": "AngelSlim",
    "QwenDFlareDraftModel": "AngelSlim",
    "Qwen3DSparkModel": "DeepSpec",
    "Gemma4DSparkModel": "DeepSpec",
    "Qwen3DFlashModel": "DeepSpec",
    "Qwen3Eagle3Model": "DeepSpec",
    "LlamaForCausalLMEagle3": "SpecForge or ModelOpt",
    "PEagleDraftModel": "SpecForge or speculators",
    "DominoDraftModel": "SpecForge",
    "Eagle3DeepseekV2ForCausalLM": "TorchSpec or ModelOpt",
    "DFlashDraftModel": "z-lab or SpecForge",
    "DFlash2DraftModel": "z-lab",
    "DSparkDraftModel": "SpecForge",
    "DFlashLagunaForCausalLM": "Poolside",
}


def producer_of(view: ConfigView, metadata: Mapping[str, str] | None = None) -> str:
    """The producer, with its version where the files give one; "" if nothing tells.

    Args:
        view: config.json.
        metadata: `__metadata__` of the weight files.
    """
    if view.has("speculators_model_type"):
        version = view.text("speculators_version")
        return f"speculators {version}" if version[:1].isdigit() else "speculators"
    torchspec = view.text("_torchspec_version") or (metadata or {}).get("torchspec_version", "")
    if torchspec:
        return f"TorchSpec {torchspec}"
    if view.has("aux_hidden_states_layer_ids"):
        return "AngelSlim"
    if view.has("model.ttt_length", "model.num_draft_layers"):
        return "DeepSpec"
    if any("eagle3." in key or "general.architecture" in key for key in view.config):
        return "llama.cpp"
    architectures = view.texts("architectures")
    if architectures and architectures[0] in _ARCHITECTURES:
        return _ARCHITECTURES[architectures[0]]
    if dotted(view.config, "draft_vocab_size") is not None and architectures[:1] == ("LlamaForCausalLM",):
        return "SafeAILab/EAGLE"
    return ""


def speculators_minor(view: ConfigView) -> int | None:
    """The y of a speculators version 0.y.z, or None if it is not stated (or not of that form)."""
    parts = view.text("speculators_version").split(".")
    if len(parts) < 2 or parts[0] != "0" or not parts[1].isdecimal():
        return None
    return int(parts[1])
