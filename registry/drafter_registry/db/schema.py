"""Whether a database has this release's tables, and bringing it there.

Looking is cheap (one row) and imports no Alembic; only an upgrade does.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DatabaseError

from drafter_registry.db.database import Database
from drafter_registry.errors import SchemaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from alembic.config import Config

#: Every revision that this release knows, oldest first; the last one is what it works with.
REVISIONS = ("drafters_0001", "drafters_0002")
HEAD = REVISIONS[-1]
_PREFIX = "drafters_"
#: Held by whoever upgrades a PostgreSQL database.
_LOCK = "drafter-registry schema"
#: How long a migration may wait for a table that somebody works with, and how long one statement of it may run.
_MIGRATION_LIMITS = ("SET LOCAL lock_timeout = '4s'", "SET LOCAL statement_timeout = '15min'")


def check(database: Database) -> None:
    """Return if the database has exactly this release's schema.

    Raises:
        SchemaError: It has none, an older or a newer one, or is another program's; says what to do.
        UnavailableError: It does not answer.
    """
    found = _revision(database)
    if found is None:
        raise SchemaError(f"{_shown(database)} is empty", hint=f"run: {_command(database)}")
    _refuse_unless_known(database, found)
    if found != HEAD:
        raise SchemaError(
            f"{_shown(database)} has schema {found}, older than this release's {HEAD}",
            hint=f"run: {_command(database)}",
        )


def check_running(database: Database) -> None:
    """Return if a process of this release, started when the schema was right, can go on working.

    So it can after the next release's upgrade, whose migrations leave the tables usable by this one: otherwise every
    replica would leave at the moment of the upgrade, before one of the new release is there.

    Raises:
        SchemaError: It has no schema, an older one, or is another program's.
        UnavailableError: It does not answer.
    """
    found = _revision(database)
    if found is None or found in REVISIONS or not found.startswith(_PREFIX):
        check(database)


def create_or_check(database: Database) -> None:
    """Make the tables in an empty database; otherwise `check`.

    Raises:
        SchemaError: Neither empty nor of this release; says what to do.
        UnavailableError: It does not answer.
    """
    if _revision(database) is None:
        upgrade(database)
    else:
        check(database)


def upgrade(database: Database) -> tuple[str, ...]:
    """Bring the database to this release's schema: each revision in a transaction of its own, by one process at a time.

    Returns:
        The revisions that were run; none if there was nothing to do.

    Raises:
        SchemaError: Newer than this release, or another program's database.
        UnavailableError: It does not answer, or its tables were in use for too long; what is done stays done.
    """
    done: list[str] = []
    _revision(database)  # says what is wrong before anything waits for a lock
    while True:
        with database.write(foreign_keys=False) as connection:
            database.lock(connection, _LOCK)
            found = _read(connection, database)
            if found is not None:
                _refuse_unless_known(database, found)
            if found == HEAD:
                return tuple(done)
            if not database.is_sqlite:
                for statement in _MIGRATION_LIMITS:
                    connection.exec_driver_sql(statement)
            following = REVISIONS[0 if found is None else REVISIONS.index(found) + 1]
            _run(connection, following)
            done.append(following)


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for the shipped revisions on that connection."""
    import sys

    from alembic.config import Config

    found = Config(stdout=sys.stdout)  # its default is what was standard output when it was imported first
    found.set_main_option("script_location", "drafter_migrations:")
    found.set_main_option("path_separator", "os")
    found.attributes["connection"] = connection
    return found


def _run(connection: Connection, revision: str) -> None:
    from alembic import command

    command.upgrade(configuration(connection), revision)
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise SchemaError(f"revision {revision} would leave a row of {broken[0]} without its {broken[2]}")


def _revision(database: Database) -> str | None:
    """The database's revision; None if it is empty.

    Raises:
        SchemaError: Not a registry's database.
        UnavailableError: It does not answer.
    """
    try:
        with database.read() as connection:
            return _read(connection, database)
    except DatabaseError as error:
        if database.is_sqlite and "not a database" in str(error.orig):
            raise _foreign(database, "it is no SQLite file") from error
        raise


def _read(connection: Connection, database: Database) -> str | None:
    tables = inspect(connection)
    if not tables.has_table("alembic_version"):
        others = tables.get_table_names()
        if others:
            raise _foreign(database, f"it has a table {min(others)!r} and no schema version")
        return None
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(rows) != 1:
        raise _foreign(database, f"it has {len(rows)} schema versions")
    return str(rows[0])


def _refuse_unless_known(database: Database, found: str) -> None:
    if found in REVISIONS:
        return
    if not found.startswith(_PREFIX):
        raise _foreign(database, f"its schema version is {found!r}")
    raise SchemaError(
        f"{_shown(database)} has schema {found}, newer than this release's {HEAD}: this release is too old for it",
        hint="install the release of drafter-registry that upgraded it, or a later one",
    )


def _foreign(database: Database, why: str) -> SchemaError:
    return SchemaError(
        f"{_shown(database)} is not a registry's database: {why}",
        hint="name a new file or an empty database with DRAFTERS_DATABASE, or a registry's",
    )


def _shown(database: Database) -> str:
    """The database for messages, without its password."""
    if database.is_sqlite:
        return f"the database {database.url.database}"
    return f"the database {database.url.render_as_string(hide_password=True)}"


def _command(database: Database) -> str:
    if database.url.password:
        return "drafters db upgrade (with the same DRAFTERS_DATABASE)"
    return f"drafters db upgrade --database {database.url.render_as_string(hide_password=False)}"
