"""The target of a launch that runs elsewhere: by a config that somebody sent, or by its record in a manifest."""

from __future__ import annotations

from drafter_contracts.errors import TargetError
from drafter_contracts.rules.runtime import POSITIONS
from drafter_contracts.serving.launch import TargetFacts
from drafter_contracts.serving.target import LAYERS, STREAMS, TEXT_CONFIGS, WIDTHS, target_from_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import TargetRecord
    from drafter_contracts.serving.launch import ServingConfig

SOURCE = "drafters-manifest.json: target"
#: Keys of a config that change what a manifest records of a target.
_RECORDED = frozenset({
    "architectures", "model_type", "num_loops", "rope_scaling", "vocab_size",
    *LAYERS, *POSITIONS, *WIDTHS, *STREAMS, *TEXT_CONFIGS,
})  # fmt: skip


def target_of_record(record: TargetRecord, path: str = "") -> TargetFacts:
    """What a manifest records of its target; what it does not record stays unknown.

    Args:
        record: The manifest's record.
        path: What the launch calls the target; "" for its recorded name.
    """
    return TargetFacts(
        path=path or record.model,
        source=SOURCE,
        architecture=record.architecture,
        model_type=record.model_type,
        text_model_type=record.text_model_type or record.model_type,
        num_layers=record.layers,
        hidden_size=record.hidden_size,
        vocab_size=record.vocab_size,
        max_position_embeddings=record.context_length,
        tokenizer_sha256=record.tokenizer_sha256,
    )


def is_believed(target: TargetFacts) -> bool:
    """Whether these facts are a manifest's word and not the target's config."""
    return target.source == SOURCE


def as_launched(target: TargetFacts, serving: ServingConfig, profile: Profile) -> tuple[TargetFacts | None, str]:
    """The target with the launch's overrides, where the release applies them to it; or None and why not.

    Args:
        target: Before any override.
        serving: The launch.
        profile: The release.
    """
    rules = profile.launch.overrides
    if not serving.overrides or not rules.target:
        return target, ""
    if is_believed(target):
        changed = sorted(_RECORDED.intersection(serving.overrides))
        if changed:
            return None, f"the launch overrides {', '.join(changed)} of a config.json that was not given"
        return target, ""
    try:
        seen = target_from_config(
            target.config,
            target.path,
            source=target.source,
            overrides=serving.overrides,
            merged=rules.merged,
            tokenizer_sha256=target.tokenizer_sha256,
        )
    except TargetError as error:
        return None, error.diagnostics()
    return seen, ""
