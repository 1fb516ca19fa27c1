"""The manifest: what a drafter was trained on, recorded in `drafters-manifest.json` beside its weights.

The document is strict: unknown fields are refused, so that a misspelt key cannot turn a requirement off.
Its identity is the sha256 of its canonical bytes: keys sorted, defaults left out, no white space, UTF-8.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import LayoutError, ManifestError
from drafter_contracts.layout import RESIDUAL, CaptureLayout, Tap, describe_taps
from drafter_contracts.manifest_records import (
    Acceptance,
    DraftRecord,
    FileRecord,
    LayoutRecord,
    Provenance,
    Recommended,
    RenderRecord,
    StatedIds,
    TargetRecord,
)
from drafter_contracts.manifest_values import FingerprintRecord
from drafter_contracts.situation import Requirements, StatedLayout

__all__ = [
    "FILE_NAME",
    "MEDIA_TYPE",
    "SCHEMA",
    "Acceptance",
    "DraftRecord",
    "FileRecord",
    "FingerprintRecord",
    "LayoutRecord",
    "Manifest",
    "Provenance",
    "Recommended",
    "RenderRecord",
    "StatedIds",
    "TargetRecord",
    "canonical",
    "decode",
    "digest",
    "json_schema",
    "read_manifest",
]

SCHEMA: Literal["drafters.manifest.v1"] = "drafters.manifest.v1"
MEDIA_TYPE = "application/vnd.drafters.manifest.v1+json"
FILE_NAME = "drafters-manifest.json"


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A drafter, its target, and the layers between them.

    Attributes:
        schema: Name and version of this document's schema.
        name: The drafter's name.
        version: Its version.
        method: "EAGLE3", "DFLASH", ...: one of `checkpoint.facts.METHODS`.
        target: The target.
        layout: The capture layout; None for drafters that read no aux hidden states, or if it is not known.
        draft: Facts of the drafter.
        recommended: Speculative arguments.
        acceptance: Measured acceptances.
        files: The drafter's files, sorted by path; empty for a manifest that lies beside them.
        provenance: Where it comes from.
        render: Of which version these files are a render; None for a version itself. Never published.
        state_fingerprint: The target's states at the taps, on a fixed probe: not the fingerprint of the contract.
    """

    schema: Literal["drafters.manifest.v1"]
    name: str = ""
    version: str = ""
    method: str = ""
    target: TargetRecord = TargetRecord()
    layout: LayoutRecord | None = None
    draft: DraftRecord = DraftRecord()
    recommended: Recommended = Recommended()
    acceptance: tuple[Acceptance, ...] = ()
    files: tuple[FileRecord, ...] = ()
    provenance: Provenance = Provenance()
    render: RenderRecord | None = None
    state_fingerprint: FingerprintRecord | None = None

    def capture_layout(self) -> CaptureLayout | None:
        """The layout as a value, checked against the target's depth; None if none is recorded.

        Raises:
            ManifestError: A layout that cannot exist on a target of the recorded depth.
        """
        record = self.layout
        if record is None:
            return None
        states: tuple[str, ...] = record.states or (RESIDUAL,) * len(record.boundaries)
        if len(states) != len(record.boundaries):
            raise ManifestError(
                "one state per boundary",
                where="layout.states",
                expected=f"{len(record.boundaries)} states",
                actual=str(len(states)),
            )
        taps = tuple(Tap(boundary, state) for boundary, state in zip(record.boundaries, states, strict=True))
        width = self.target.hidden_size
        widths = record.widths or ((width,) * len(taps) if width is not None else ())
        try:
            layout = CaptureLayout(taps, widths, record.norm).check(self.target.layers)
        except LayoutError as error:
            raise ManifestError(error.message, where="layout", expected=error.expected, actual=error.actual) from error
        _check_repeated(record, layout)
        return layout

    def stated_layout(self, source: str = FILE_NAME) -> StatedLayout | None:
        """The layout on the manifest's word, or None if it records none.

        Raises:
            ManifestError: See `capture_layout`.
        """
        layout = self.capture_layout()
        if layout is None or self.layout is None:
            return None
        by_rule = self.layout.known_by == "producer rule"
        origin = "manifest" if self.render is None else "render"
        return StatedLayout(layout, origin, f"{source}: layout", "producer rule" if by_rule else "declared")

    def requirements(self, source: str = FILE_NAME) -> Requirements:
        """Everything else that the rules compare."""
        target, draft = self.target, self.draft
        return Requirements(
            source=source,
            target_name=target.model,
            target_architecture=target.architecture,
            target_layers=target.layers,
            target_hidden_size=target.hidden_size,
            target_vocab_size=target.vocab_size,
            target_tokenizer_sha256=target.tokenizer_sha256,
            trained_context=draft.trained_context,
            trained_block_size=draft.block_size,
            dtype=draft.dtype,
            embeddings=draft.embeddings,
            lm_head=draft.lm_head,
            rope_theta=draft.rope_theta,
            norm_output=draft.norm_output,
            norm_before_residual=draft.norm_before_residual,
            speculative_tokens=self.recommended.speculative_tokens,
            thinking_mode=draft.thinking_mode,
            rotated=draft.rotated,
        )


def _check_repeated(record: LayoutRecord, layout: CaptureLayout) -> None:
    """What a layout says twice must be the same."""
    if record.output_ids and record.output_ids != layout.output_ids:
        raise ManifestError(
            "output ids are the boundaries less one",
            where="layout.output_ids",
            expected=str(list(layout.output_ids)),
            actual=str(list(record.output_ids)),
        )
    _check_values(record, layout)
    width = layout.fc_input_width
    if record.fc_input_width is not None and width is not None and record.fc_input_width != width:
        raise ManifestError(
            "fc's input is as wide as all taps together",
            where="layout.fc_input_width",
            expected=str(width),
            actual=str(record.fc_input_width),
        )


def _check_values(record: LayoutRecord, layout: CaptureLayout) -> None:
    """A layout cannot stand beside numbers that say another one."""
    told: list[tuple[str, tuple[Tap, ...]]] = []
    if record.identified is not None:
        told.append(("identified", tuple(Tap(tap.boundary, tap.state) for tap in record.identified.taps)))
    if record.evaluated is not None:
        stated = record.evaluated.stated
        states: tuple[str, ...] = stated.states or (RESIDUAL,) * len(stated.boundaries)
        told.append(("evaluated", tuple(map(Tap, stated.boundaries, states))))
    for name, taps in told:
        if taps != layout.taps:
            raise ManifestError(
                f"the layout is not the one that was {name} by values",
                where=f"layout.{name}",
                expected=describe_taps(layout.taps),
                actual=describe_taps(taps),
            )


def decode(data: bytes, *, where: str = FILE_NAME) -> Manifest:
    """A manifest from its JSON bytes.

    Args:
        data: The document.
        where: File name for errors.

    Raises:
        ManifestError: Not JSON, an unknown field, a wrong type or value, or an impossible layout. Names the
            file, the field, what was expected and what was found.
    """
    if len(data) > limits.manifest_max_bytes:
        raise ManifestError(
            "the manifest is too large",
            where=where,
            expected=f"at most {limits.manifest_max_bytes} bytes",
            actual=f"{len(data)} bytes",
        )
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.ValidationError as error:
        raise _explain(str(error), data, where) from error
    except msgspec.DecodeError as error:
        raise ManifestError("not a JSON document", where=where, expected="JSON", actual=str(error)) from error
    try:
        layout = manifest.capture_layout()
        if manifest.state_fingerprint is not None:
            from drafter_contracts.fingerprint_check import check_fingerprint

            check_fingerprint(manifest.state_fingerprint, layout, manifest.target)
    except ManifestError as error:
        field = f"{where}: {error.where}"
        raise ManifestError(error.message, where=field, expected=error.expected, actual=error.actual) from error
    return manifest


def _explain(text: str, data: bytes, where: str) -> ManifestError:
    """Msgspec's one-line message, taken apart into field, expected and actual."""
    message, _, path = text.partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    place = f"{where}: {field}" if field else where
    if message.startswith("Object contains unknown field"):
        name = message.split("`")[1]
        return ManifestError(f"unknown field {name!r}", where=place, expected="a field of the schema", actual=name)
    if message.startswith("Object missing required field"):
        name = message.split("`")[1]
        return ManifestError(f"field {name!r} is missing", where=place, expected=name, actual="nothing")
    expected, found, actual = message.removeprefix("Expected ").partition(", got ")
    actual = actual if found else _value_at(data, path)
    expected = expected.replace("`", "")
    if message.startswith("Invalid enum value") and field in {"schema", ""}:
        expected = SCHEMA
    return ManifestError(
        "the field has a wrong value", where=place, expected=expected, actual=actual.replace("`", "") or "another value"
    )


def _value_at(data: bytes, path: str) -> str:
    """The offending value as JSON text, for an error's `actual`."""
    value: Any = msgspec.json.decode(data)
    for part in path.rstrip("`").replace("[", ".").replace("]", "").split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
    return msgspec.json.encode(value).decode()[:80]


def read_manifest(directory: str) -> Manifest | None:
    """The manifest of a drafter directory, or None if there is none.

    Raises:
        ManifestError: The file cannot be read or does not follow the schema.
    """
    path = os.path.join(directory, FILE_NAME)
    try:
        with open(path, "rb") as stream:
            data = stream.read(limits.manifest_max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ManifestError("the manifest cannot be read", where=path, actual=str(error.strerror)) from error
    return decode(data, where=path)


def canonical(manifest: Manifest) -> bytes:
    """The manifest's canonical bytes: keys sorted, defaults left out, no white space, UTF-8."""
    import json

    plain = msgspec.to_builtins(manifest)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(manifest: Manifest) -> str:
    """The manifest's identity: "sha256:" and the hex digest of its canonical bytes."""
    import hashlib

    return "sha256:" + hashlib.sha256(canonical(manifest)).hexdigest()


def json_schema() -> dict[str, Any]:
    """The document's JSON Schema (2020-12), generated from the classes above."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Manifest)}
