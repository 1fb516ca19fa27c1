"""The versions, searched: a page at a time, newest first, in three queries whatever the page holds.

A page is one walk along an index from where the page before ended, so that it costs the same with a hundred versions
and with a hundred thousand. A pattern (`*`) is the exception: it is compared with one row after another.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Row, Select, and_, bindparam, exists, func, select
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from drafter_registry.db.models import AliasRow, BoundaryRow, DrafterRow, VersionRow
from drafter_registry.documents import LIVE, Publication, VersionPage, VersionSummary
from drafter_registry.service import cursor as cursors
from drafter_registry.service.access import require
from drafter_registry.service.context import timestamp
from drafter_registry.service.query import CURSOR, Query, read_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from drafter_registry.service.context import Actor, Registry

#: What a summary needs of a version's row: select these, joined with `DrafterRow`, for `summaries`.
COLUMNS = (
    DrafterRow.name,
    VersionRow.id,
    VersionRow.version,
    VersionRow.digest,
    VersionRow.fingerprint,
    VersionRow.method,
    VersionRow.target_model,
    VersionRow.target_architecture,
    VersionRow.state,
    VersionRow.published_at,
    VersionRow.published_by,
    VersionRow.tool,
    VersionRow.size,
)

Condition = ColumnElement[bool]
_BOUNDARIES = BoundaryRow.__table__
#: Built once: every page and every version shown asks them.
_IDS: BindParameter[list[int]] = bindparam("ids", expanding=True)
_CAPTURED = (
    select(BoundaryRow.version_id, BoundaryRow.boundary)
    .where(BoundaryRow.version_id.in_(_IDS))
    .order_by(BoundaryRow.version_id, BoundaryRow.position)
)
_POINTING = select(AliasRow.version_id, AliasRow.alias).where(AliasRow.version_id.in_(_IDS)).order_by(AliasRow.alias)


def list_versions(registry: Registry, actor: Actor, query: dict[str, str]) -> VersionPage:
    """One page of the versions that match everything that is asked, newest first.

    Args:
        registry: The registry.
        actor: Who asks.
        query: See `query.read_query`.

    Raises:
        NotAuthorisedError: No token, and reading needs one.
        NotFoundError: The token may not read.
        InvalidError: A parameter that is none, or with a value that cannot be; lists all of them.
    """
    require(actor, "read")
    asked = read_query(query)
    with registry.database.read() as connection:
        rows = connection.execute(_statement(asked, is_sqlite=registry.database.is_sqlite)).all()
        items = summaries(connection, rows[: asked.limit])
    following = cursors.encode(CURSOR, rows[asked.limit - 1].id) if len(rows) > asked.limit else ""
    return VersionPage(items=items, next=following)


def summaries(connection: Connection, rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[VersionSummary, ...]:
    """The summaries of these rows (`COLUMNS`), in their order; two queries, or none without rows."""
    if not rows:
        return ()
    ids = [row.id for row in rows]
    boundaries: dict[int, list[int]] = defaultdict(list)
    for version_id, boundary in connection.execute(_CAPTURED, {"ids": ids}):
        boundaries[version_id].append(boundary)
    aliases: dict[int, list[str]] = defaultdict(list)
    for pointed, alias in connection.execute(_POINTING, {"ids": ids}):
        aliases[pointed or 0].append(alias)
    return tuple(_summary(row, tuple(boundaries[row.id]), tuple(aliases[row.id])) for row in rows)


def _summary(row: Row[*tuple[Any, ...]], boundaries: tuple[int, ...], aliases: tuple[str, ...]) -> VersionSummary:
    return VersionSummary(
        name=row.name,
        version=row.version,
        digest=row.digest,
        fingerprint=row.fingerprint,
        method=row.method,
        target_model=row.target_model,
        target_architecture=row.target_architecture,
        boundaries=boundaries,
        state=row.state,
        aliases=aliases,
        published=Publication(by=row.published_by, at=timestamp(row.published_at), tool=row.tool),
        size=row.size,
    )


class _Walk:
    """The page's query as it is put together. The first condition leads: the walk is along its index.

    SQLite keeps no statistics: of two indexes that fit it may take the one that fits every row. So there the columns
    of later conditions are written as expressions ("+method"), which no index fits.
    """

    def __init__(self, *, is_sqlite: bool) -> None:
        self.statement: Select[*tuple[Any, ...]] = select(*COLUMNS).join_from(
            VersionRow, DrafterRow, DrafterRow.id == VersionRow.drafter_id
        )
        self.newest: Any = VersionRow.id
        self._is_sqlite = is_sqlite
        self._led = False

    def equal(self, column: Any, value: Any) -> None:
        if isinstance(value, str) and not value:
            return
        self.statement = self.statement.where(self._seen(column) == value)
        self._led = True

    def alias(self, alias: str) -> None:
        points = (AliasRow.version_id == VersionRow.id, AliasRow.alias == alias)
        if self._led:
            self.statement = self.statement.where(exists().where(*points))
        else:
            self.statement = self.statement.join(AliasRow, and_(*points))
            self.newest, self._led = AliasRow.version_id, True

    def boundary(self, boundary: int) -> None:
        row = _BOUNDARIES.alias()
        captures = (row.c.version_id == VersionRow.id, row.c.boundary == boundary)
        if self._led:
            self.statement = self.statement.where(exists().where(*captures))
        else:
            self.statement = self.statement.join(row, and_(*captures)).where(_first_of_its_kind(row))
            self.newest, self._led = row.c.version_id, True

    def state(self, state: str) -> None:
        if state == LIVE:
            self.statement = self.statement.where(VersionRow.state == LIVE)
        elif state != "all":
            # The first one is what the index of these says of itself.
            self.statement = self.statement.where(self._seen(VersionRow.state) != LIVE)
            self.equal(VersionRow.state, state)

    def like(self, column: Any, pattern: str) -> None:
        """The column matches a pattern in which "*" stands for anything; case is ignored on both databases."""
        escaped = pattern.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
        self.statement = self.statement.where(func.lower(column).like(escaped, escape="\\"))

    def page(self, before: int | None, limit: int) -> Select[*tuple[Any, ...]]:
        """One row more than the page has says whether another page follows."""
        rest = self.statement if before is None else self.statement.where(self.newest < before)
        return rest.order_by(self.newest.desc()).limit(limit + 1)

    def _seen(self, column: Any) -> Any:
        return UnaryExpression(column, operator=custom_op("+")) if self._led and self._is_sqlite else column


def _statement(asked: Query, *, is_sqlite: bool) -> Select[*tuple[Any, ...]]:
    """The page's query, the most telling condition first."""
    walk = _Walk(is_sqlite=is_sqlite)
    if asked.name and not asked.name_is_pattern:
        walk.equal(VersionRow.drafter_id, select(DrafterRow.id).where(DrafterRow.name == asked.name).scalar_subquery())
    walk.equal(VersionRow.fingerprint, asked.fingerprint)
    if not asked.target_is_pattern:
        walk.equal(VersionRow.target_model, asked.target)
    if asked.alias:
        walk.alias(asked.alias)
    for boundary in asked.boundaries:
        walk.boundary(boundary)
    walk.equal(VersionRow.target_architecture, asked.architecture)
    if asked.state != LIVE:
        walk.state(asked.state)
    walk.equal(VersionRow.method, asked.method)
    if asked.state == LIVE:
        walk.state(LIVE)
    if asked.name_is_pattern:
        walk.like(DrafterRow.name, asked.name)
    if asked.target_is_pattern:
        walk.like(VersionRow.target_model, asked.target)
    return walk.page(asked.before, asked.limit)


def _first_of_its_kind(row: Any) -> Condition:
    """A layout may take a boundary twice (in two states); the version is listed once."""
    other = _BOUNDARIES.alias()
    return ~exists().where(
        other.c.version_id == row.c.version_id, other.c.boundary == row.c.boundary, other.c.position < row.c.position
    )
