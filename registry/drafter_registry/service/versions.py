"""Finding versions, what they hold, and their state.

`find` gives all of a version, in one select by unique indexes; `locate.locate` only which version it is, faster.
"""

from __future__ import annotations

from hashlib import sha256

from sqlalchemy import and_, bindparam, select, update
from sqlalchemy import delete as delete_rows

from drafter_contracts.manifest import FILE_NAME, FileRecord, Manifest
from drafter_contracts.manifest import decode as decode_manifest
from drafter_registry.db.models import (
    AcceptanceRow,
    AliasRow,
    BoundaryRow,
    DrafterRow,
    FileRow,
    ObservationRow,
    VersionRow,
)
from drafter_registry.documents import DELETED, LIVE, YANKED, VersionDocument
from drafter_registry.errors import ConflictError, IntegrityError, NotFoundError, RangeError
from drafter_registry.names import Reference, check_name, check_reason, check_version, shown
from drafter_registry.service import audit
from drafter_registry.service.access import missing, require
from drafter_registry.service.context import Actor, Registry, timestamp
from drafter_registry.service.listing import summaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sqlalchemy import Connection, Row

_COLUMNS = select(*VersionRow.__table__.columns, DrafterRow.name).join(
    DrafterRow, DrafterRow.id == VersionRow.drafter_id
)
IS_NAMED = DrafterRow.name == bindparam("name")
#: The alias by its whole key: PostgreSQL without statistics would walk through the aliases of all drafters.
TO_ALIAS = (AliasRow, AliasRow.version_id == VersionRow.id)
IS_ALIAS = and_(
    AliasRow.drafter_id == select(DrafterRow.id).where(IS_NAMED).scalar_subquery(),
    AliasRow.alias == bindparam("alias"),
)
_BY_VERSION = _COLUMNS.where(IS_NAMED, VersionRow.version == bindparam("version"))
_TO_CHANGE = _BY_VERSION.with_for_update(of=VersionRow)
_BY_DIGEST = _COLUMNS.where(IS_NAMED, VersionRow.digest == bindparam("digest"))
_BY_ALIAS = _COLUMNS.join(*TO_ALIAS).where(IS_ALIAS)
_ALIASES = select(AliasRow.alias).where(AliasRow.version_id == bindparam("version_id")).order_by(AliasRow.alias)


def find(
    connection: Connection, reference: Reference, *, for_update: bool = False, yanked: bool = False
) -> Row[*tuple[Any, ...]]:
    """The row of a version: every column of `db.models.VersionRow`, and `name`.

    A yanked version is found by its exact version only, unless `yanked`. Nothing is asked about access.

    Args:
        connection: A transaction.
        reference: Which.
        for_update: Hold the row (of an exact version) until the transaction ends: nobody else changes its state
            meanwhile, and no alias is moved to it (`aliases` shares the same lock).
        yanked: Whether every reference finds a yanked version: what runs already is still watched.

    Raises:
        NotFoundError: There is none, or it was yanked or deleted; says which.
    """
    if reference.version:
        query = _TO_CHANGE if for_update else _BY_VERSION
        values = {"name": reference.name, "version": reference.version}
    elif reference.alias:
        query, values = _BY_ALIAS, {"name": reference.name, "alias": reference.alias}
    else:
        query, values = _BY_DIGEST, {"name": reference.name, "digest": reference.digest}
    row = connection.execute(query, values).first()
    if row is None:
        raise missing(str(reference))
    exact = f"{row.name}@{row.version}"
    if row.state == DELETED:
        raise NotFoundError(
            f"{exact} was deleted on {timestamp(row.state_at)}{_because(row)}; its bytes are gone",
            hint=f"`drafters list --name {row.name}` shows what is left",
        )
    if row.state == YANKED and not (reference.version or yanked):
        raise NotFoundError(
            f"{reference} is {exact}, which was yanked on {timestamp(row.state_at)}{_because(row)}",
            hint=f"name another version; {exact} itself is still found by its exact version",
        )
    return row


def hold(connection: Connection, reference: Reference) -> Row[*tuple[Any, ...]]:
    """The row of a version, also a yanked one, that nobody deletes until this write transaction ends.

    Raises:
        NotFoundError: There is none, or it was deleted.
    """
    row = find(connection, reference, yanked=True)
    held = select(VersionRow.state).where(VersionRow.id == row.id).with_for_update(read=True)
    if connection.execute(held).scalar_one() == DELETED:
        raise missing(str(reference))
    return row


def _because(row: Row[*tuple[Any, ...]]) -> str:
    return f" ({shown(row.state_why)})" if row.state_why else ""


def show(registry: Registry, actor: Actor, reference: Reference) -> VersionDocument:
    """A version in full.

    Raises:
        NotFoundError: There is none.
        NotAuthorisedError: Reading needs a token.
        IntegrityError: The stored manifest is damaged.
        UnavailableError: The database does not answer.
    """
    require(actor, "read", reference.name, str(reference))
    with registry.database.read() as connection:
        row = find(connection, reference)
        summary = summaries(connection, [row])[0]
    yanked = row.state == YANKED
    return VersionDocument(
        summary=summary,
        manifest=manifest_of(row),
        yanked_why=row.state_why if yanked else "",
        yanked_by=row.state_by if yanked else "",
        yanked_at=timestamp(row.state_at) if yanked else "",
    )


def manifest_bytes(registry: Registry, actor: Actor, reference: Reference) -> tuple[bytes, str]:
    """A version's manifest, exactly as its digest is of it, and that digest.

    Raises:
        NotFoundError: There is no such version.
        NotAuthorisedError: Reading needs a token.
        IntegrityError: The stored manifest is damaged.
        UnavailableError: The database does not answer.
    """
    row = _read(registry, actor, reference)
    return _verified(row), row.digest


def file(registry: Registry, actor: Actor, reference: Reference, path: str) -> tuple[int, str]:
    """Size (bytes) and blob digest of a version's file.

    Raises:
        NotFoundError: There is no such version or file, or the file is kept elsewhere: says where.
        NotAuthorisedError: Reading needs a token.
        IntegrityError: The stored manifest is damaged.
        UnavailableError: The database does not answer.
    """
    row = _read(registry, actor, reference)
    found = _listed(row, path)
    return found.size, f"sha256:{found.sha256}"


def stream_file(
    registry: Registry, actor: Actor, reference: Reference, path: str, start: int, end: int
) -> Iterator[bytes]:
    """A file's bytes from `start` to `end` (exclusive), in chunks of at most `limits.chunk_bytes`.

    Everything but a lost blob is found out before the first chunk is asked for.

    Raises:
        NotFoundError: As `file`.
        NotAuthorisedError: Reading needs a token.
        RangeError: A range that is not inside the file, or is empty although the file is not.
        IntegrityError: The stored manifest is damaged, or the blob is gone; the latter while reading.
        UnavailableError: The database or the blob store does not answer; the latter while reading.
    """
    size, digest = file(registry, actor, reference, path)
    if not (0 <= start < end <= size or start == end == size == 0):
        raise RangeError(f"bytes {start} to {end} (exclusive) are not inside {path}", hint=f"it has {size} bytes")
    return _stream(registry, digest, path, start, end)


def yank(registry: Registry, actor: Actor, name: str, version: str, *, why: str = "", undo: bool = False) -> None:
    """Yank a version, so that only its exact version finds it; or take that back. Doing it again changes nothing.

    Args:
        registry: The registry.
        actor: Who may publish under that name.
        name: The drafter.
        version: Its version.
        why: For whoever finds it yanked. Another reason than the one recorded replaces it.
        undo: Take it back.

    Raises:
        NotFoundError: No such version, a deleted one, or the token may not.
        NotAuthorisedError: There is no token.
        InvalidError: A name or version that cannot be, or a reason that is too long.
        UnavailableError: The database does not answer.
    """
    exact = _exact(name, version, why)
    require(actor, "publish", name, str(exact))
    state = LIVE if undo else YANKED
    with registry.database.write() as connection:
        row = find(connection, exact, for_update=True)
        if row.state == state and (undo or why in ("", row.state_why)):
            return
        _set_state(registry, connection, actor, row, state, why)
        audit.record(connection, registry, actor, "version.unyank" if undo else "version.yank", str(exact), why=why)


def delete(registry: Registry, actor: Actor, name: str, version: str, *, why: str = "") -> None:
    """Delete a version for ever: its manifest, facts, files, attached acceptances and observations go.

    Nobody can publish under it again.

    Its blobs are collected later (`collect.collect`), unless other versions have them too.

    Args:
        registry: The registry.
        actor: An admin.
        name: The drafter.
        version: Its version.
        why: For whoever looks for it.

    Raises:
        NotFoundError: No such version, it was deleted before, or the token may not.
        NotAuthorisedError: There is no token.
        ConflictError: Aliases point to it; names them.
        InvalidError: A name or version that cannot be, or a reason that is too long.
        UnavailableError: The database does not answer.
    """
    exact = _exact(name, version, why)
    require(actor, "admin", name, str(exact))
    with registry.database.write() as connection:
        row = find(connection, exact, for_update=True)
        aliases = connection.execute(_ALIASES, {"version_id": row.id}).scalars().all()
        if aliases:
            raise ConflictError(
                f"{exact} cannot be deleted while aliases point to it: {', '.join(aliases)}",
                hint="move or remove them first",
            )
        for table in (FileRow, BoundaryRow, AcceptanceRow, ObservationRow):
            connection.execute(delete_rows(table).where(table.version_id == row.id))
        _set_state(registry, connection, actor, row, DELETED, why, manifest=b"", facts=b"", size=0)
        audit.record(connection, registry, actor, "version.delete", str(exact), why=why, digest=row.digest)


def _exact(name: str, version: str, why: str) -> Reference:
    check_reason(why)
    return Reference(check_name(name), version=check_version(version))


def _set_state(
    registry: Registry,
    connection: Connection,
    actor: Actor,
    row: Row[*tuple[Any, ...]],
    state: str,
    why: str,
    **emptied: object,
) -> None:
    values = {"state": state, "state_at": registry.now(), "state_by": actor.name, "state_why": why, **emptied}
    connection.execute(update(VersionRow).where(VersionRow.id == row.id).values(values))


def _read(registry: Registry, actor: Actor, reference: Reference) -> Row[*tuple[Any, ...]]:
    """A version that the actor may read."""
    require(actor, "read", reference.name, str(reference))
    with registry.database.read() as connection:
        return find(connection, reference)


def _verified(row: Row[*tuple[Any, ...]]) -> bytes:
    data = bytes(row.manifest)
    if f"sha256:{sha256(data).hexdigest()}" != row.digest:
        raise IntegrityError(
            f"the stored manifest of {row.name}@{row.version} has not its digest {row.digest} any more",
            hint="restore the database from a backup",
        )
    return data


def manifest_of(row: Row[*tuple[Any, ...]]) -> Manifest:
    """The manifest of a version's row.

    Raises:
        IntegrityError: It is damaged.
    """
    return decode_manifest(_verified(row), where=f"{row.name}@{row.version}")


def _listed(row: Row[*tuple[Any, ...]], path: str) -> FileRecord:
    exact = f"{row.name}@{row.version}"
    found = next((one for one in manifest_of(row).files if one.path == path), None)
    if found is None:
        own = path == FILE_NAME
        hint = "the manifest is read by itself, not as a file" if own else f"`drafters show {exact}` lists its files"
        raise NotFoundError(f"{exact} has no file {shown(path)}", hint=hint)
    if found.elsewhere:
        raise NotFoundError(
            f"{path} of {exact} is not kept here; it lies at {found.elsewhere}",
            hint=f"fetch it there; its sha256 is {found.sha256}",
        )
    return found


def _stream(registry: Registry, digest: str, path: str, start: int, end: int) -> Iterator[bytes]:
    if start == end:
        return
    try:
        yield from registry.blobs.stream(digest, start, end)
    except NotFoundError as error:
        raise IntegrityError(
            f"the bytes of {path} are gone: {digest}", hint="`drafters fsck` lists everything that is"
        ) from error
