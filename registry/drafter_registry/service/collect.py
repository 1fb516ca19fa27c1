"""Collection: blobs that no version names, uploads that nobody continues, bytes that nobody knows of, old observations.

A blob is removed in two steps. First its row is marked `doomed`, which from then on counts as missing; then, in a
second transaction that asks everything again, bytes and row go. Whoever is killed in between leaves a doomed row, which
the next collection finishes and the next upload of those bytes takes back. No row promises bytes that are gone.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import msgspec
from sqlalchemy import delete, exists, func, or_, select, update

from drafter_registry.db.models import AcceptanceRow, BlobRow, FileRow, ObservationRow, UploadRow, VersionRow
from drafter_registry.documents import DELETED, GcReport
from drafter_registry.failpoints import reached
from drafter_registry.service import audit
from drafter_registry.service.access import require
from drafter_registry.service.observation_rows import oldest_hour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from sqlalchemy import Connection

    from drafter_registry.blobs.store import Stored
    from drafter_registry.service.context import Actor, Registry

#: Rows asked for at once.
_PAGE = 500

_NAMED = exists().where(FileRow.digest == BlobRow.digest).correlate(BlobRow)


class _Gone(msgspec.Struct):
    """What a collection removed so far."""

    blobs: list[str] = []
    orphans: list[str] = []
    size: int = 0
    uploads: int = 0
    observations: int = 0


def collect(registry: Registry, actor: Actor, *, dry_run: bool = False) -> GcReport:
    """Remove what nobody needs and nobody is about to need. May run while others publish, and several at once.

    Args:
        registry: The registry; `settings.gc_grace_seconds` and `settings.upload_idle_seconds` say what is old enough.
        actor: An admin.
        dry_run: Whether to change nothing and only report.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: There is no token.
        UnavailableError: The database or the blob store does not answer; what was removed stays removed.
        StorageFullError: The database's disk is full.
    """
    require(actor, "admin")
    now = registry.now()
    old = now - timedelta(seconds=registry.settings.gc_grace_seconds)
    idle = now - timedelta(seconds=registry.settings.upload_idle_seconds)
    gone = _Gone()
    _sweep_uploads(registry, idle, gone, dry_run=dry_run)
    _sweep_blobs(registry, actor, old, gone, dry_run=dry_run)
    _sweep_orphans(registry, actor, old, gone, dry_run=dry_run)
    _sweep_observations(registry, gone, dry_run=dry_run)
    with registry.database.read() as connection:
        named = connection.execute(
            select(func.count()).select_from(BlobRow).where(_NAMED, BlobRow.doomed.is_(False))
        ).scalar_one()
        young = (
            select(func.count())
            .select_from(BlobRow)
            .where(~_NAMED, BlobRow.doomed.is_(False), BlobRow.touched_at >= old)
        )
        kept = connection.execute(young).scalar_one()
    return GcReport(
        dry_run=dry_run,
        blobs_removed=tuple(gone.blobs),
        bytes_removed=gone.size,
        uploads_removed=gone.uploads,
        blobs_kept_young=kept,
        blobs_live=named,
        orphans_removed=tuple(gone.orphans),
        observations_removed=gone.observations,
    )


def _sweep_uploads(registry: Registry, idle: datetime, gone: _Gone, *, dry_run: bool) -> None:
    """Uploads that nobody continues, and staged bytes without an upload (a file that was being stored, say)."""
    rows = select(UploadRow.id).where(UploadRow.touched_at < idle)
    with registry.database.read() as connection:
        waiting = list(connection.execute(rows).scalars())
    for upload in waiting:
        if not dry_run:
            still = delete(UploadRow).where(UploadRow.id == upload, UploadRow.touched_at < idle)
            with registry.database.write() as connection:
                if not connection.execute(still).rowcount:
                    continue
            reached("gc.upload_forgotten")
            registry.blobs.discard(upload)
        gone.uploads += 1
    for page in _pages(one for one in registry.blobs.staged() if one.modified < idle):
        ids = [one.key for one in page]
        with registry.database.read() as connection:
            known = set(connection.execute(select(UploadRow.id).where(UploadRow.id.in_(ids))).scalars())
        for upload in ids:
            if upload not in known:
                gone.uploads += 1
                if not dry_run:
                    registry.blobs.discard(upload)


def _sweep_observations(registry: Registry, gone: _Gone, *, dry_run: bool) -> None:
    """Observations past their retention, and what a server of the release before left of versions that it deleted."""
    deleted = select(VersionRow.id).where(VersionRow.state == DELETED)
    unwanted = or_(ObservationRow.hour < oldest_hour(registry), ObservationRow.version_id.in_(deleted))
    if dry_run:
        count = select(func.count()).select_from(ObservationRow).where(unwanted)
        with registry.database.read() as connection:
            gone.observations = connection.execute(count).scalar_one()
        return
    with registry.database.write() as connection:
        gone.observations = connection.execute(delete(ObservationRow).where(unwanted)).rowcount
        connection.execute(delete(AcceptanceRow).where(AcceptanceRow.version_id.in_(deleted)))


def _sweep_blobs(registry: Registry, actor: Actor, old: datetime, gone: _Gone, *, dry_run: bool) -> None:
    """Blobs that no version names and nobody touched lately; and those that a killed collection had doomed."""
    rows = select(BlobRow.digest, BlobRow.size).where(~_NAMED, or_(BlobRow.touched_at < old, BlobRow.doomed.is_(True)))
    with registry.database.read() as connection:
        candidates = connection.execute(rows.order_by(BlobRow.digest)).all()
    for digest, size in candidates:
        if dry_run or _remove(registry, actor, digest, old):
            gone.blobs.append(digest)
            gone.size += size


def _remove(registry: Registry, actor: Actor, digest: str, old: datetime) -> bool:
    """Doom a blob, then remove it; whether it is gone."""
    this = BlobRow.digest == digest
    doom = update(BlobRow).where(this, ~_NAMED, BlobRow.doomed.is_(False), BlobRow.touched_at < old)
    with registry.database.write() as connection:
        registry.database.lock(connection, digest)
        connection.execute(doom.values(doomed=True))
    reached("gc.doomed")
    with registry.database.write() as connection:
        registry.database.lock(connection, digest)
        still = select(BlobRow.size).where(this, ~_NAMED, BlobRow.doomed.is_(True))
        if connection.execute(still).first() is None:
            return False
        registry.blobs.delete(digest)
        reached("gc.deleted")
        connection.execute(delete(BlobRow).where(this))
        audit.record(connection, registry, actor, "blob.remove", digest, why="no version names it")
    reached("gc.recorded")
    return True


def _sweep_orphans(registry: Registry, actor: Actor, old: datetime, gone: _Gone, *, dry_run: bool) -> None:
    """Bytes without a row: somebody was killed between the two."""
    for page in _pages(one for one in registry.blobs.blobs() if one.modified < old):
        with registry.database.read() as connection:
            known = _known(connection, [one.key for one in page])
        for one in page:
            if one.key not in known and (dry_run or _remove_orphan(registry, actor, one.key)):
                gone.orphans.append(one.key)
                gone.size += one.size


def _remove_orphan(registry: Registry, actor: Actor, digest: str) -> bool:
    """Whoever is about to record these bytes asks for them again once it has the lock (`BlobStore.commit`)."""
    with registry.database.write() as connection:
        registry.database.lock(connection, digest)
        if _known(connection, [digest]):
            return False
        registry.blobs.delete(digest)
        reached("gc.orphan_deleted")
        audit.record(connection, registry, actor, "blob.remove", digest, why="it has no row")
    return True


def _known(connection: Connection, digests: list[str]) -> set[str]:
    return set(connection.execute(select(BlobRow.digest).where(BlobRow.digest.in_(digests))).scalars())


def _pages(stored: Iterable[Stored]) -> Iterator[list[Stored]]:
    source = iter(stored)
    while page := list(islice(source, _PAGE)):
        yield page
