"""The contract of a manifest: the fields that decide whether and how the drafter is served, and their digest.

Two versions with the same fingerprint may stand in for each other in any launch. The name and revision of the target
are no part of it: a fine-tune of the same architecture, sizes and tokenizer takes the same launch, and whether the
drafter is accepted there is measured, not compared. Output ids and the width of `fc` are no part either: they follow
from boundaries and widths.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from drafter_contracts.layout import RESIDUAL
from drafter_contracts.manifest import LayoutRecord, Manifest
from drafter_contracts.recording.derive import plain_dtype

#: Dotted fields of a manifest that are part of its contract.
CONTRACT_FIELDS = (
    "method",
    "target.architecture",
    "target.layers",
    "target.hidden_size",
    "target.vocab_size",
    "target.tokenizer_sha256",
    "target.context_length",
    "target.model_type",
    "target.text_model_type",
    "layout.boundaries",
    "layout.states",
    "layout.widths",
    "layout.norm",
    "draft.vocab_size",
    "draft.embeddings",
    "draft.lm_head",
    "draft.trained_context",
    "draft.rope_theta",
    "draft.dtype",
    "draft.block_size",
    "draft.norm_output",
    "draft.norm_before_residual",
    "draft.thinking_mode",
    "draft.rotated",
    "draft.architecture",
    "draft.hidden_size",
    "draft.layers",
    "draft.target_vocab_size",
    "draft.vocab_mapping",
    "draft.has_embedding",
    "draft.has_lm_head",
    "draft.context_length",
    "draft.rope_scaling",
    "draft.weights_dtype",
    "draft.quantization",
    "draft.attention",
    "draft.mask_token_id",
)
#: Goes into the digest, so that a later selection of fields never gives a digest of this one.
_VERSION = "drafters.contract.v1"


def contract_fields(manifest: Manifest) -> dict[str, Any]:
    """The contract as dotted fields; what is not recorded is absent, and one meaning has one spelling.

    States and widths that the manifest leaves to their defaults are written out, dtypes are in safetensors' words, and
    numbers that are whole are integers.
    """
    found: dict[str, Any] = {}
    for field in CONTRACT_FIELDS:
        value: Any = manifest
        for part in field.split("."):
            value = getattr(value, part) if value is not None else None
        found[field] = value
    if manifest.layout is not None:
        found |= _layout(manifest.layout, manifest.target.hidden_size)
    for field in ("draft.dtype", "draft.weights_dtype"):
        found[field] = plain_dtype(found[field])
    found["draft.rope_scaling"] = _scaling(found["draft.rope_scaling"])
    return {field: _plain(value) for field, value in found.items() if value is not None and value not in ("", ())}


def fingerprint(manifest: Manifest) -> str:
    """Digest of the contract alone: "sha256:" and the hex digest of its fields as canonical JSON."""
    document = {"contract": contract_fields(manifest), "schema": _VERSION}
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(data.encode()).hexdigest()


def _layout(record: LayoutRecord, width: int | None) -> dict[str, Any]:
    """States and widths in full."""
    taps = len(record.boundaries)
    return {
        "layout.states": record.states or (RESIDUAL,) * taps,
        "layout.widths": record.widths or ((width,) * taps if width is not None else ()),
    }


def _scaling(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """RoPE scaling; what says that there is none is None."""
    if not value or value.get("rope_type", value.get("type")) == "default":
        return None
    return value


def _plain(value: Any) -> Any:
    """A value with one spelling: lists for tuples, integers for whole numbers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)
