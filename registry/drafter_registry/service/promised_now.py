"""What versions are promised to be accepted under the conditions in which engines were seen: for `/metrics`."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from drafter_contracts.acceptance.judge import KEPT, KEPT_OF_ESTIMATE
from drafter_contracts.acceptance.promises import nearest
from drafter_registry.db.models import AcceptanceRow, DrafterRow, VersionRow
from drafter_registry.errors import IntegrityError
from drafter_registry.service.acceptances import decode
from drafter_registry.service.versions import manifest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_contracts.acceptance.records import Conditions
    from drafter_contracts.manifest_records import Acceptance


class PromisedNow(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised under the conditions seen, tokens per verify step.

    Attributes:
        length: The promise.
        least: The border of the judgement's words: less is less than was promised (docs/acceptance.md).
    """

    length: float
    least: float


#: Database row of a version to its acceptances.
Acceptances = dict[int, tuple["Acceptance", ...]]


def acceptances_of(connection: Connection, version_ids: Collection[int]) -> Acceptances:
    """Every acceptance of these versions: of their manifests, then attached.

    A damaged manifest promises nothing here: `fsck` finds it, and the other versions are to be told all the same.
    """
    query = select(VersionRow.id, VersionRow.version, VersionRow.digest, VersionRow.manifest, DrafterRow.name)
    of_these = query.join(DrafterRow, DrafterRow.id == VersionRow.drafter_id).where(VersionRow.id.in_(version_ids))
    found = {row.id: _of_manifest(row) for row in connection.execute(of_these)}
    attached = select(AcceptanceRow.version_id, AcceptanceRow.acceptance)
    attached = attached.where(AcceptanceRow.version_id.in_(version_ids))
    for row in connection.execute(attached.order_by(AcceptanceRow.added_at, AcceptanceRow.digest)):
        found[row.version_id] += (decode(row.acceptance),)
    return found


def promised(acceptances: Mapping[int, Sequence[Acceptance]], version_id: int, seen: Conditions) -> PromisedNow | None:
    """The promise to hold these conditions against; None if there is none that can be compared."""
    found = nearest(acceptances.get(version_id, ()), seen)
    if found is None or found.length is None:
        return None
    kept = KEPT_OF_ESTIMATE if found.teacher_forced else KEPT
    return PromisedNow(length=found.length, least=1 + kept * (found.length - 1))


def _of_manifest(row: Row[*tuple[Any, ...]]) -> tuple[Acceptance, ...]:
    try:
        return manifest_of(row).acceptance
    except IntegrityError:
        return ()
