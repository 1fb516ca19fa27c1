"""What engines were seen to accept in their latest hour: for `/metrics`, so bounded in number and age."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

import msgspec
from sqlalchemy import select

from drafter_contracts.acceptance.hours import merge
from drafter_contracts.acceptance.records import Observation
from drafter_registry import limits
from drafter_registry.db.models import DrafterRow, ObservationRow, VersionRow
from drafter_registry.service.access import require
from drafter_registry.service.observation_rows import hour_of, observation_of
from drafter_registry.service.promised_now import PromisedNow, acceptances_of, promised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sqlalchemy import Row

    from drafter_registry.service.context import Actor, Registry

#: Rows read at most: all those of one hour, of several versions.
_MOST_ROWS = 20 * limits.observed_hour_max_rows


class Latest(msgspec.Struct, frozen=True):
    """The latest hour of one series: a version, an engine release, an instance.

    Attributes:
        labels: Name, version, engine, release, instance.
        observation: What was seen in it.
        hour: Its beginning, Unix seconds.
        version_id: Database row of the version.
        promised: What it is promised to do under the same conditions, or None.
    """

    labels: tuple[str, str, str, str, str]
    observation: Observation
    hour: float
    version_id: int
    promised: PromisedNow | None = None


def latest(registry: Registry, actor: Actor) -> tuple[tuple[Latest, ...], int]:
    """The latest hours, in the order of their labels, and how many series were left out.

    Where an instance had several conditions in that hour, the one reported last is told. Left out are, beyond
    `limits.metrics_max_series`, those with the oldest hours.

    Raises:
        NotFoundError: The token may not read.
        NotAuthorisedError: Reading needs a token.
        UnavailableError: The database does not answer.
    """
    require(actor, "read")
    since = registry.now() - timedelta(seconds=limits.metrics_recent_seconds)
    query = (
        select(*ObservationRow.__table__.columns, DrafterRow.name, VersionRow.version)
        .join(VersionRow, VersionRow.id == ObservationRow.version_id)
        .join(DrafterRow, DrafterRow.id == VersionRow.drafter_id)
        .where(ObservationRow.hour > since)
        .order_by(ObservationRow.hour.desc(), ObservationRow.reported_at.desc(), ObservationRow.id)
        .limit(_MOST_ROWS)
    )
    with registry.database.read() as connection:
        series = _series(connection.execute(query).all())
        told = sorted(series[: limits.metrics_max_series], key=lambda one: one.labels)
        acceptances = acceptances_of(connection, {one.version_id for one in told})
    beside = (promised(acceptances, one.version_id, one.observation.conditions) for one in told)
    both = zip(told, beside, strict=True)
    return tuple(msgspec.structs.replace(one, promised=found) for one, found in both), len(series) - len(told)


def _series(rows: Sequence[Row[*tuple[Any, ...]]]) -> list[Latest]:
    """Those with the newest hours first, as the rows."""
    found: dict[tuple[str, str, str, str, str], list[tuple[Row[*tuple[Any, ...]], Observation]]] = {}
    for row in rows:
        seen = observation_of(row)
        found.setdefault(_labels(row, seen), []).append((row, seen))
    return [_of_series(labels, group) for labels, group in found.items()]


def _labels(row: Row[*tuple[Any, ...]], seen: Observation) -> tuple[str, str, str, str, str]:
    return row.name, row.version, seen.conditions.engine, seen.conditions.release, row.instance


def _of_series(
    labels: tuple[str, str, str, str, str], group: list[tuple[Row[*tuple[Any, ...]], Observation]]
) -> Latest:
    """Of the first row's hour and conditions, what all runs saw."""
    first = group[0][0]
    same = [seen for row, seen in group if (row.hour, row.series) == (first.hour, first.series)]
    observation = reduce(merge, same)
    return Latest(labels, observation, hour_of(observation).timestamp(), first.version_id)
