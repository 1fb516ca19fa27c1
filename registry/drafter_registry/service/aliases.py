"""Aliases: names that move from version to version, one move at a time, and the history of it all.

A move is a compare-and-swap: `expected` is the revision that the caller saw. Movers of one alias take turns, and
(drafter, alias, revision) is unique in the history: no move is lost, and revisions have no gaps.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import and_, insert, select, update

from drafter_registry.db.models import AliasMoveRow, AliasRow, DrafterRow, VersionRow
from drafter_registry.documents import DELETED, YANKED, AliasHistory, AliasMove, AliasState
from drafter_registry.errors import ConflictError, MovedError
from drafter_registry.failpoints import reached
from drafter_registry.names import check_alias, check_name, check_reason, check_version
from drafter_registry.service import audit
from drafter_registry.service.access import missing, require
from drafter_registry.service.context import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drafter_registry.service.context import Actor, Registry


class _Place(msgspec.Struct, frozen=True):
    """Where an alias is: `revision` 0 if it never was, `version` "" if it is removed."""

    drafter_id: int
    revision: int = 0
    version: str = ""


def state(registry: Registry, actor: Actor, name: str, alias: str) -> AliasState:
    """Where an alias points.

    Raises:
        NotFoundError: Nowhere, or the caller may not know.
        NotAuthorisedError: No token, and reading needs one.
        InvalidError: No name or alias.
    """
    subject = f"{check_name(name)}@{check_alias(alias)}"
    require(actor, "read", name, subject)
    with registry.database.read() as connection:
        return _state(connection, name, alias)


def move(
    registry: Registry, actor: Actor, name: str, alias: str, version: str, *, expected: int | None, why: str = ""
) -> AliasState:
    """Point an alias to a version. Every move counts, also one to where it is already.

    Args:
        registry: The registry.
        actor: Who moves it.
        name: The drafter.
        alias: The alias; it may be new.
        version: An exact version that is live.
        expected: Revision that the alias must have; 0: it must not be there; None: wherever it is.
        why: For the history.

    Raises:
        NotFoundError: No such version, or the caller may not move this alias.
        NotAuthorisedError: No token.
        ConflictError: The version is yanked.
        MovedError: The alias is not at `expected`.
        InvalidError: No name, alias, version or reason.
    """
    subject = f"{check_name(name)}@{check_alias(alias)}"
    check_version(version)
    check_reason(why)
    require(actor, "alias", name, subject)
    with registry.database.write() as connection:
        place = _lock(connection, registry, name, alias)
        target = _live(connection, name, version)
        _compare(connection, place, name, alias, expected)
        _write(connection, registry, actor, place, alias, target, to=version, why=why)
        _audit(connection, registry, actor, subject, place, to=version, why=why)
        result = _state(connection, name, alias)
        reached("alias.before_commit")
    return result


def remove(registry: Registry, actor: Actor, name: str, alias: str, *, expected: int | None, why: str = "") -> None:
    """Remove an alias; its history stays, and if it is set again its revision goes on.

    Args:
        registry: The registry.
        actor: Who removes it.
        name: The drafter.
        alias: The alias.
        expected: Revision that it must have; None: whichever it has.
        why: For the history.

    Raises:
        NotFoundError: No such alias, or the caller may not move it.
        NotAuthorisedError: No token.
        MovedError: The alias is not at `expected`.
        InvalidError: No name, alias or reason.
    """
    subject = f"{check_name(name)}@{check_alias(alias)}"
    check_reason(why)
    require(actor, "alias", name, subject)
    with registry.database.write() as connection:
        place = _lock(connection, registry, name, alias)
        if not place.version:
            raise missing(subject)
        _compare(connection, place, name, alias, expected)
        _write(connection, registry, actor, place, alias, None, to="", why=why)
        _audit(connection, registry, actor, subject, place, to="", why=why)
        reached("alias.before_commit")


def history(registry: Registry, actor: Actor, name: str, alias: str) -> AliasHistory:
    """Every move of an alias, newest first; also of one that is removed.

    Raises:
        NotFoundError: It never was, or the caller may not know.
        NotAuthorisedError: No token, and reading needs one.
        InvalidError: No name or alias.
    """
    subject = f"{check_name(name)}@{check_alias(alias)}"
    require(actor, "read", name, subject)
    query = (
        select(AliasMoveRow.__table__)
        .join(DrafterRow, DrafterRow.id == AliasMoveRow.drafter_id)
        .where(DrafterRow.name == name, AliasMoveRow.alias == alias)
        .order_by(AliasMoveRow.revision.desc())
    )
    with registry.database.read() as connection:
        rows = connection.execute(query).all()
    if not rows:
        raise missing(subject)
    return AliasHistory(
        items=tuple(
            AliasMove(
                alias=row.alias,
                revision=row.revision,
                from_version=row.from_version,
                to_version=row.to_version,
                at=timestamp(row.at),
                by=row.by,
                why=row.why,
            )
            for row in rows
        )
    )


def _lock(connection: Connection, registry: Registry, name: str, alias: str) -> _Place:
    """Hold other movers off until this transaction ends, and say where the alias is."""
    registry.database.lock(connection, f"alias {name}@{alias}")
    query = (
        select(DrafterRow.id, AliasRow.revision, VersionRow.version)
        .select_from(DrafterRow)
        .outerjoin(AliasRow, and_(AliasRow.drafter_id == DrafterRow.id, AliasRow.alias == alias))
        .outerjoin(VersionRow, VersionRow.id == AliasRow.version_id)
        .where(DrafterRow.name == name)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise missing(f"{name}@{alias}")
    return _Place(row.id, row.revision or 0, row.version or "")


def _live(connection: Connection, name: str, version: str) -> int:
    """The row of a version that an alias may point to, held as it is until this transaction ends."""
    row = connection.execute(
        select(VersionRow.id, VersionRow.state, VersionRow.state_why)
        .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
        .where(DrafterRow.name == name, VersionRow.version == version)
        .with_for_update(read=True, of=VersionRow)
    ).one_or_none()
    if row is None or row.state == DELETED:
        raise missing(f"{name}@{version}")
    if row.state == YANKED:
        raise ConflictError(
            f"{name}@{version} is yanked" + (f": {row.state_why}" if row.state_why else ""),
            hint=f"choose another version, or first take that back: drafters yank --undo {name}@{version}",
        )
    return int(row.id)


def _compare(connection: Connection, place: _Place, name: str, alias: str, expected: int | None) -> None:
    seen = place.revision if place.version else 0
    if expected is None or expected == seen:
        return
    if not place.version:
        raise MovedError(f"{name}@{alias} is not there, so not at revision {expected}", hint="expect 0 to make it")
    now = _state(connection, name, alias)
    wanted = f"not at {expected}" if expected else "not new"
    raise MovedError(
        f"{name}@{alias} is at revision {now.revision}, {wanted}: {now.by} moved it to {now.version} at {now.at}",
        hint=f"look at it again (drafters alias history {name}@{alias}), then expect revision {now.revision}",
    )


def _write(
    connection: Connection,
    registry: Registry,
    actor: Actor,
    place: _Place,
    alias: str,
    target: int | None,
    *,
    to: str,
    why: str,
) -> None:
    key = {"drafter_id": place.drafter_id, "alias": alias}
    revision = place.revision + 1
    if place.revision:
        at = (AliasRow.drafter_id == place.drafter_id, AliasRow.alias == alias, AliasRow.revision == place.revision)
        connection.execute(update(AliasRow).where(*at).values(version_id=target, revision=revision))
    else:
        connection.execute(insert(AliasRow).values(**key, version_id=target, revision=revision))
    made = {"from_version": place.version, "to_version": to, "at": registry.now(), "by": actor.name, "why": why}
    connection.execute(insert(AliasMoveRow).values(**key, **made, revision=revision))


def _audit(
    connection: Connection, registry: Registry, actor: Actor, subject: str, place: _Place, *, to: str, why: str
) -> None:
    detail = {"from": place.version, "to": to, "revision": str(place.revision + 1), "why": why}
    audit.record(connection, registry, actor, "alias.move" if to else "alias.remove", subject, **detail)


def _state(connection: Connection, name: str, alias: str) -> AliasState:
    last = and_(
        AliasMoveRow.drafter_id == AliasRow.drafter_id,
        AliasMoveRow.alias == AliasRow.alias,
        AliasMoveRow.revision == AliasRow.revision,
    )
    moved = (AliasRow.revision, AliasMoveRow.at, AliasMoveRow.by, AliasMoveRow.why)
    row = connection.execute(
        select(VersionRow.version, VersionRow.digest, *moved)
        .select_from(AliasRow)
        .join(DrafterRow, DrafterRow.id == AliasRow.drafter_id)
        .join(VersionRow, VersionRow.id == AliasRow.version_id)
        .join(AliasMoveRow, last)
        .where(DrafterRow.name == name, AliasRow.alias == alias)
    ).one_or_none()
    if row is None:
        raise missing(f"{name}@{alias}")
    return AliasState(
        name=name,
        alias=alias,
        version=row.version,
        digest=row.digest,
        revision=row.revision,
        at=timestamp(row.at),
        by=row.by,
        why=row.why,
    )
