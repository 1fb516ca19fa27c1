"""Which version a reference is: the hot path of every resolve, one select of a few columns by unique indexes."""

from __future__ import annotations

import msgspec
from sqlalchemy import bindparam, select

from drafter_registry.db.database import LookUp
from drafter_registry.db.models import DrafterRow, VersionRow
from drafter_registry.documents import LIVE
from drafter_registry.names import Reference
from drafter_registry.service.access import require
from drafter_registry.service.context import Actor, Registry
from drafter_registry.service.versions import IS_ALIAS, IS_NAMED, TO_ALIAS, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_LOCATED = select(
    DrafterRow.name, VersionRow.version, VersionRow.digest, VersionRow.fingerprint, VersionRow.state
).join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
#: By what a version is found.
LOOK_UPS = {
    "version": LookUp(_LOCATED.where(IS_NAMED, VersionRow.version == bindparam("version"))),
    "alias": LookUp(_LOCATED.join(*TO_ALIAS).where(IS_ALIAS)),
    "digest": LookUp(_LOCATED.where(IS_NAMED, VersionRow.digest == bindparam("digest"))),
}


class Located(msgspec.Struct, frozen=True):
    """A version and its state."""

    name: str
    version: str
    digest: str
    fingerprint: str
    state: str
    state_why: str = ""


def locate(registry: Registry, actor: Actor, reference: Reference) -> Located:
    """Which version a reference is, for whoever may read it: what `versions.find` says, without what it holds.

    Raises:
        NotFoundError: There is none, or it was yanked or deleted; says which.
        NotAuthorisedError: Reading needs a token.
        UnavailableError: The database does not answer.
    """
    require(actor, "read", reference.name, str(reference))
    key, values = question(reference)
    found = live(registry.database.look(key, **values))
    if found is not None:
        return found
    with registry.database.read() as connection:
        row = find(connection, reference)
    return Located(row.name, row.version, row.digest, row.fingerprint, row.state, row.state_why)


def question(reference: Reference) -> tuple[LookUp, dict[str, str]]:
    """The look-up to ask, and its values."""
    kind = "version" if reference.version else "alias" if reference.alias else "digest"
    return LOOK_UPS[kind], {"name": reference.name, kind: getattr(reference, kind)}


def live(row: Sequence[Any] | None) -> Located | None:
    """What a look-up found, if it is a live version: of others `versions.find` has more to say."""
    return Located(*row) if row is not None and row[-1] == LIVE else None
