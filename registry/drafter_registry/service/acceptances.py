"""What a version is promised to be accepted: the acceptances of its manifest, and those attached to it later.

A version never changes, and what was measured after its publication is part of no digest. It is attached: a row of its
own, named by the digest of its canonical JSON, so that to attach it twice is to attach it once.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import delete, insert, select

from drafter_contracts.manifest_records import Acceptance
from drafter_registry import limits
from drafter_registry.acceptance_documents import (
    ATTACHED,
    MANIFEST,
    AcceptanceList,
    AddedAcceptance,
    KnownAcceptance,
)
from drafter_registry.db.models import AcceptanceRow
from drafter_registry.errors import FullError, InvalidError
from drafter_registry.names import check_digest
from drafter_registry.service import audit
from drafter_registry.service.access import missing, require
from drafter_registry.service.canonical import as_sent, canonical, digest_of
from drafter_registry.service.context import timestamp
from drafter_registry.service.versions import find, hold, manifest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_registry.names import Reference
    from drafter_registry.service.context import Actor, Registry


def listing(registry: Registry, actor: Actor, reference: Reference) -> AcceptanceList:
    """Every acceptance of a version, also of a yanked one.

    Raises:
        NotFoundError: There is no such version.
        NotAuthorisedError: Reading needs a token.
        UnavailableError: The database does not answer.
    """
    require(actor, "read", reference.name, str(reference))
    with registry.database.read() as connection:
        row = find(connection, reference, yanked=True)
        attached = _attached(connection, row.id)
    items = (*_of_manifest(row), *(_known(one) for one in attached))
    return AcceptanceList(name=row.name, version=row.version, digest=row.digest, items=items)


def add(registry: Registry, actor: Actor, reference: Reference, acceptance: Acceptance) -> AddedAcceptance:
    """Attach an acceptance to the version that a reference means now. Attached or in the manifest already: nothing.

    Args:
        registry: The registry.
        actor: Who may publish under that name.
        reference: Which version; the answer says which one an alias means.
        acceptance: What was measured, and how.

    Raises:
        NotFoundError: There is no such version, or the token may not.
        NotAuthorisedError: There is no token.
        InvalidError: An acceptance that is too long, or whose rates rise.
        FullError: The version has as many as a registry keeps.
        UnavailableError: The database does not answer.
    """
    require(actor, "publish", reference.name, str(reference))
    acceptance = as_sent(acceptance)
    data = _checked(acceptance)
    digest = digest_of(data)
    with registry.database.write() as connection:
        row = hold(connection, reference)
        registry.database.lock(connection, f"acceptances {row.id}")
        attached = _attached(connection, row.id)
        known = (*_of_manifest(row), *(_known(one) for one in attached))
        item = next((one for one in known if one.digest == digest), None)
        created = item is None
        if item is None:
            _refuse_if_full(row, len(attached))
            now = registry.now()
            values = {"added_at": now, "added_by": actor.name, "acceptance": data}
            connection.execute(insert(AcceptanceRow).values(version_id=row.id, digest=digest, **values))
            detail = {"acceptance": digest, "length": f"{acceptance.length:g}"}
            audit.record(connection, registry, actor, "acceptance.add", f"{row.name}@{row.version}", **detail)
            item = KnownAcceptance(
                digest=digest, source=ATTACHED, acceptance=acceptance, by=actor.name, at=timestamp(now)
            )
    return AddedAcceptance(name=row.name, version=row.version, digest=row.digest, created=created, item=item)


def remove(registry: Registry, actor: Actor, reference: Reference, digest: str) -> None:
    """Take an attached acceptance away. One of the manifest stays: the version never changes.

    Args:
        registry: The registry.
        actor: An admin.
        reference: Which version.
        digest: Which acceptance.

    Raises:
        NotFoundError: There is no such version or attachment, or the token may not.
        NotAuthorisedError: There is no token.
        InvalidError: No digest.
        UnavailableError: The database does not answer.
    """
    check_digest(digest)
    require(actor, "admin", reference.name, f"{reference}, acceptance {digest}")
    with registry.database.write() as connection:
        row = hold(connection, reference)
        this = (AcceptanceRow.version_id == row.id, AcceptanceRow.digest == digest)
        if not connection.execute(delete(AcceptanceRow).where(*this)).rowcount:
            raise missing(f"{reference}, attached acceptance {digest}")
        audit.record(connection, registry, actor, "acceptance.remove", f"{row.name}@{row.version}", acceptance=digest)


def decode(data: bytes) -> Acceptance:
    """An acceptance from a row's bytes."""
    return msgspec.json.decode(data, type=Acceptance)


def _checked(acceptance: Acceptance) -> bytes:
    """Its canonical bytes.

    Raises:
        InvalidError: It cannot be, or is too long.
    """
    if any(later > earlier for earlier, later in zip(acceptance.positions, acceptance.positions[1:], strict=False)):
        raise InvalidError(
            f"the rates {list(acceptance.positions)[:8]} rise",
            hint="positions: the share of steps in which at least the first, second, ... drafted token was accepted",
        )
    data = canonical(acceptance)
    if len(data) > limits.acceptance_max_bytes:
        raise InvalidError(
            f"the acceptance has {len(data)} bytes", hint=f"at most {limits.acceptance_max_bytes}; shorten its notes"
        )
    return data


def _refuse_if_full(row: Row[*tuple[Any, ...]], attached: int) -> None:
    if attached >= limits.acceptances_max:
        raise FullError(
            f"{row.name}@{row.version} has {attached} attached acceptances, which is the most",
            hint="an admin can remove those that nobody needs any more",
        )


def _attached(connection: Connection, version_id: int) -> list[Row[*tuple[Any, ...]]]:
    query = select(*AcceptanceRow.__table__.columns).where(AcceptanceRow.version_id == version_id)
    return list(connection.execute(query.order_by(AcceptanceRow.added_at, AcceptanceRow.digest)).all())


def _of_manifest(row: Row[*tuple[Any, ...]]) -> tuple[KnownAcceptance, ...]:
    return tuple(
        KnownAcceptance(
            digest=digest_of(canonical(one)),
            source=MANIFEST,
            acceptance=one,
            by=row.published_by,
            at=timestamp(row.published_at),
        )
        for one in manifest_of(row).acceptance
    )


def _known(row: Row[*tuple[Any, ...]]) -> KnownAcceptance:
    return KnownAcceptance(
        digest=row.digest,
        source=ATTACHED,
        acceptance=decode(row.acceptance),
        by=row.added_by,
        at=timestamp(row.added_at),
    )
