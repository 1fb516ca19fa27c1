"""What a scrub looks at in the database alone: versions against their manifests, aliases against versions."""

from __future__ import annotations

from hashlib import sha256

from sqlalchemy import select

from drafter_contracts.errors import ManifestError
from drafter_contracts.manifest import Manifest, decode
from drafter_registry.db.models import AliasRow, BlobRow, BoundaryRow, DrafterRow, FileRow, VersionRow
from drafter_registry.documents import DELETED, FsckProblem
from drafter_registry.service.skeleton import digest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_registry.service.context import Registry

_PAGE = 100
_RESTORE = "restore the database from a backup"
_PUBLISH = "publish the same files again: blobs that are missing are uploaded again; or delete the version"

_VERSIONS = (
    select(VersionRow.__table__, DrafterRow.name)
    .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
    .order_by(VersionRow.id)
    .limit(_PAGE)
)
_ALIASES = (
    select(DrafterRow.name, AliasRow.alias, VersionRow.id, VersionRow.version, VersionRow.state, VersionRow.drafter_id)
    .add_columns(AliasRow.drafter_id.label("owner"))
    .join(DrafterRow, DrafterRow.id == AliasRow.drafter_id)
    .outerjoin(VersionRow, VersionRow.id == AliasRow.version_id)
    .where(AliasRow.version_id.is_not(None))
    .order_by(DrafterRow.name, AliasRow.alias)
)


def scrub_rows(registry: Registry) -> tuple[int, list[FsckProblem]]:
    """How many versions there are, deleted ones too, and what is wrong with rows.

    Raises:
        UnavailableError: The database does not answer.
    """
    problems: list[FsckProblem] = []
    count = last = 0
    while True:
        with registry.database.read() as connection:
            if not registry.database.is_sqlite:  # which reads one snapshot anyway
                connection.execution_options(isolation_level="REPEATABLE READ")
            page = connection.execute(_VERSIONS.where(VersionRow.id > last)).all()
            for row in page:
                problems.extend(_version(connection, row))
        count += len(page)
        if len(page) < _PAGE:
            break
        last = page[-1].id
    with registry.database.read() as connection:
        problems.extend(_aliases(connection))
    return count, problems


def _version(connection: Connection, row: Row[tuple[Any, ...]]) -> Iterator[FsckProblem]:
    subject = f"{row.name}@{row.version}"
    files = {
        one.path: (one.size, one.digest, one.stored)
        for one in connection.execute(
            select(FileRow.path, FileRow.size, FileRow.digest, BlobRow.digest.label("stored"))
            .outerjoin(BlobRow, (BlobRow.digest == FileRow.digest) & BlobRow.doomed.is_(False))
            .where(FileRow.version_id == row.id)
        )
    }
    taps = select(BoundaryRow.boundary).where(BoundaryRow.version_id == row.id).order_by(BoundaryRow.position)
    boundaries = tuple(connection.execute(taps).scalars())
    for path, (_, digest, stored) in sorted(files.items()):
        if stored is None:
            yield _problem("file-missing", f"{subject}/{path}", f"blob {digest} is not stored", _PUBLISH)
    if row.state == DELETED:
        if files or boundaries:
            yield _problem("files-differ", subject, "the version is deleted, but rows of its files are left", _RESTORE)
        return
    manifest = None
    actual = "sha256:" + sha256(row.manifest).hexdigest()
    if actual != row.digest:
        yield _problem("manifest-digest", subject, f"the manifest is {actual}, the row says {row.digest}", _RESTORE)
    try:
        manifest = decode(row.manifest)
    except ManifestError as error:
        yield _problem("manifest-unreadable", subject, str(error), _RESTORE)
    if manifest is not None:
        yield from _compared(subject, row, manifest, {k: v[:2] for k, v in files.items()}, boundaries)


def _compared(
    subject: str,
    row: Row[tuple[Any, ...]],
    manifest: Manifest,
    files: dict[str, tuple[int, str]],
    boundaries: tuple[int, ...],
) -> Iterator[FsckProblem]:
    listed = {file.path: (file.size, digest_of(file)) for file in manifest.files}
    differing = sorted(path for path in listed.keys() | files.keys() if listed.get(path) != files.get(path))
    if differing:
        detail = "rows and manifest disagree on " + ", ".join(differing[:10])
        yield _problem("files-differ", subject, detail, _RESTORE)
    taps = manifest.layout.boundaries if manifest.layout is not None else ()
    if taps != boundaries:
        detail = f"rows say {list(boundaries)}, the manifest {list(taps)}"
        yield _problem("boundaries-differ", subject, detail, _RESTORE)
    rows = {
        "name": (row.name, manifest.name),
        "version": (row.version, manifest.version),
        "method": (row.method, manifest.method),
        "target.model": (row.target_model, manifest.target.model),
        "target.architecture": (row.target_architecture, manifest.target.architecture),
    }
    for field, (kept, recorded) in rows.items():
        if kept != recorded:
            detail = f"the row says {kept!r}, the manifest {recorded!r}"
            yield _problem("row-differs", f"{subject} {field}", detail, _RESTORE)


def _aliases(connection: Connection) -> Iterator[FsckProblem]:
    for row in connection.execute(_ALIASES):
        subject = f"{row.name}@{row.alias}"
        remedy = "move or remove the alias"
        if row.id is None:
            yield _problem("alias-dangling", subject, "it points to a version that is not there", remedy)
        elif row.state == DELETED:
            yield _problem("alias-dangling", subject, f"it points to {row.version}, which is deleted", remedy)
        elif row.drafter_id != row.owner:
            yield _problem("alias-dangling", subject, "it points to a version of another drafter", remedy)


def _problem(kind: str, subject: str, detail: str, remedy: str) -> FsckProblem:
    return FsckProblem(kind=kind, subject=subject, detail=detail, remedy=remedy)
