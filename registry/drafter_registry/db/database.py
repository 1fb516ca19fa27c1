"""One database: an engine set up for SQLite or PostgreSQL, and transactions that read or write.

SQLite: WAL, `synchronous=FULL`, and writes that begin with `BEGIN IMMEDIATE`: a transaction that reads first and writes
later would fail instead of waiting. PostgreSQL: psycopg 3, locks wait at most `LOCK_TIMEOUT`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256

from sqlalchemy import Connection, Dialect, Engine, Select, create_engine, event, text
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import QueuePool

from drafter_registry.errors import InvalidError, StorageFullError, UnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import psycopg
    from sqlalchemy.engine import URL
    from sqlalchemy.pool import ConnectionPoolEntry

#: Longest wait for a lock, milliseconds. Publishers queue on SQLite's one writer: 32 of them at 10 ms are far below it.
LOCK_TIMEOUT = 30_000
#: Longest statement, milliseconds (PostgreSQL).
STATEMENT_TIMEOUT = 60_000
_POOL = 20
#: Connections for look-ups (PostgreSQL): each takes a fraction of a millisecond.
_LOOKING = 4
_CONNECT = {
    "options": f"-c lock_timeout={LOCK_TIMEOUT} -c statement_timeout={STATEMENT_TIMEOUT} -c timezone=UTC",
    "connect_timeout": 10,
}


class LookUp:
    """A select of one row by its key, to be asked often: its text is made once.

    Args:
        statement: Selects columns that need no conversion (texts, numbers), by named parameters.
    """

    def __init__(self, statement: Select[*tuple[Any, ...]]) -> None:
        self.statement = statement
        self._texts: dict[str, tuple[str, tuple[str, ...] | None]] = {}

    @cached_property
    def numbered(self) -> tuple[str, tuple[str, ...]]:
        """Its text for PostgreSQL itself, with $1, $2, ..., and the parameters' names in that order."""
        dialect = PGDialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
        compiled = self.statement.compile(dialect=dialect)
        return str(compiled), tuple(compiled.positiontup or ())

    def on(self, dialect: Dialect) -> tuple[str, tuple[str, ...] | None]:
        """Its text for a driver, and the order of its parameters; None where they go by name."""
        found = self._texts.get(dialect.name)
        if found is None:
            compiled = self.statement.compile(dialect=dialect)
            found = str(compiled), tuple(compiled.positiontup or ()) if compiled.positional else None
            self._texts[dialect.name] = found
        return found


class Database:
    """Transactions on one database.

    Args:
        url: SQLAlchemy URL; "postgresql://" means psycopg 3.
        create: Whether to make the directory of a SQLite file.

    Raises:
        InvalidError: The URL cannot be read, names another kind of database, or a directory that cannot be made.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url = _read_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        path = self.url.database or ":memory:"
        if self.is_sqlite and create and path != ":memory:":
            make_directory(os.path.dirname(os.path.abspath(path)))
        self.engine: Engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)
        self._looking: Engine = self.engine if self.is_sqlite else _postgresql_looking(self.url)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
        self._looking.dispose()

    def look(self, key: LookUp, **values: str) -> tuple[Any, ...] | None:
        """The row that a look-up finds, as the driver gives it; None if there is none.

        A single statement sees one state of the database by itself: there is no transaction around it, and none of
        what one costs (on PostgreSQL three more round trips).

        Raises:
            UnavailableError: The database does not answer.
        """
        text, order = key.on(self._looking.dialect)
        wanted: Any = values if order is None else tuple(values[name] for name in order)
        # The driver's own errors: neither a connection that cannot be had nor one that was cut is explained here.
        with suppress(self._looking.dialect.loaded_dbapi.Error):
            return self._looked_at(text, wanted)
        with self.read() as again:  # a connection that was cut is replaced; another error is told as everywhere
            row = again.execute(key.statement, values).first()
        return None if row is None else tuple(row)

    def _looked_at(self, text: str, wanted: Any) -> tuple[Any, ...] | None:
        with _translated(self.url):
            connection = self._looking.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute(text, wanted)
            found: tuple[Any, ...] | None = cursor.fetchone()
            cursor.close()
        except self._looking.dialect.loaded_dbapi.Error:
            connection.invalidate()
            raise
        connection.close()
        return found

    def connect_alone(self) -> psycopg.Connection[Any]:
        """A connection to PostgreSQL outside of every pool, which commits each statement; whoever asks closes it.

        Raises:
            psycopg.Error: It cannot be had.
        """
        import psycopg

        arguments, options = self._looking.dialect.create_connect_args(self.url)
        return psycopg.connect(*arguments, **{**options, **_CONNECT, "autocommit": True, "client_encoding": "utf8"})

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads.

        Raises:
            UnavailableError: The database does not answer.
        """
        with _translated(self.url), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, foreign_keys: bool = True) -> Iterator[Connection]:
        """A transaction that writes: committed at the end, rolled back on any exception.

        Args:
            foreign_keys: False for a migration on SQLite, which rebuilds tables that others refer to.

        Raises:
            UnavailableError: The database does not answer, or its lock was not to be had in time.
            StorageFullError: Its disk is full.
        """
        with _translated(self.url), self.engine.connect() as connection:
            if self.is_sqlite:
                connection.execution_options(drafters_write=True)
            with _without_foreign_keys(connection, self.is_sqlite and not foreign_keys), connection.begin():
                yield connection

    def lock(self, connection: Connection, key: str) -> None:
        """Hold others off `key` until this transaction ends. SQLite's writer is alone anyway."""
        if not self.is_sqlite:
            number = int.from_bytes(sha256(key.encode()).digest()[:8], "big", signed=True)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": number})


def make_directory(path: str) -> None:
    """Make a directory for its owner only, unless it is there.

    Raises:
        InvalidError: It cannot be made.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidError(f"the directory {path} cannot be made: {error.strerror}") from error


def _read_url(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise InvalidError("the database's URL cannot be read", hint=str(error).splitlines()[0]) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidError(
            f"a registry does not keep its rows in {parsed.get_backend_name()}",
            hint="write sqlite:///PATH or postgresql://USER@HOST/NAME",
        )
    return parsed


def _sqlite(url: URL) -> Engine:
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=_POOL, max_overflow=0, connect_args={"timeout": LOCK_TIMEOUT / 1000}
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where the driver thinks
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("drafters_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _postgresql(url: URL) -> Engine:
    return create_engine(url, pool_size=_POOL, max_overflow=0, pool_pre_ping=True, connect_args=_CONNECT)


def _postgresql_looking(url: URL) -> Engine:
    """For single statements: nothing to begin, to end, or to ask before."""
    connect = {**_CONNECT, "autocommit": True}
    return create_engine(url, pool_size=_LOOKING, max_overflow=0, pool_reset_on_return=None, connect_args=connect)


@contextmanager
def _without_foreign_keys(connection: Connection, wanted: bool) -> Iterator[None]:
    """SQLite checks none meanwhile; the switch works outside of transactions only."""
    driver = connection.connection.driver_connection if wanted else None
    if driver is None:
        yield
        return
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if "full" in str(error.orig).lower():
            raise StorageFullError("the database's disk is full") from error
        if "unable to open" in str(error.orig) or "readonly" in str(error.orig):
            raise UnavailableError(
                f"the database {url.database} cannot be opened: {_first_line(error)}",
                hint="the file and its directory must be writable, for reading too: SQLite keeps files beside it",
                retry_after=5,
            ) from error
        raise UnavailableError("the database does not answer", hint=_first_line(error), retry_after=5) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise UnavailableError("the database hung up", retry_after=5) from error
        raise


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).splitlines() or [""])[0]
