"""The target by its record in a manifest, where its config.json is not at hand."""

from __future__ import annotations

from drafter_contracts.serving.launch import TargetFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.manifest import TargetRecord

SOURCE = "drafters-manifest.json: target"


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
        num_layers=record.layers,
        hidden_size=record.hidden_size,
        vocab_size=record.vocab_size,
        tokenizer_sha256=record.tokenizer_sha256,
    )


def is_believed(target: TargetFacts) -> bool:
    """Whether these facts are a manifest's word and not the target's config."""
    return target.source == SOURCE
