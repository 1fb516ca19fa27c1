"""Blobs come in here: uploads in pieces over HTTP, whole files and bytes in the embedded mode.

The rule that nothing is lost by: who makes a blob count (by its row), refers to it or removes it holds the digest's
lock in a write transaction. What takes long (verifying, copying, waiting for the disk) is done before, with the bytes
still staged; under the lock the store is asked again.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import delete, insert, select, update

from drafter_registry import limits
from drafter_registry.blobs.keys import is_upload
from drafter_registry.db.models import BlobRow, UploadRow
from drafter_registry.documents import BlobState, UploadState
from drafter_registry.errors import DigestError, InvalidError, RangeError, RegistryError, UnavailableError
from drafter_registry.failpoints import reached
from drafter_registry.names import check_digest
from drafter_registry.service import audit
from drafter_registry.service.access import ADMIN, missing, require
from drafter_registry.service.context import timestamp
from drafter_registry.service.receiver import Receiver, too_large

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_registry.service.context import Actor, Registry

#: How often a file is brought in again because a collection removed it in between.
_TRIES = 3
#: A blob is touched again only after this part of the grace period: asking twice costs one write.
_FRESH = 8


def stat(registry: Registry, actor: Actor, digest: str) -> BlobState:
    """A stored blob. Asking keeps it from being collected for most of the grace period.

    Raises:
        InvalidError: No digest.
        NotFoundError: It is not stored, or the token may not read.
        NotAuthorisedError: There is no token.
        UnavailableError: The database does not answer.
    """
    check_digest(digest)
    require(actor, "read", subject=digest)
    row = select(BlobRow.size, BlobRow.touched_at).where(BlobRow.digest == digest, BlobRow.doomed.is_(False))
    with registry.database.read() as connection:
        found = connection.execute(row).first()
    if found is None:
        raise missing(digest)
    now = registry.now()
    if now - found.touched_at >= timedelta(seconds=registry.settings.gc_grace_seconds / _FRESH):
        touch = update(BlobRow).where(BlobRow.digest == digest, BlobRow.doomed.is_(False)).values(touched_at=now)
        with registry.database.write() as connection:
            if not connection.execute(touch).rowcount:
                raise missing(digest)
    return BlobState(digest=digest, size=found.size)


def start(registry: Registry, actor: Actor) -> UploadState:
    """A new upload, for who starts it alone.

    Raises:
        NotFoundError: The token may not publish.
        NotAuthorisedError: There is no token.
        UnavailableError: The database does not answer.
        StorageFullError: Its disk is full.
    """
    require(actor, "publish")
    upload, now = secrets.token_hex(16), registry.now()
    row = insert(UploadRow).values(id=upload, offset=0, started_at=now, touched_at=now, by=actor.name)
    with registry.database.write() as connection:
        connection.execute(row)
    reached("upload.begun")
    return UploadState(id=upload, offset=0, expires=_expires(registry, now))


def state(registry: Registry, actor: Actor, upload: str) -> UploadState:
    """How far an upload is.

    Raises:
        NotFoundError: No such upload, or somebody else's.
        NotAuthorisedError: There is no token.
        UnavailableError: The database does not answer.
    """
    row = _own(registry, actor, upload)
    return UploadState(id=upload, offset=row.offset, expires=_expires(registry, row.touched_at))


def receive(registry: Registry, actor: Actor, upload: str, offset: int) -> Receiver:
    """Take the next bytes of an upload.

    Args:
        registry: The registry.
        actor: Who started the upload, or an admin.
        upload: Its id.
        offset: Where the bytes begin.

    Raises:
        RangeError: `offset` is not where the upload ends.
        NotFoundError: No such upload, or somebody else's.
        NotAuthorisedError: There is no token.
        UnavailableError: The database does not answer.
    """
    row = _own(registry, actor, upload)
    if row.offset != offset:
        raise RangeError(
            f"the upload has {row.offset} bytes, the chunk begins at {offset}", hint=f"go on at {row.offset}"
        )
    return Receiver(registry, upload, offset)


def finish(registry: Registry, actor: Actor, upload: str, digest: str) -> BlobState:
    """Make an upload's bytes a blob. When this returns, they survive a power cut.

    Raises:
        InvalidError: No digest.
        DigestError: The bytes have another digest; the upload stays as it is.
        NotFoundError: No such upload, or somebody else's.
        NotAuthorisedError: There is no token.
        UnavailableError: The database or the blob store does not answer.
        StorageFullError: One of them is full.
    """
    check_digest(digest)
    size = _own(registry, actor, upload).offset
    reached("upload.staged")
    registry.blobs.prepare(upload, size, digest)
    reached("upload.prepared")
    return _record(registry, actor, upload, size, digest)


def cancel(registry: Registry, actor: Actor, upload: str) -> None:
    """Forget an upload and its bytes.

    Raises:
        NotFoundError: No such upload, or somebody else's.
        NotAuthorisedError: There is no token.
        UnavailableError: The database or the blob store does not answer.
    """
    _own(registry, actor, upload)
    with registry.database.write() as connection:
        connection.execute(delete(UploadRow).where(UploadRow.id == upload))
    registry.blobs.discard(upload)


def store_file(
    registry: Registry, actor: Actor, path: str, digest: str, tell: Callable[[int], object] | None = None
) -> BlobState:
    """Make a file of this machine a blob: read once, hashed on the way.

    Args:
        registry: The registry.
        actor: Who stores it.
        path: The file.
        digest: What its digest must be.
        tell: Called with the number of bytes that were just dealt with.

    Raises:
        InvalidError: No digest, or the file cannot be read.
        DigestError: The file has another digest.
        TooLargeError: It is larger than a blob may be.
        NotFoundError: The token may not publish.
        NotAuthorisedError: There is no token.
        UnavailableError: The database or the blob store does not answer.
        StorageFullError: One of them is full.
    """
    return _store(registry, actor, digest, lambda: _file(registry, path, tell))


def store_bytes(registry: Registry, actor: Actor, data: bytes, digest: str) -> BlobState:
    """Make a few bytes a blob; raises what `store_file` does."""
    if len(data) > registry.settings.blob_max_bytes:
        raise too_large(registry)
    return _store(registry, actor, digest, lambda: (data,))


def hold(connection: Connection, registry: Registry, digests: Iterable[str]) -> dict[str, int]:
    """Keep blobs from being collected until the transaction ends.

    Args:
        connection: Of a write transaction.
        registry: The registry.
        digests: The blobs.

    Returns:
        Digest to size in bytes of those that are stored; the others are missing.
    """
    wanted = sorted(set(digests))
    for digest in wanted:
        registry.database.lock(connection, digest)
    rows = select(BlobRow.digest, BlobRow.size).where(BlobRow.digest.in_(wanted), BlobRow.doomed.is_(False))
    return {row.digest: row.size for row in connection.execute(rows)}


def _own(registry: Registry, actor: Actor, upload: str) -> Row[tuple[Any, ...]]:
    """The upload's row, if the actor may go on with it."""
    require(actor, "publish", subject=f"upload {upload}" if is_upload(upload) else "that upload")
    row = None
    if is_upload(upload):
        with registry.database.read() as connection:
            row = connection.execute(select(UploadRow.__table__).where(UploadRow.id == upload)).first()
    if row is None or (row.by != actor.name and ADMIN not in actor.scopes):
        raise missing(f"upload {upload}" if is_upload(upload) else "that upload")
    return row


def _expires(registry: Registry, touched: datetime) -> str:
    return timestamp(touched + timedelta(seconds=registry.settings.upload_idle_seconds))


def _store(registry: Registry, actor: Actor, digest: str, chunks: Callable[[], Iterable[bytes]]) -> BlobState:
    check_digest(digest)
    require(actor, "publish")
    for _ in range(_TRIES):
        upload = secrets.token_hex(16)
        size = registry.blobs.ingest(upload, chunks(), digest)
        reached("upload.staged")
        try:
            return _record(registry, actor, upload, size, digest)
        except DigestError:  # verified before: a collection removed it before we had the lock
            continue
        except RegistryError:
            with suppress(RegistryError):
                registry.blobs.discard(upload)
            raise
    raise UnavailableError("a collection removes that blob again and again", retry_after=5)


def _record(registry: Registry, actor: Actor, upload: str, size: int, digest: str) -> BlobState:
    """Under the lock: the blob's bytes in their place, then its row."""
    now = registry.now()
    fields = {"size": size, "touched_at": now, "doomed": False}
    with registry.database.write() as connection:
        registry.database.lock(connection, digest)
        registry.blobs.commit(upload, size, digest)
        reached("upload.committed")
        if not connection.execute(update(BlobRow).where(BlobRow.digest == digest).values(fields)).rowcount:
            connection.execute(insert(BlobRow).values(digest=digest, stored_at=now, **fields))
            audit.record(connection, registry, actor, "blob.store", digest, size=str(size))
        connection.execute(delete(UploadRow).where(UploadRow.id == upload))
    reached("upload.recorded")
    with suppress(RegistryError):  # a collection does it else
        registry.blobs.discard(upload)
    return BlobState(digest=digest, size=size)


def _file(registry: Registry, path: str, tell: Callable[[int], object] | None) -> Iterator[bytes]:
    """The file's bytes in chunks."""
    size = 0
    try:
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(limits.chunk_bytes):
                size += len(chunk)
                if size > registry.settings.blob_max_bytes:
                    raise too_large(registry)
                yield chunk
                if tell is not None:
                    tell(len(chunk))
    except OSError as error:
        raise InvalidError(f"{path} cannot be read: {error.strerror}") from error
