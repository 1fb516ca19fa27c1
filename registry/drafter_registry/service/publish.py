"""Publishing: a manifest whose blobs are stored becomes a version, once and for ever.

Everything that takes time (reading headers off the blobs) happens before the write transaction. Inside it, the name is
locked, then the blobs (`uploads.hold`), so that no collection removes one meanwhile; the rows are written and commit
together. Unique constraints stand behind the locks: whoever loses a race reads again and gets the answer that is due.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from drafter_contracts.manifest import Manifest, decode
from drafter_contracts.recording import audit as recorded
from drafter_contracts.recording.claims import Claim, pointer
from drafter_contracts.recording.difference import changes
from drafter_contracts.recording.fingerprint import fingerprint
from drafter_registry.db.models import BoundaryRow, DrafterRow, FileRow, VersionRow
from drafter_registry.documents import DELETED, LIVE, Published
from drafter_registry.errors import (
    BlobsMissingError,
    ConflictError,
    ContradictionError,
    Fault,
    IncompleteError,
    InternalError,
    NameTakenError,
)
from drafter_registry.failpoints import reached
from drafter_registry.names import check_name, check_version, normal_form
from drafter_registry.service import audit
from drafter_registry.service.access import require
from drafter_registry.service.admission import admit
from drafter_registry.service.context import Actor, Registry
from drafter_registry.service.reread import encode_facts, reader, reread
from drafter_registry.service.skeleton import digest_of, in_words
from drafter_registry.service.uploads import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sqlalchemy import Connection, Row


#: Longest program name kept with a publication, characters.
_TOOL = 255
#: How often a lost race is looked at again. Behind the lock there is none to lose.
_TRIES = 3

_NAMES = select(DrafterRow.id, DrafterRow.name).where(DrafterRow.normal_form == bindparam("normal_form"))
_THERE = (
    select(VersionRow.id, VersionRow.digest, VersionRow.state, VersionRow.manifest)
    .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
    .where(DrafterRow.name == bindparam("name"), VersionRow.version == bindparam("version"))
)
_SAME = (
    select(VersionRow.version)
    .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
    .where(
        DrafterRow.name == bindparam("name"),
        VersionRow.fingerprint == bindparam("fingerprint"),
        VersionRow.version != bindparam("version"),
        VersionRow.state != DELETED,
    )
    .order_by(VersionRow.id)
)


class _Offer(msgspec.Struct, frozen=True):
    """What is to become a version; `facts` is empty until the blobs were read."""

    name: str
    version: str
    manifest: Manifest
    data: bytes
    digest: str
    fingerprint: str
    tool: str
    facts: bytes = b""


def publish(
    registry: Registry, actor: Actor, name: str, version: str, manifest: Manifest, *, tool: str = ""
) -> Published:
    """Make a version of blobs that are stored.

    Args:
        registry: The registry.
        actor: Who publishes.
        name: The drafter's name; the manifest says the same.
        version: Its version; the manifest says the same.
        manifest: Everything that the version claims. What the blobs say themselves is read off them.
        tool: Name and version of the program that publishes.

    Returns:
        `created` is false if that version has this very content already.

    Raises:
        NotFoundError: The token may not publish under that name.
        NotAuthorisedError: There is no token.
        InvalidError: A name, version, path or value that cannot be.
        TooLargeError: The manifest is too large.
        NameTakenError: People would confuse the name with an existing one.
        ConflictError: The version has other content, or was deleted.
        IncompleteError: The manifest lacks what a version must say, or blobs are pickles.
        BlobsMissingError: Blobs are not stored.
        ContradictionError: The blobs contradict the manifest; `faults` lists every such claim.
        UnavailableError: The database or the blob store does not answer.
        StorageFullError: The database's disk is full.
    """
    check_name(name)
    check_version(version)
    require(actor, "publish", name, f"{name}@{version}")
    data = admit(registry.settings, name, version, manifest)
    digest = "sha256:" + sha256(data).hexdigest()
    tool = "".join(character for character in tool if character.isprintable())[:_TOOL]
    offer = _Offer(name, version, manifest, data, digest, fingerprint(manifest), tool)
    with registry.database.read() as connection:
        _refuse_similar(connection, name)
        there = _answer(connection, offer)
    if there is not None:
        return there
    offer = msgspec.structs.replace(offer, facts=_read_and_compare(registry, manifest))
    reached("publish.checked")
    for _ in range(_TRIES):
        try:
            published = _store(registry, actor, offer)
        except ConstraintError:
            continue
        reached("publish.committed")
        return published
    raise InternalError(f"{name}@{version} is neither there nor can it be written")


def _read_and_compare(registry: Registry, manifest: Manifest) -> bytes:
    """The facts as JSON, if the manifest says all that it must and nothing that the blobs deny."""
    missing = _faults(recorded.missing(manifest))
    if missing:
        raise IncompleteError(in_words(missing), faults=tuple(missing))
    facts = reread(registry.blobs, manifest)
    denied = _faults(recorded.contradictions(manifest, facts))
    if denied:
        raise ContradictionError(in_words(denied), faults=tuple(denied), hint="`drafters publish` records what is read")
    return encode_facts(facts)


def _faults(claims: Iterable[Claim]) -> list[Fault]:
    return [Fault(one.pointer, one.message, one.expected, one.actual, one.source) for one in claims]


def _store(registry: Registry, actor: Actor, offer: _Offer) -> Published:
    """Write the version, or answer as it is due if somebody else was faster."""
    with registry.database.write() as connection:
        registry.database.lock(connection, f"drafter {normal_form(offer.name)}")
        drafter = _refuse_similar(connection, offer.name)
        there = _answer(connection, offer)
        if there is not None:
            return there
        _hold_blobs(registry, connection, offer.manifest)
        reached("publish.before_row")
        if drafter is None:
            form = normal_form(offer.name)
            new = insert(DrafterRow).values(name=offer.name, normal_form=form, created_at=registry.now())
            drafter = connection.execute(new.returning(DrafterRow.id)).scalar_one()
        _write(registry, connection, actor, drafter, offer)
        audit.record(
            connection,
            registry,
            actor,
            "version.publish",
            f"{offer.name}@{offer.version}",
            digest=offer.digest,
            fingerprint=offer.fingerprint,
            tool=offer.tool,
        )
        same = _same_contract(connection, offer)
        reached("publish.before_commit")
    return _published(offer, same, created=True)


def _refuse_similar(connection: Connection, name: str) -> int | None:
    """The drafter's id, or None if it has no version yet."""
    row = connection.execute(_NAMES, {"normal_form": normal_form(name)}).first()
    if row is None:
        return None
    if row.name != name:
        raise NameTakenError(
            f"{name} looks too much like {row.name}, which exists",
            hint=f"publish a new version of {row.name}, or choose a name that nobody confuses with it",
        )
    return int(row.id)


def _answer(connection: Connection, offer: _Offer) -> Published | None:
    """What to say if the version is there: success for the same content, whatever its state; else a conflict."""
    row = connection.execute(_THERE, {"name": offer.name, "version": offer.version}).first()
    if row is None:
        return None
    if row.state == DELETED:
        raise ConflictError(
            f"{offer.name}@{offer.version} was deleted, and that version can never be used again",
            hint="publish it under a new version",
        )
    if row.digest != offer.digest:
        raise _conflict(offer, row)
    return _published(offer, _same_contract(connection, offer), created=False)


def _conflict(offer: _Offer, row: Row[*tuple[Any, ...]]) -> ConflictError:
    differing = changes(decode(row.manifest), offer.manifest)
    faults = tuple(
        Fault(
            "/files" if one.field.startswith("files.") else pointer(one.field),
            f"{one.field} differs",
            expected=one.before,
            actual=one.after,
            source=row.digest,
        )
        for one in differing
    )
    fields = ", ".join(dict.fromkeys(one.field for one in differing)) or "what decides nothing"
    return ConflictError(
        f"{offer.name}@{offer.version} is published with other content: {fields} differ",
        faults=faults,
        hint="a version never changes: publish the new content under a new version",
    )


def _hold_blobs(registry: Registry, connection: Connection, manifest: Manifest) -> None:
    """Hold every blob until the transaction ends; each must be there, as long as it was when it was read."""
    sizes = hold(connection, registry, {digest_of(file) for file in manifest.files})
    absent = [
        Fault(f"/files/{i}", f"the bytes of {file.path} are not stored", digest_of(file), "no such blob")
        for i, file in enumerate(manifest.files)
        if digest_of(file) not in sizes
    ]
    if absent:
        raise BlobsMissingError(in_words(absent), faults=tuple(absent), hint="upload them, then publish again")


def _write(registry: Registry, connection: Connection, actor: Actor, drafter: int, offer: _Offer) -> None:
    manifest, files = offer.manifest, offer.manifest.files
    row = insert(VersionRow).values(
        drafter_id=drafter,
        version=offer.version,
        digest=offer.digest,
        fingerprint=offer.fingerprint,
        manifest=offer.data,
        facts=offer.facts,
        facts_by=reader(),
        method=manifest.method,
        target_model=manifest.target.model,
        target_architecture=manifest.target.architecture,
        size=sum(file.size for file in files),
        state=LIVE,
        published_at=registry.now(),
        published_by=actor.name,
        tool=offer.tool,
        state_at=None,
        state_by="",
        state_why="",
    )
    number = connection.execute(row.returning(VersionRow.id)).scalar_one()
    rows = [{"version_id": number, "path": file.path, "size": file.size, "digest": digest_of(file)} for file in files]
    connection.execute(insert(FileRow), rows)
    boundaries = manifest.layout.boundaries if manifest.layout is not None else ()
    if boundaries:
        taps = [{"version_id": number, "position": i, "boundary": boundary} for i, boundary in enumerate(boundaries)]
        connection.execute(insert(BoundaryRow), taps)


def _same_contract(connection: Connection, offer: _Offer) -> tuple[str, ...]:
    values = {"name": offer.name, "fingerprint": offer.fingerprint, "version": offer.version}
    return tuple(connection.execute(_SAME, values).scalars())


def _published(offer: _Offer, same: tuple[str, ...], *, created: bool) -> Published:
    return Published(
        name=offer.name,
        version=offer.version,
        digest=offer.digest,
        fingerprint=offer.fingerprint,
        created=created,
        same_contract=same,
    )
