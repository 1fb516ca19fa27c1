"""What changed from one manifest to another, in words for somebody who serves the drafter."""

from __future__ import annotations

from typing import Any

import msgspec

from drafter_contracts.layout import RESIDUAL, Tap, describe_taps
from drafter_contracts.manifest import FileRecord, Manifest
from drafter_contracts.manifest_values import EvaluatedRecord, FingerprintRecord, IdentifiedRecord
from drafter_contracts.recording.claims import shown
from drafter_contracts.recording.field_words import CONSEQUENCES, NAMES
from drafter_contracts.recording.fingerprint import CONTRACT_FIELDS, contract_fields

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_YES_NO = {"true": "yes", "false": "no"}


class ManifestChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between two manifests.

    Attributes:
        field: Dotted field, "layout.boundaries"; of a file "files." and its path.
        before: Its value in the first, as text; "" if not recorded.
        after: In the second.
        words: What it means to somebody who serves the drafter, one sentence.
        contract: Whether it changes the contract, and so the fingerprint.
    """

    field: str
    before: str = ""
    after: str = ""
    words: str = ""
    contract: bool = False


def changes(before: Manifest, after: Manifest) -> tuple[ManifestChange, ...]:
    """Every difference, the contract's first, each in the order of the document.

    A field that is spelled otherwise and means the same is a change that says so, and is none of the contract.
    """
    ours, theirs = _leaves(before), _leaves(after)
    old_contract, new_contract = contract_fields(before), contract_fields(after)
    found = []
    for field in NAMES:
        was, becomes = ours.get(field), theirs.get(field)
        if was == becomes:
            continue
        decides = field in CONTRACT_FIELDS
        contract = decides and old_contract.get(field) != new_contract.get(field)
        same = decides and not contract
        words = f"{NAMES[field]}: spelled otherwise, with the same meaning" if same else _words(field, was, becomes)
        if field == "layout.boundaries":
            words = _captures(before, after)
        found.append(ManifestChange(field, shown(was), shown(becomes), words, contract))
    found.sort(key=lambda change: not change.contract)
    return (*found, *_files(before.files, after.files))


#: Evidence by values is told as a whole.
_WHOLE = ("layout.identified", "layout.evaluated", "state_fingerprint")


def _leaves(manifest: Manifest) -> dict[str, Any]:
    """Dotted field to value, files left out; fields that are not recorded are absent."""
    found: dict[str, Any] = {}

    def walk(struct: msgspec.Struct, head: str) -> None:
        for name in struct.__struct_fields__:
            value, field = getattr(struct, name), head + name
            if isinstance(value, msgspec.Struct) and field not in _WHOLE:
                walk(value, f"{field}.")
            elif value is not None and value not in ("", ()) and field != "files":
                found[field] = value

    walk(manifest, "")
    return found


def _words(field: str, was: Any, becomes: Any) -> str:
    tell = _summary if field in _WHOLE else shown
    name, old, new = NAMES[field], tell(was), tell(becomes)
    old, new = _YES_NO.get(old, old), _YES_NO.get(new, new)
    if was is None:
        text = f"{name}: {new}, which was not recorded before"
    elif becomes is None:
        text = f"{name}: no longer recorded, {old} before"
    else:
        text = f"{name}: {new} instead of {old}"
    more = CONSEQUENCES.get(field, "")
    return f"{text}; {more}" if more else text


def _summary(value: Any) -> str:
    """A record of evidence by values in a few words: its numbers are for programs."""
    if isinstance(value, IdentifiedRecord):
        taps = describe_taps(tuple(Tap(tap.boundary, tap.state) for tap in value.taps))
        return f"{taps} by {value.tokens} tokens of sample {value.sample_sha256[:12]}"
    if isinstance(value, EvaluatedRecord):
        return f"{value.stated.length:.2f} tokens per step over {value.rows} positions"
    if isinstance(value, FingerprintRecord):
        return f"{len(value.taps)} taps on {len(value.tokens)} tokens, {value.dtype or 'dtype not recorded'}"
    return shown(value)


def _taps(manifest: Manifest) -> tuple[Tap, ...]:
    record = manifest.layout
    if record is None:
        return ()
    states = record.states if len(record.states) == len(record.boundaries) else (RESIDUAL,) * len(record.boundaries)
    return tuple(Tap(boundary, state) for boundary, state in zip(record.boundaries, states, strict=True))


def _captures(before: Manifest, after: Manifest) -> str:
    """A change of the captured layers: position by position where as many are captured as before."""
    ours, theirs = _taps(before), _taps(after)
    if not ours or not theirs:
        return f"captures {describe_taps(theirs)} instead of {describe_taps(ours)}"
    if len(ours) != len(theirs):
        return f"captures {len(theirs)} states, {describe_taps(theirs)}, instead of {len(ours)}, {describe_taps(ours)}"
    if sorted(ours) == sorted(theirs):
        return (
            f"concatenates the same states in another order: {describe_taps(theirs)} instead of {describe_taps(ours)}"
        )
    moved = [
        f"{new.label()} instead of {old.label()} as the {_ordinal(index)} input of fc"
        for index, (old, new) in enumerate(zip(ours, theirs, strict=True))
        if old != new
    ]
    return "captures " + ", ".join(moved)


def _ordinal(index: int) -> str:
    return _ORDINALS[index] if index < len(_ORDINALS) else f"{index + 1}th"


def _files(before: tuple[FileRecord, ...], after: tuple[FileRecord, ...]) -> list[ManifestChange]:
    ours, theirs = {file.path: file for file in before}, {file.path: file for file in after}
    found = []
    for path in sorted({*ours, *theirs}):
        old, new = ours.get(path), theirs.get(path)
        if old != new:
            found.append(ManifestChange(f"files.{path}", _described(old), _described(new), _file_words(path, old, new)))
    return found


def _described(file: FileRecord | None) -> str:
    if file is None:
        return ""
    place = f" at {file.elsewhere}" if file.elsewhere else ""
    return f"sha256:{file.sha256}, {file.size} bytes{place}"


def _file_words(path: str, old: FileRecord | None, new: FileRecord | None) -> str:
    if old is None:
        return f"{path} is new"
    if new is None:
        return f"{path} is gone"
    if (old.sha256, old.size) != (new.sha256, new.size):
        return f"{path} has other bytes"
    if old.elsewhere != new.elsewhere:
        return f"{path} lies elsewhere, with the same bytes"
    return f"{path} has the same bytes, and another record of its header"
