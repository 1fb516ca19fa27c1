"""Registries with many versions, made by writing their rows: what a publication writes, without its blobs."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from hashlib import sha256

import msgspec
from sqlalchemy import insert, text

from drafter_cli.demo_files import LAYERS, TRAINED_OUTPUT_IDS, WIDTH, target_config, write_drafter
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.manifest import FileRecord, Manifest, canonical
from drafter_contracts.recording.build import record
from drafter_contracts.recording.fingerprint import fingerprint
from drafter_contracts.recording.statement import Statement
from drafter_contracts.serving.target import target_from_config
from drafter_registry.db import schema
from drafter_registry.db.database import Database
from drafter_registry.db.models import AliasRow, BoundaryRow, DrafterRow, FileRow, VersionRow
from drafter_registry.names import normal_form
from drafter_registry.service.reread import encode_facts, reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Versions of one drafter.
EACH = 25
ALIAS = "prod"
_AT_ONCE = 2000


class Stored(msgspec.Struct, frozen=True):
    """A version that an alias points to: the drafter's name, the version, its digest."""

    name: str
    version: str
    digest: str


def fill(url: str, count: int) -> tuple[Stored, ...]:
    """Make a registry with `count` versions, each drafter's last one under `ALIAS`.

    Args:
        url: Of an empty database.
        count: Versions, a multiple of `EACH`.

    Returns:
        What the aliases point to.
    """
    database = Database(url)
    try:
        schema.create_or_check(database)
        template, facts = _template()
        pointed: list[Stored] = []
        for first in range(0, count, _AT_ONCE):
            pointed += _write(database, template, facts, range(first, min(first + _AT_ONCE, count)))
        if not database.is_sqlite:
            with database.write() as connection:
                connection.execute(text("ANALYZE"))  # as autovacuum does within a minute of so many rows
        return tuple(pointed)
    finally:
        database.close()


def _template() -> tuple[Manifest, bytes]:
    """The demo's drafter as `drafters publish` records it, and its facts."""
    target = target_from_config(target_config(), "moonshotai/Kimi-K2.5", source="config.json")
    with tempfile.TemporaryDirectory() as folder:
        facts = read_drafter(
            write_drafter(folder, ids=TRAINED_OUTPUT_IDS), target_layers=LAYERS, target_hidden_size=WIDTH
        )
    said = Statement(
        name="drafter",
        version="1.0.0",
        boundaries=tuple(taken + 1 for taken in TRAINED_OUTPUT_IDS),
        option="--output-ids",
        producer="specforge==0.2.0",
        steps=3,
        topk=1,
        draft_tokens=4,
    )
    files = tuple(FileRecord(path=path, size=1, sha256="0" * 64) for path in ("config.json", "model.safetensors"))
    recorded = record(facts, said, target, files)
    if recorded.manifest is None or recorded.obstacles:
        raise AssertionError(recorded.obstacles)
    return recorded.manifest, encode_facts(facts)


def _write(database: Database, template: Manifest, facts: bytes, numbers: range) -> list[Stored]:
    rows: dict[Any, list[dict[str, Any]]] = {
        table: [] for table in (DrafterRow, VersionRow, FileRow, BoundaryRow, AliasRow)
    }
    pointed, now, read_by = [], datetime.now(UTC), reader()
    contract = fingerprint(template)
    for number in numbers:
        drafter, name = number // EACH + 1, f"drafter-{number // EACH:05d}-eagle3"
        if number % EACH == 0:
            rows[DrafterRow].append({"id": drafter, "name": name, "normal_form": normal_form(name), "created_at": now})
        manifest = _numbered(template, name, number)
        data = canonical(manifest)
        digest = "sha256:" + sha256(data).hexdigest()
        rows[VersionRow].append(
            _row(manifest, data, digest, contract, facts, read_by, now) | {"id": number + 1, "drafter_id": drafter}
        )
        rows[FileRow] += [
            {"version_id": number + 1, "path": file.path, "size": file.size, "digest": f"sha256:{file.sha256}"}
            for file in manifest.files
        ]
        boundaries = manifest.layout.boundaries if manifest.layout is not None else ()
        rows[BoundaryRow] += [
            {"version_id": number + 1, "position": i, "boundary": boundary} for i, boundary in enumerate(boundaries)
        ]
        if number % EACH == EACH - 1:
            rows[AliasRow].append({"drafter_id": drafter, "alias": ALIAS, "version_id": number + 1, "revision": 1})
            pointed.append(Stored(name, manifest.version, digest))
    with database.write() as connection:
        for table, values in rows.items():
            connection.execute(insert(table), values)
    return pointed


def _numbered(template: Manifest, name: str, number: int) -> Manifest:
    """Another version with the same contract and other weights."""
    weights = sha256(f"{number}".encode()).hexdigest()
    files = tuple(msgspec.structs.replace(file, sha256=weights) for file in template.files)
    return msgspec.structs.replace(template, name=name, version=f"1.{number % EACH}.0", files=files)


def _row(
    manifest: Manifest, data: bytes, digest: str, contract: str, facts: bytes, read_by: str, now: datetime
) -> dict[str, Any]:
    return {
        "version": manifest.version,
        "digest": digest,
        "fingerprint": contract,
        "manifest": data,
        "facts": facts,
        "facts_by": read_by,
        "method": manifest.method,
        "target_model": manifest.target.model,
        "target_architecture": manifest.target.architecture,
        "size": sum(file.size for file in manifest.files),
        "state": "live",
        "published_at": now,
        "published_by": "benchmark",
        "tool": "benchmark",
        "state_at": None,
        "state_by": "",
        "state_why": "",
    }
