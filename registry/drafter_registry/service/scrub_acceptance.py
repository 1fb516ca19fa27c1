"""What a scrub looks at of attached acceptances and of observations: each is what it says, its version is there."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from drafter_registry.db.models import AcceptanceRow, DrafterRow, ObservationRow, VersionRow
from drafter_registry.documents import DELETED, FsckProblem
from drafter_registry.service import acceptances
from drafter_registry.service.canonical import digest_of
from drafter_registry.service.context import timestamp
from drafter_registry.service.observation_rows import columns, observation_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sqlalchemy import Row

    from drafter_registry.service.context import Registry

_PAGE = 500
_RESTORE = "restore the database from a backup"
_OF_VERSION = (DrafterRow.name, VersionRow.version, VersionRow.state)


def scrub_acceptance(registry: Registry) -> list[FsckProblem]:
    """What is wrong with attached acceptances and with observations.

    Raises:
        UnavailableError: The database does not answer.
    """
    return [*_attached(registry), *_observed(registry)]


def _attached(registry: Registry) -> Iterator[FsckProblem]:
    query = (
        select(*AcceptanceRow.__table__.columns, *_OF_VERSION)
        .join(VersionRow, VersionRow.id == AcceptanceRow.version_id)
        .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
        .order_by(AcceptanceRow.version_id, AcceptanceRow.digest)
    )
    with registry.database.read() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        subject = f"{row.name}@{row.version} {row.digest}"
        if row.state == DELETED:
            yield _left(subject, "an acceptance is left")
        elif digest_of(row.acceptance) != row.digest:
            detail = f"the acceptance is {digest_of(row.acceptance)}"
            yield FsckProblem(kind="acceptance-digest", subject=subject, detail=detail, remedy=_RESTORE)
        else:
            try:
                acceptances.decode(row.acceptance)
            except msgspec.MsgspecError as error:
                kind = "acceptance-unreadable"
                yield FsckProblem(kind=kind, subject=subject, detail=str(error), remedy=_RESTORE)


def _observed(registry: Registry) -> Iterator[FsckProblem]:
    query = (
        select(*ObservationRow.__table__.columns, *_OF_VERSION)
        .join(VersionRow, VersionRow.id == ObservationRow.version_id)
        .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
        .order_by(ObservationRow.id)
        .limit(_PAGE)
    )
    last = 0
    while True:
        with registry.database.read() as connection:
            page = connection.execute(query.where(ObservationRow.id > last)).all()
        for row in page:
            subject = f"{row.name}@{row.version} {timestamp(row.hour)} {row.instance}".rstrip()
            if row.state == DELETED:
                yield _left(subject, "an observation is left")
            elif (wrong := _wrong(row)) is not None:
                yield FsckProblem(kind="observation-differs", subject=subject, detail=wrong, remedy=_RESTORE)
        if len(page) < _PAGE:
            return
        last = page[-1].id


def _wrong(row: Row[*tuple[Any, ...]]) -> str | None:
    """Why a row is no observation, or not the one that its key says."""
    try:
        found = observation_of(row)
    except (msgspec.MsgspecError, ValueError) as error:
        return str(error)
    if columns(found)["series"] != row.series:
        return "its conditions are not those of its key"
    return None if 1 <= found.lowest <= found.length <= found.highest else "its figures cannot be"


def _left(subject: str, what: str) -> FsckProblem:
    return FsckProblem(
        kind="rows-left", subject=subject, detail=f"the version is deleted, but {what}", remedy="run drafters gc"
    )
