"""From a drafter's files and the publisher's word to its manifest, or to the reasons why there is none yet."""

from __future__ import annotations

from typing import Any

import msgspec

from drafter_contracts.checkpoint.facts import METHODS, UNKNOWN_METHOD, DrafterFacts
from drafter_contracts.errors import ManifestError
from drafter_contracts.manifest import (
    SCHEMA,
    Acceptance,
    DraftRecord,
    FileRecord,
    FingerprintRecord,
    Manifest,
    Provenance,
    Recommended,
    canonical,
    decode,
)
from drafter_contracts.recording.audit import contradictions, missing
from drafter_contracts.recording.claims import Claim, Line
from drafter_contracts.recording.derive import Derived, derive_draft
from drafter_contracts.recording.evaluation import evaluated
from drafter_contracts.recording.layouts import record_layout
from drafter_contracts.recording.ledger import PUBLISHER, Ledger
from drafter_contracts.recording.statement import Statement
from drafter_contracts.recording.targets import record_target
from drafter_contracts.serving.launch import TargetFacts

__all__ = ["Recorded", "record"]

#: Facts of the drafter that the publisher may state; `Statement` names them as `DraftRecord` does.
_STATED = ("trained_context", "thinking_mode", "dtype", "embeddings", "lm_head", "rotated")
_PROVENANCE = ("producer", "training_data", "created", "source", "revision", "urls", "notes")
_RECOMMENDED = ("steps", "topk", "draft_tokens", "speculative_tokens")


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What recording a drafter gives.

    Attributes:
        manifest: The manifest; None while there are obstacles.
        read: Facts that were read, with the file and the key or tensor.
        taken_on_word: Facts that nothing but somebody's word supports, with whose.
        told_by_values: Facts that recorded states tell, with the document that says so.
        obstacles: Why there is no manifest, each with what settles it.
        notes: What was given and is not recorded, with the reason.
    """

    manifest: Manifest | None
    read: tuple[Line, ...] = ()
    taken_on_word: tuple[Line, ...] = ()
    told_by_values: tuple[Line, ...] = ()
    obstacles: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()


def record(
    facts: DrafterFacts, statement: Statement, target: TargetFacts | None, files: tuple[FileRecord, ...]
) -> Recorded:
    """Put a drafter's manifest together.

    Args:
        facts: What its files say, read with the target's depth and width where they are known.
        statement: What the publisher says, and the manifest that lay beside the weights.
        target: The target's config, or None if it is not at hand.
        files: The drafter's files; empty where they are not hashed yet.

    Returns:
        The manifest with where each fact comes from; or no manifest, and every reason for that.
    """
    ledger = Ledger(statement.manifest_source)
    base = statement.manifest or Manifest(schema=SCHEMA)
    read = "" if facts.method == UNKNOWN_METHOD else facts.method
    method = ledger.choose("method", statement.method, base.method, read, "; ".join(facts.method_evidence))
    target_record = record_target(facts, statement, base.target, target, ledger)
    layout = record_layout(facts, method, statement, target_record, ledger)
    if layout is not None:
        layout = evaluated(layout, statement.evidence, target_record, files, ledger)
    manifest = Manifest(
        schema=SCHEMA,
        name=ledger.choose("name", statement.name, base.name, "", ""),
        version=ledger.choose("version", statement.version, base.version, "", ""),
        method=method,
        target=target_record,
        layout=layout,
        draft=_draft(facts, statement, base.draft, ledger),
        recommended=Recommended(**_said("recommended", _RECOMMENDED, statement, base.recommended, ledger)),
        acceptance=_acceptance(statement, base, ledger),
        files=tuple(sorted(files, key=lambda file: file.path)),
        provenance=_provenance(facts, statement, base.provenance, ledger),
        state_fingerprint=_state_fingerprint(base, ledger),
    )
    obstacles = _obstacles(manifest, facts, ledger)
    return Recorded(
        manifest=None if obstacles else manifest,
        read=tuple(ledger.read),
        taken_on_word=tuple(ledger.word),
        told_by_values=tuple(ledger.values),
        obstacles=obstacles,
        notes=tuple(ledger.notes),
    )


def _acceptance(statement: Statement, base: Manifest, ledger: Ledger) -> tuple[Acceptance, ...]:
    """The publisher's measurements, else those of the manifest beside the weights; a line each, not as JSON."""
    found, source = (
        (statement.acceptance, PUBLISHER) if statement.acceptance else (base.acceptance, ledger.manifest_source)
    )
    for one in found:
        where = ", ".join(filter(None, (one.measured, one.dataset, one.engine)))
        told = f"{one.length:.2f} tokens per step" + (f" ({where})" if where else "")
        ledger.word.append(Line("acceptance", told, source))
    return found


def _state_fingerprint(base: Manifest, ledger: Ledger) -> FingerprintRecord | None:
    """That of the manifest beside the weights, on its word; whether it fits the layout is seen with the obstacles."""
    record = base.state_fingerprint
    if record is not None:
        told = f"{len(record.taps)} taps on {len(record.tokens)} tokens"
        ledger.word.append(Line("state_fingerprint", told, ledger.manifest_source))
    return record


def _draft(facts: DrafterFacts, statement: Statement, base: DraftRecord, ledger: Ledger) -> DraftRecord:
    derived = derive_draft(facts)
    fields: dict[str, Any] = {}
    for name in DraftRecord.__struct_fields__:
        stated = getattr(statement, name) if name in _STATED else None
        read = derived.get(name, Derived(None, ""))
        fields[name] = ledger.choose(f"draft.{name}", stated, getattr(base, name), read.value, read.place)
    return DraftRecord(**fields)


def _said(
    part: str, names: tuple[str, ...], statement: Statement, base: Recommended | Provenance, ledger: Ledger
) -> dict[str, Any]:
    """Fields of a part of which no file says anything."""
    return {
        name: ledger.choose(f"{part}.{name}", getattr(statement, name), getattr(base, name), None, "") for name in names
    }


def _provenance(facts: DrafterFacts, statement: Statement, base: Provenance, ledger: Ledger) -> Provenance:
    fields = _said("provenance", _PROVENANCE, statement, base, ledger)
    read = facts.layout.producer
    if not fields["producer"] and " or " not in read:
        fields["producer"] = ledger.choose("provenance.producer", "", "", read, "config.json: what only it writes")
    return Provenance(**fields)


def _obstacles(manifest: Manifest, facts: DrafterFacts, ledger: Ledger) -> tuple[Claim, ...]:
    """Everything that is in the way; what follows from an obstacle is not told a second time."""
    found = list(ledger.obstacles)
    if manifest.method not in ("", *METHODS):
        found.append(Claim("/method", "not a method", ", ".join(METHODS), manifest.method))
    for claim in (*missing(manifest), *contradictions(manifest, facts)):
        told = {_part(one.pointer) for one in found}
        if manifest.layout is None and "/target/layers" in told:
            told.add("/layout")  # it was the depth that was missing
        if claim.pointer != "/files" and _part(claim.pointer) not in told:
            found.append(claim)
    if not found:
        found += _unreadable(manifest)
    return tuple(dict.fromkeys(found))


def _part(where: str) -> str:
    """All of the layout is one subject; everything else is a subject of its own."""
    return "/layout" if where.startswith("/layout") else where


def _unreadable(manifest: Manifest) -> list[Claim]:
    """A manifest that its own reader would refuse: a number too large, text that is no Unicode, a layout too deep."""
    try:
        decode(canonical(manifest), where="manifest")
    except ManifestError as error:
        field = error.where.partition(": ")[2]
        path = "/" + field.replace("[", ".").replace("]", "").replace(".", "/")
        return [Claim(path, error.message, error.expected, error.actual)]
    except ValueError as error:
        return [Claim("/draft", f"config.json holds a value that no manifest can: {error}", "text, finite numbers")]
    return []
