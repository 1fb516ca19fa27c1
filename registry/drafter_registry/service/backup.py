"""A copy of a whole registry, made while it runs, from which either kind of registry can be made again.

A backup is a directory: `backup.json`, a file per table (`tables/NAME.jsonl`, see `dump`), and every blob that a
version names (`blobs/sha256/DIGEST`). The rows are those of one moment; blobs never change. It appears whole or not
at all.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import uuid
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection, select, update

from drafter_registry import limits
from drafter_registry.db.models import BlobRow, FileRow
from drafter_registry.db.schema import HEAD
from drafter_registry.errors import (
    ConflictError,
    DigestError,
    Fault,
    IntegrityError,
    InvalidError,
    NotFoundError,
    SchemaError,
    StorageFullError,
)
from drafter_registry.names import check_digest
from drafter_registry.service import audit
from drafter_registry.service.access import require
from drafter_registry.service.context import timestamp
from drafter_registry.service.dump import TABLES, TableCopy, insert_table, read_table, verify_table, write_table
from drafter_registry.service.open import close, open_registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_registry.service.context import Actor, Registry
    from drafter_registry.settings import Settings

FORMAT = "drafters.backup.v1"
_ABOUT = "backup.json"
_TOUCHED = 500


class Backup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup says of itself (`backup.json`).

    Attributes:
        format: `FORMAT`.
        schema: Revision of the rows.
        made_at: The rows' moment.
        tables: By name.
        blobs: How many there are.
        bytes: In all blobs together.
    """

    format: str
    schema: str
    made_at: str
    tables: dict[str, TableCopy]
    blobs: int
    bytes: int


def backup(registry: Registry, actor: Actor, directory: str) -> Backup:
    """Copy the registry to a new directory, readable by its owner only (digests of tokens are in it).

    Args:
        registry: The registry; others may go on using it.
        actor: Who wants it; an admin.
        directory: Where to; must not be there yet, or be empty.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: No token.
        ConflictError: The directory is there already, and not empty.
        IntegrityError: Blobs that are missing or damaged; lists all of them. Nothing is left behind.
        InvalidError: The directory cannot be written.
        StorageFullError: No room.
        UnavailableError: Database or blob store do not answer.
    """
    require(actor, "admin")
    target = os.path.abspath(directory)
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise ConflictError(f"{target} is there already", hint="name a directory that is not, or an empty one")
    beside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{uuid.uuid4().hex[:8]}.partial")
    with _disk(target):
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            for folder in ("", "tables", "blobs", os.path.join("blobs", "sha256")):
                os.mkdir(os.path.join(beside, folder), 0o700)
            made = _fill(registry, actor, beside, target)
            os.rename(beside, target)
            _sync(os.path.dirname(target))
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    return made


def restore(settings: Settings, directory: str) -> Backup:
    """Make a registry from a backup: in an empty one, of either kind.

    Every file is verified. Blobs are stored first and all rows become visible at once; if it fails before that, what
    was stored is unreferenced and a collection removes it.

    Raises:
        InvalidError: No backup, or settings that cannot be read.
        SchemaError: A backup of another schema, or a database that is no registry's.
        IntegrityError: A damaged backup.
        ConflictError: The registry is not empty.
        UnavailableError: Database or blob store do not answer.
        StorageFullError: No room.
    """
    source = os.path.abspath(directory)
    about = _read_about(source)
    sizes = _verify(source, about)
    registry = open_registry(settings)
    try:
        with registry.database.read() as connection:
            _refuse_unless_empty(connection, registry)
        for digest, size in sizes.items():
            _store_blob(registry, source, digest, size)
        with registry.database.write() as connection:
            if not registry.database.is_sqlite:
                names = ", ".join(table.name for table in TABLES)
                connection.exec_driver_sql(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
            _refuse_unless_empty(connection, registry)
            for table in TABLES:
                insert_table(connection, table, _table_path(source, table.name))
    finally:
        close(registry)
    return about


def _fill(registry: Registry, actor: Actor, folder: str, target: str) -> Backup:
    with registry.database.write() as connection:
        audit.record(connection, registry, actor, "registry.backup", "registry", directory=target[:1000])
    _touch_referenced(registry)
    with registry.database.read() as connection:
        if not registry.database.is_sqlite:  # there one transaction sees one moment anyway
            connection.execution_options(isolation_level="REPEATABLE READ")
        made_at = timestamp(registry.now())
        tables = {table.name: write_table(connection, table, _table_path(folder, table.name)) for table in TABLES}
    blobs, size = _copy_blobs(registry, folder)
    for inner in ("tables", os.path.join("blobs", "sha256"), "blobs"):
        _sync(os.path.join(folder, inner))
    made = Backup(format=FORMAT, schema=HEAD, made_at=made_at, tables=tables, blobs=blobs, bytes=size)
    with open(os.path.join(folder, _ABOUT), "xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)
    return made


def _touch_referenced(registry: Registry) -> None:
    """A version that is deleted while this runs keeps its blobs for the grace period of a collection.

    In the order of their digests, as publishers lock them.
    """
    last = ""
    while True:
        with registry.database.write() as connection:
            named = select(FileRow.digest).where(FileRow.digest > last).distinct()
            digests = connection.execute(named.order_by(FileRow.digest).limit(_TOUCHED)).scalars().all()
            if not digests:
                return
            rows = select(BlobRow.digest).where(BlobRow.digest.in_(digests))
            connection.execute(rows.order_by(BlobRow.digest).with_for_update())
            connection.execute(update(BlobRow).where(BlobRow.digest.in_(digests)).values(touched_at=registry.now()))
        last = digests[-1]


def _copy_blobs(registry: Registry, folder: str) -> tuple[int, int]:
    """Copy every blob that the written rows name; how many, and their bytes."""
    files = {row["digest"]: row["size"] for row in _rows(folder, FileRow.__tablename__)}
    stored = {row["digest"]: row["size"] for row in _rows(folder, BlobRow.__tablename__)}
    faults = [Fault(digest, "a version names it, and no blob is recorded") for digest in files.keys() - stored.keys()]
    for digest in stored:
        fault = _copy_blob(registry, digest, _blob_path(folder, digest))
        if fault is not None:
            faults.append(fault)
    if faults:
        raise IntegrityError(
            f"{len(faults)} of {len(files)} blobs cannot be copied: "
            + "; ".join(f"{fault.pointer}: {fault.message}" for fault in faults[:5]),
            hint="if a version was deleted meanwhile, start again; else `drafters fsck` says whose they are",
            faults=tuple(faults),
        )
    return len(stored), sum(stored.values())


def _copy_blob(registry: Registry, digest: str, path: str) -> Fault | None:
    size = registry.blobs.size(digest)
    if size is None:
        return Fault(digest, "it is not in the blob store")
    found = hashlib.sha256()
    try:
        with open(path, "xb") as file:
            for chunk in registry.blobs.stream(digest, 0, size):
                file.write(chunk)
                found.update(chunk)
            file.flush()
            os.fsync(file.fileno())
    except NotFoundError:
        return Fault(digest, "it is not in the blob store")
    if f"sha256:{found.hexdigest()}" != digest:
        return Fault(digest, "its bytes are damaged", expected=digest, actual=f"sha256:{found.hexdigest()}")
    return None


def _read_about(source: str) -> Backup:
    path = os.path.join(source, _ABOUT)
    try:
        with open(path, "rb") as file:
            about = msgspec.json.decode(file.read(limits.body_max_bytes), type=Backup)
    except OSError as error:
        raise InvalidError(f"{source} is no backup: {_ABOUT} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InvalidError(f"{source} is no backup that this release reads: {_ABOUT}: {error}") from error
    if about.format != FORMAT:
        raise InvalidError(f"{source} has format {about.format!r}", hint=f"this release reads {FORMAT!r}")
    if about.schema != HEAD:
        raise SchemaError(
            f"the backup's rows have schema {about.schema}, this release's is {HEAD}",
            hint="restore it with the release that made it, then run `drafters db upgrade` with this one",
        )
    return about


def _verify(source: str, about: Backup) -> dict[str, int]:
    """The sizes of the blobs to store, if the backup is whole; their bytes are hashed when they are stored."""
    if set(about.tables) != {table.name for table in TABLES}:
        raise IntegrityError(f"{_ABOUT} names other tables than schema {about.schema} has")
    for table in TABLES:
        verify_table(table, _table_path(source, table.name), about.tables[table.name])
    sizes = {check_digest(row["digest"]): int(row["size"]) for row in _rows(source, BlobRow.__tablename__)}
    faults = [
        Fault(digest, "a version names it, and the backup has no blob of it")
        for digest in {row["digest"] for row in _rows(source, FileRow.__tablename__)} - sizes.keys()
    ]
    for digest, size in sizes.items():
        path = _blob_path(source, digest)
        actual = os.path.getsize(path) if os.path.isfile(path) else None
        if actual != size:
            faults.append(Fault(path, "the blob is cut or missing", expected=f"{size} bytes", actual=f"{actual} bytes"))
    if faults:
        text = "; ".join(f"{fault.pointer}: {fault.message}" for fault in faults[:5])
        raise IntegrityError(f"the backup is damaged: {text}", hint="take another copy of it", faults=tuple(faults))
    return sizes


def _store_blob(registry: Registry, source: str, digest: str, size: int) -> None:
    upload = uuid.uuid4().hex
    try:
        registry.blobs.ingest(upload, _chunks(_blob_path(source, digest)), digest)
        registry.blobs.commit(upload, size, digest)
    except DigestError as error:
        raise IntegrityError(
            f"the backup is damaged: blob {digest} has other bytes", hint="take another copy of it"
        ) from error
    except BaseException:
        registry.blobs.discard(upload)
        raise


def _chunks(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while chunk := file.read(limits.chunk_bytes):
                yield chunk
    except OSError as error:
        raise IntegrityError(f"the backup is damaged: {path} cannot be read: {error.strerror}") from error


def _refuse_unless_empty(connection: Connection, registry: Registry) -> None:
    for table in TABLES:
        if connection.execute(select(table).limit(1)).first() is not None:
            where = registry.database.url.render_as_string(hide_password=True)
            raise ConflictError(
                f"the registry at {where} is not empty: it has {table.name}",
                hint="restore into a new one: another --data, or an empty database",
            )


def _rows(folder: str, name: str) -> Iterator[dict[str, Any]]:
    table = next(table for table in TABLES if table.name == name)
    return read_table(table, _table_path(folder, name))


def _table_path(folder: str, name: str) -> str:
    return os.path.join(folder, "tables", f"{name}.jsonl")


def _blob_path(folder: str, digest: str) -> str:
    return os.path.join(folder, "blobs", *digest.split(":"))


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StorageFullError(f"no room for the backup at {target}") from error
        raise InvalidError(f"the backup cannot be written to {target}: {error.strerror}") from error
