"""Bearer tokens: what they look like, who they are, and their end.

A token is "drt_", 30 random characters of 0-9A-Za-z, and 6 that are the CRC-32 of all before them in base 62: a scanner
of sources or logs can tell one without asking anybody (`looks_valid`). The database keeps its sha256 alone; 178 bits of
randomness need no salt and no slow hash.
"""

from __future__ import annotations

import re
import secrets
import string
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from zlib import crc32

from sqlalchemy import bindparam, insert, or_, select, update

from drafter_registry.db.models import TokenRow
from drafter_registry.documents import NewToken, TokenList, TokenRecord, TokenRequest
from drafter_registry.errors import (
    InvalidError,
    NotAuthorisedError,
    RegistryError,
    StorageFullError,
    UnavailableError,
)
from drafter_registry.names import shown
from drafter_registry.service import audit
from drafter_registry.service.access import ADMIN, ANONYMOUS, check_scopes, missing, require
from drafter_registry.service.context import Actor, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Row

    from drafter_registry.service.context import Registry

    Defer = Callable[[Callable[[], None]], None]

PREFIX = "drt_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM = 30
_CHECK = 6
_LENGTH = len(PREFIX) + _RANDOM + _CHECK
_NAME_MAX_LENGTH = 96
_MAX_DAYS = 3650
_ID = re.compile(r"[0-9a-f]{16}")
#: `last_used_at` is as exact as this: most requests write nothing.
_USED_EVERY = timedelta(minutes=1)
#: Built once: every request asks it.
_SHOWN = select(
    TokenRow.id, TokenRow.name, TokenRow.scopes, TokenRow.expires_at, TokenRow.revoked_at, TokenRow.last_used_at
).where(TokenRow.sha256 == bindparam("sha256"))


def create(registry: Registry, actor: Actor, request: TokenRequest) -> NewToken:
    """A new token. Its text is in the answer and nowhere else.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: No token.
        InvalidError: A name, scope or expiry that cannot be.
    """
    require(actor, ADMIN)
    name = _check_name(request.name)
    scopes = check_scopes(request.scopes)
    days = request.expires_in_days
    if days is not None and not 1 <= days <= _MAX_DAYS:
        raise InvalidError(f"a token cannot expire in {days} days", hint=f"1 to {_MAX_DAYS}, or none at all")
    expires = None if days is None else registry.now() + timedelta(days=days)
    with registry.database.write() as connection:
        return _insert(connection, registry, actor, name, scopes, expires)


def listing(registry: Registry, actor: Actor) -> TokenList:
    """Every token, newest first; without anything that a token could be made of.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: No token.
    """
    require(actor, ADMIN)
    query = select(TokenRow.__table__).order_by(TokenRow.created_at.desc(), TokenRow.id)
    with registry.database.read() as connection:
        return TokenList(items=tuple(_record(row) for row in connection.execute(query)))


def revoke(registry: Registry, actor: Actor, token_id: str) -> None:
    """End a token at once. One that has ended stays as it is.

    Raises:
        NotFoundError: No such token, or no admin.
        NotAuthorisedError: No token shown.
    """
    require(actor, ADMIN, subject=f"token {shown(token_id)}")
    if not _ID.fullmatch(token_id):
        raise missing(f"token {shown(token_id)}")
    now = registry.now()
    with registry.database.write() as connection:
        table = TokenRow.__table__
        row = connection.execute(select(table).where(TokenRow.id == token_id).with_for_update()).one_or_none()
        if row is None:
            raise missing(f"token {shown(token_id)}")
        if row.revoked_at is None:
            connection.execute(update(TokenRow).where(TokenRow.id == token_id).values(revoked_at=now))
            audit.record(connection, registry, actor, "token.revoke", token_id, name=row.name)


def authenticate(
    registry: Registry, token: str, request_id: str = "", address: str = "", *, defer: Defer | None = None
) -> Actor:
    """Who shows that token.

    Args:
        registry: The registry.
        token: As shown.
        request_id: Of the request, for the actor.
        address: Of the caller, for the actor.
        defer: Takes the note of the token's use, to be written later, where this must not wait for a writer.

    Raises:
        NotAuthorisedError: Malformed, unknown, expired or revoked: which of them is not told.
        UnavailableError: The database does not answer.
    """
    if not looks_valid(token):
        raise _refused()
    with registry.database.read() as connection:
        row = connection.execute(_SHOWN, {"sha256": _digest(token)}).one_or_none()
    now = registry.now()
    if row is None or row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        raise _refused()
    if row.last_used_at is None or row.last_used_at <= now - _USED_EVERY:
        note = partial(_note_use, registry, row.id, now)
        note() if defer is None else defer(note)
    return Actor(row.name, tuple(row.scopes.split()), request_id, address)


def ensure_admin(registry: Registry) -> str | None:
    """The first token of a registry that has none, or None if it has one (also if that is revoked).

    Of several servers that start at the same time one gets it.

    Raises:
        UnavailableError: The database does not answer.
    """
    anything = select(TokenRow.id).limit(1)
    with registry.database.read() as connection:
        if connection.execute(anything).first() is not None:
            return None
    with registry.database.write() as connection:
        registry.database.lock(connection, "first token")
        if connection.execute(anything).first() is not None:
            return None
        return _insert(connection, registry, Actor("first start"), "first admin", (ADMIN,), None).token


def looks_valid(text: str) -> bool:
    """Whether a text has a token's form and checksum; whether it is one only the registry knows."""
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not all(c in _ALPHABET for c in text[len(PREFIX) :]):
        return False
    return _checksum(text[:-_CHECK]) == text[-_CHECK:]


def _insert(
    connection: Connection,
    registry: Registry,
    actor: Actor,
    name: str,
    scopes: tuple[str, ...],
    expires: datetime | None,
) -> NewToken:
    body = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    token = body + _checksum(body)
    values = {
        "id": secrets.token_hex(8),
        "name": name,
        "scopes": " ".join(scopes),
        "created_at": registry.now(),
        "created_by": actor.name,
        "expires_at": expires,
        "revoked_at": None,
        "last_used_at": None,
    }
    table = TokenRow.__table__
    connection.execute(insert(TokenRow).values(sha256=_digest(token), **values))
    row = connection.execute(select(table).where(TokenRow.id == values["id"])).one()
    detail = {"name": name, "scopes": " ".join(scopes), "expires": timestamp(expires)}
    audit.record(connection, registry, actor, "token.create", row.id, **detail)
    return NewToken(token=token, record=_record(row))


def _record(row: Row[tuple[object, ...]]) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        name=row.name,
        scopes=tuple(row.scopes.split()),
        created_at=timestamp(row.created_at),
        created_by=row.created_by,
        expires_at=timestamp(row.expires_at),
        revoked_at=timestamp(row.revoked_at),
        last_used_at=timestamp(row.last_used_at),
    )


def _note_use(registry: Registry, token_id: str, now: datetime) -> None:
    """Keep when it was used; a full or busy database must not keep anybody from reading."""
    stale = or_(TokenRow.last_used_at.is_(None), TokenRow.last_used_at <= now - _USED_EVERY)
    statement = update(TokenRow).where(TokenRow.id == token_id, stale).values(last_used_at=now)
    with suppress(UnavailableError, StorageFullError), registry.database.write() as connection:
        connection.execute(statement)


def _check_name(name: str) -> str:
    reserved = name == ANONYMOUS or name.startswith("local:")
    if not name or len(name) > _NAME_MAX_LENGTH or not name.isprintable() or name != name.strip() or reserved:
        raise InvalidError(
            f"{shown(name)} is no name for a token",
            hint=f"1 to {_NAME_MAX_LENGTH} printable characters; not {ANONYMOUS!r}, and not with local: in front",
        )
    return name


def _refused() -> RegistryError:
    return NotAuthorisedError("the token is not valid", hint="ask an admin of the registry for a new one")


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _checksum(text: str) -> str:
    number, digits = crc32(text.encode()), ""
    for _ in range(_CHECK):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
