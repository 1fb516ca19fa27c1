"""The log of every write: who did what to what, when, on which request. Written in the write's own transaction."""

from __future__ import annotations

import msgspec
from sqlalchemy import insert, or_, select

from drafter_registry import limits
from drafter_registry.db.models import AuditRow
from drafter_registry.documents import AuditEntry, AuditPage
from drafter_registry.errors import InvalidError
from drafter_registry.names import shown
from drafter_registry.service import cursor as cursors
from drafter_registry.service.access import require
from drafter_registry.service.context import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from drafter_registry.service.context import Actor, Registry

_CURSOR = "audit"
#: Longest request id and address kept, characters: no write fails because of them.
_SHORT = 64
_SUBJECT_MAX_LENGTH = 255


def record(connection: Connection, registry: Registry, actor: Actor, action: str, subject: str, **detail: str) -> None:
    """Log a write, in its transaction: the entry is there if and only if the write is.

    Args:
        connection: Of the write transaction.
        registry: Whose clock to use.
        actor: Who writes.
        action: Stable words with a dot: "version.publish", "alias.move", "token.revoke".
        subject: What was written: "kimi-eagle3@1.0.0", a token's id, a blob's digest.
        detail: What else to keep, as texts. Never a token.
    """
    connection.execute(
        insert(AuditRow).values(
            at=registry.now(),
            actor=actor.name,
            action=action,
            subject=subject,
            detail=msgspec.json.encode(detail),
            request_id=actor.request_id[:_SHORT],
            address=actor.address[:_SHORT],
        )
    )


def entries(
    registry: Registry, actor: Actor, *, cursor: str = "", limit: int = limits.page_items, subject: str = ""
) -> AuditPage:
    """A page of the log, newest first.

    Args:
        registry: The registry.
        actor: Who asks; an admin.
        cursor: `next` of the page before, "" for the first.
        limit: Most entries.
        subject: Only what was done to it; a drafter's name means its versions and aliases too.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: No token.
        InvalidError: No such cursor or limit, or a subject that none can be.
    """
    require(actor, "admin")
    cursors.check_limit(limit)
    before = cursors.decode(_CURSOR, cursor)
    if len(subject) > _SUBJECT_MAX_LENGTH or not subject.isprintable():
        raise InvalidError(
            f"{shown(subject)} is no subject", hint="a drafter, NAME@VERSION, NAME@ALIAS or a token's id"
        )
    query = select(AuditRow.__table__).order_by(AuditRow.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(AuditRow.id < before)
    if subject:
        below = AuditRow.subject.startswith(f"{subject}@", autoescape=True)
        query = query.where(or_(AuditRow.subject == subject, below))
    with registry.database.read() as connection:
        rows = connection.execute(query).all()
    following = cursors.encode(_CURSOR, rows[limit - 1].id) if len(rows) > limit else ""
    return AuditPage(items=tuple(_entry(row) for row in rows[:limit]), next=following)


def _entry(row: Row[tuple[object, ...]]) -> AuditEntry:
    return AuditEntry(
        at=timestamp(row.at),
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        detail=msgspec.json.decode(row.detail, type=dict[str, str]),
        request_id=row.request_id,
        address=row.address,
    )
