"""What engines were seen to accept: reported hour by hour, kept for a while, and told as a history.

A report is no increment. Each run of an observer reports all that it saw in an hour so far, and a report with more
readings takes the place of the one before, in one statement. So it does not matter how often a report arrives, in which
order, or that the answer to it was lost; what several runs saw is added up when it is read, by `hours.merge`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from itertools import groupby

from sqlalchemy import delete, literal, select, tuple_

from drafter_contracts.acceptance.hours import merge
from drafter_contracts.acceptance.records import Observation
from drafter_registry import limits
from drafter_registry.acceptance_documents import ObservationPage, ObservationsTaken, SeenHour
from drafter_registry.db.models import ObservationRow
from drafter_registry.errors import FullError, InvalidError
from drafter_registry.names import shown
from drafter_registry.service import cursor as cursors
from drafter_registry.service.access import require
from drafter_registry.service.canonical import as_sent
from drafter_registry.service.context import timestamp
from drafter_registry.service.observation_rows import columns, faults, observation_of, oldest_hour
from drafter_registry.service.versions import find, hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_registry.names import Reference
    from drafter_registry.service.context import Actor, Registry

_CURSOR = "observations"
_TABLE = ObservationRow.__table__
#: What one entry of a history is of, in the order in which a history is told, backwards.
_ENTRY = (ObservationRow.hour, ObservationRow.instance, ObservationRow.series)
_KEY = ("version_id", "hour", "instance", "series", "run")


def report(
    registry: Registry, actor: Actor, reference: Reference, run: str, observations: Sequence[Observation]
) -> ObservationsTaken:
    """Keep what one run of an observer saw of the version that a reference means now, be it yanked or not.

    Args:
        registry: The registry.
        actor: Who may observe that name.
        reference: Which version; the answer says which one an alias means.
        run: Which run of which observer.
        observations: Each holds all that the run saw in its hour so far.

    Raises:
        NotFoundError: There is no such version, or the token may not.
        NotAuthorisedError: There is no token.
        InvalidError: Observations that cannot be kept: too old, of the future, with impossible figures; lists all.
        FullError: The version has as many observations of one hour as a registry keeps.
        UnavailableError: The database does not answer.
    """
    require(actor, "observe", reference.name, str(reference))
    observations = tuple(map(as_sent, observations))
    wrong = faults(registry, observations)
    if wrong:
        raise InvalidError(
            f"{len({fault.pointer.split('/')[2] for fault in wrong})} of {len(observations)} observations cannot be "
            f"kept: {wrong[0].message}",
            faults=wrong,
        )
    rows = _largest(observations)
    with registry.database.write() as connection:
        version = hold(connection, reference)
        registry.database.lock(connection, f"observations {version.id}")  # or two could fill one hour together
        _refuse_if_full(connection, version, run, rows)
        told = {"version_id": version.id, "run": run, "reported_at": registry.now(), "reported_by": actor.name}
        taken = _put(connection, [row | told for row in rows])
        old = (ObservationRow.version_id == version.id, ObservationRow.hour < oldest_hour(registry))
        connection.execute(delete(ObservationRow).where(*old))
    return ObservationsTaken(
        name=version.name,
        version=version.version,
        digest=version.digest,
        taken=taken,
        known=len(observations) - taken,
    )


def history(
    registry: Registry,
    actor: Actor,
    reference: Reference,
    *,
    since: str = "",
    until: str = "",
    cursor: str = "",
    limit: int = limits.page_items,
) -> ObservationPage:
    """A page of what was seen of a version, also of a yanked one, newest hour first.

    Args:
        registry: The registry.
        actor: Who asks.
        reference: Which version.
        since: Only hours that begin at this moment (ISO 8601 with a zone) or later; "" for all.
        until: Only hours that begin before this moment; "" for all.
        cursor: `next` of the page before, "" for the first.
        limit: Most entries.

    Raises:
        NotFoundError: There is no such version.
        NotAuthorisedError: Reading needs a token.
        InvalidError: No such cursor, limit or moment.
        UnavailableError: The database does not answer.
    """
    require(actor, "read", reference.name, str(reference))
    cursors.check_limit(limit)
    after = cursors.decode(_CURSOR, cursor)
    first, last = _moment("since", since), _moment("until", until)
    with registry.database.read() as connection:
        version = find(connection, reference, yanked=True)
        wanted = [ObservationRow.version_id == version.id, ObservationRow.hour >= oldest_hour(registry)]
        wanted += [ObservationRow.hour >= first] if first is not None else []
        wanted += [ObservationRow.hour < last] if last is not None else []
        if after is not None:
            place = select(*_ENTRY).where(ObservationRow.id == after, ObservationRow.version_id == version.id)
            found = connection.execute(place).first()
            # What was the last one is too old by now: so is what followed it.
            wanted += [tuple_(*_ENTRY) < _place(found)] if found is not None else [ObservationRow.id < 0]
        entries = _entries(connection, wanted, limit + 1)
    following = cursors.encode(_CURSOR, min(row.id for row in entries[limit - 1])) if len(entries) > limit else ""
    return ObservationPage(
        name=version.name,
        version=version.version,
        digest=version.digest,
        items=tuple(_seen(rows) for rows in entries[:limit]),
        next=following,
    )


def _largest(observations: Sequence[Observation]) -> list[dict[str, Any]]:
    """The rows of a report; of several for one place, the one with most readings."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for observation in observations:
        row = columns(observation)
        key = (row["hour"], row["instance"], row["series"])
        if key not in found or found[key]["readings"] < row["readings"]:
            found[key] = row
    return list(found.values())


def _refuse_if_full(
    connection: Connection, version: Row[*tuple[Any, ...]], run: str, rows: Sequence[dict[str, Any]]
) -> None:
    hours = sorted({row["hour"] for row in rows})
    for hour in hours:
        query = select(ObservationRow.instance, ObservationRow.series, ObservationRow.run)
        here = (ObservationRow.version_id == version.id, ObservationRow.hour == hour)
        there = {tuple(one) for one in connection.execute(query.where(*here))}
        more = {(row["instance"], row["series"], run) for row in rows if row["hour"] == hour}
        if len(there | more) > limits.observed_hour_max_rows and more - there:
            raise FullError(
                f"{version.name}@{version.version} has {len(there)} observations of {timestamp(hour)}",
                hint=f"at most {limits.observed_hour_max_rows} for one hour; does an observer restart all the time, or "
                "call its engine otherwise each time?",
            )


def _put(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """How many of the rows were put in, or took the place of one with fewer readings."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    new = insert(ObservationRow).values(rows)
    changed = {name: new.excluded[name] for name in rows[0] if name not in _KEY}
    upsert = new.on_conflict_do_update(
        index_elements=_KEY, set_=changed, where=ObservationRow.readings < new.excluded.readings
    )
    # What comes back is what was written; PostgreSQL's driver counts no rows here.
    return len(connection.execute(upsert.returning(ObservationRow.id)).all())


def _entries(connection: Connection, wanted: Sequence[Any], most: int) -> list[list[Row[*tuple[Any, ...]]]]:
    """The rows of each entry, the first ones of those that are wanted."""
    backwards = [column.desc() for column in _ENTRY]
    last = select(*_ENTRY).where(*wanted).group_by(*_ENTRY).order_by(*backwards).limit(most)
    keys = connection.execute(last).all()
    if not keys:
        return []
    rows = select(*_TABLE.columns).where(*wanted, tuple_(*_ENTRY) >= _place(keys[-1]))
    found = connection.execute(rows.order_by(*backwards, ObservationRow.run)).all()
    return [list(group) for _, group in groupby(found, key=lambda row: (row.hour, row.instance, row.series))]


def _place(key: Sequence[Any]) -> Any:
    """An entry's key as a value to compare with."""
    return tuple_(*(literal(value, column.type) for value, column in zip(key, _ENTRY, strict=True)))


def _seen(rows: Sequence[Row[*tuple[Any, ...]]]) -> SeenHour:
    latest = max(rows, key=lambda row: row.reported_at)
    observation = reduce(merge, map(observation_of, rows))
    return SeenHour(observation=observation, by=latest.reported_by, at=timestamp(latest.reported_at))


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidError(f"{name} is {shown(text)}", hint="write a moment with its zone: 2026-11-29T14:00:00Z")
