"""What a publisher says on word: everything that no file of the drafter can confirm, and what settles a doubt."""

from __future__ import annotations

import msgspec

from drafter_contracts.evidence.given import Given
from drafter_contracts.manifest import FILE_NAME, Acceptance, Manifest
from drafter_contracts.manifest_records import Owner
from drafter_contracts.value_types import State


class Statement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The publisher's word. None or empty: not stated.

    What is stated here precedes `manifest`, the document that lay beside the weights, what both leave
    open is read off the files.

    Attributes:
        name: The drafter's name.
        version: Its version.
        method: One of `checkpoint.facts.METHODS`, where neither config nor tensors tell it.
        boundaries: The layout trained on, as boundaries in concatenation order.
        option: The option that stated them, as written ("--output-ids 2,30,58").
        states: State per boundary; empty means `residual` for all.
        producer: Training tool and version, "specforge==0.2.0".
        target_model: Name of the target, normally a Hub id.
        target_revision: Commit of its repository.
        steps: Recommended `--speculative-num-steps`.
        topk: Recommended `--speculative-eagle-topk`.
        draft_tokens: Recommended `--speculative-num-draft-tokens`, the root included.
        speculative_tokens: Recommended drafted tokens, the root not counted.
        acceptance: Measured acceptances.
        source: Where the files were taken from, "hf://ORG/REPO".
        revision: Commit there.
        training_data: What it was trained on.
        created: When it was trained, ISO 8601.
        urls: Where to read more.
        notes: Anything else, one line each.
        trained_context: Longest context trained on, tokens.
        thinking_mode: Chat mode trained on: "on", "off", "both", or free text.
        dtype: Dtype it must run in.
        embeddings: Whose embeddings it was trained with, "own" or "target".
        lm_head: Whose head it was trained with, "own" or "target".
        rotated: Trained on a rotated residual basis.
        manifest: The manifest that lay beside the weights, or None.
        manifest_source: What to call that document.
        evidence: Documents that tell the layers, or what the drafter makes of them, by values.
    """

    name: str = ""
    version: str = ""
    method: str = ""
    boundaries: tuple[int, ...] | None = None
    option: str = ""
    states: tuple[State, ...] = ()
    producer: str = ""
    target_model: str = ""
    target_revision: str = ""
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    speculative_tokens: int | None = None
    acceptance: tuple[Acceptance, ...] = ()
    source: str = ""
    revision: str = ""
    training_data: str = ""
    created: str = ""
    urls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trained_context: int | None = None
    thinking_mode: str = ""
    dtype: str = ""
    embeddings: Owner = ""
    lm_head: Owner = ""
    rotated: bool | None = None
    manifest: Manifest | None = None
    manifest_source: str = FILE_NAME
    evidence: tuple[Given, ...] = ()

    def spoken(self) -> str:
        """The option that stated the layout, for messages."""
        return self.option or "the publisher"
