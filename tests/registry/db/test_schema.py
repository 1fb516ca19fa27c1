"""The schema: made from nothing, equal to the models, refused when it is another one, cheap to look at."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, table, text

from drafter_registry.db import schema
from drafter_registry.db.database import Database
from drafter_registry.db.models import Base
from drafter_registry.errors import SchemaError, UnavailableError
from drafter_registry.service.context import Registry


@pytest.fixture
def database(settings):
    """An empty database of either kind."""
    made = Database(settings.database_url)
    yield made
    made.close()


def run(database, *statements):
    with database.write() as connection:
        for statement in statements:
            connection.execute(text(statement))


def tables(database):
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


def test_the_revisions_make_exactly_the_models(database):
    assert schema.upgrade(database) == schema.REVISIONS
    with database.write() as connection:
        command.check(schema.configuration(connection))  # raises with what differs
    assert tables(database) == {*Base.metadata.tables, "alembic_version"}


def test_a_difference_would_be_seen(database):
    schema.upgrade(database)
    run(database, "DROP INDEX ix_versions_method_id", "ALTER TABLE tokens ADD COLUMN secret TEXT")
    with database.write() as connection, pytest.raises(Exception, match="New upgrade operations") as caught:
        command.check(schema.configuration(connection))
    assert "ix_versions_method_id" in str(caught.value)
    assert "secret" in str(caught.value)


def test_the_known_revisions_are_the_shipped_ones(database):
    with database.read() as connection:
        shipped = ScriptDirectory.from_config(schema.configuration(connection))
        chain = [revision.revision for revision in shipped.walk_revisions()]
    assert tuple(reversed(chain)) == schema.REVISIONS


def test_an_upgraded_database_is_left_alone(database):
    schema.create_or_check(database)
    schema.create_or_check(database)
    schema.check(database)
    assert schema.upgrade(database) == ()


def test_an_empty_database_says_what_to_run(database):
    with pytest.raises(SchemaError, match="is empty") as caught:
        schema.check(database)
    assert caught.value.hint.startswith("run: drafters db upgrade --database ")
    assert caught.value.hint.endswith(database.url.render_as_string(hide_password=False))
    assert tables(database) == set()


def test_an_older_schema_says_what_to_run(database, monkeypatch):
    schema.upgrade(database)
    older = f"{schema.HEAD}, older than this release's drafters_9998"
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "drafters_9998"))
    monkeypatch.setattr(schema, "HEAD", "drafters_9998")
    for verb in (schema.check, schema.create_or_check):
        with pytest.raises(SchemaError, match=older) as caught:
            verb(database)
        assert "drafters db upgrade" in caught.value.hint


def test_a_newer_schema_says_that_this_release_is_too_old(database):
    schema.upgrade(database)
    run(database, "UPDATE alembic_version SET version_num = 'drafters_9999'")
    for verb in (schema.check, schema.create_or_check, schema.upgrade):
        with pytest.raises(SchemaError, match="too old") as caught:
            verb(database)
        assert "db upgrade" not in caught.value.hint


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE users (id INTEGER)"],
        ["CREATE TABLE alembic_version (version_num TEXT)"],
        ["CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('1ae9c0')"],
        ["CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('0001'), ('0002')"],
    ],
)
def test_another_programs_database_is_not_touched(database, statements):
    run(database, *statements)
    before = tables(database)
    for verb in (schema.check, schema.create_or_check, schema.upgrade):
        with pytest.raises(SchemaError, match="is not a registry's database"):
            verb(database)
    assert tables(database) == before


def test_a_file_that_is_no_database_is_not_touched(tmp_path):
    path = tmp_path / "registry.db"
    path.write_bytes(b"notes, not rows. " * 300)
    database = Database(f"sqlite:///{path}")
    for verb in (schema.check, schema.create_or_check, schema.upgrade):
        with pytest.raises(SchemaError, match="no SQLite file"):
            verb(database)
    database.close()
    assert path.read_bytes() == b"notes, not rows. " * 300


def test_a_database_that_does_not_answer_is_no_schema_error():
    database = Database("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(UnavailableError):
        schema.create_or_check(database)


def test_passwords_are_not_in_messages():
    database = Database("postgresql://user:hunter2@127.0.0.1:1/none")
    error = schema._foreign(database, "why")
    assert "hunter2" not in str(error) + error.hint + schema._command(database)
    assert "DRAFTERS_DATABASE" in schema._command(database)


def test_a_migration_that_fails_leaves_nothing(database, monkeypatch):
    def fail(connection, revision):
        whole(connection, revision)
        raise RuntimeError("at the end")

    whole = schema._run
    monkeypatch.setattr(schema, "_run", fail)
    with pytest.raises(RuntimeError):
        schema.upgrade(database)
    assert tables(database) == set()
    monkeypatch.setattr(schema, "_run", whole)
    assert schema.upgrade(database) == schema.REVISIONS


def test_each_revision_is_a_transaction_of_its_own(database, monkeypatch):
    """The first stays when the second fails, and the next upgrade goes on there."""

    def second_fails(connection, revision):
        if revision != "drafters_9998":
            whole(connection, revision)
            return
        connection.execute(text("CREATE TABLE half_written (id INTEGER)"))
        raise RuntimeError

    whole = schema._run
    monkeypatch.setattr(schema, "_run", second_fails)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "drafters_9998"))
    monkeypatch.setattr(schema, "HEAD", "drafters_9998")
    with pytest.raises(RuntimeError):
        schema.upgrade(database)
    assert "versions" in tables(database)
    assert "half_written" not in tables(database)


def test_what_was_there_before_the_second_revision_stays(settings, database, add_row, monkeypatch):
    """A registry of the first release, with rows in it, is upgraded; servers of that release go on meanwhile."""
    with monkeypatch.context() as first_release:
        first_release.setattr(schema, "REVISIONS", schema.REVISIONS[:1])
        first_release.setattr(schema, "HEAD", schema.REVISIONS[0])
        assert schema.upgrade(database) == ("drafters_0001",)
        registry = Registry(database, None, settings)
        digests = {version: add_row(registry, "kimi-eagle3", version) for version in ("1.0", "2.0")}
    before = everything(database)
    with pytest.raises(SchemaError, match="drafters_0001, older than this release's drafters_0002"):
        schema.check(database)
    assert schema.upgrade(database) == ("drafters_0002",)
    schema.check(database)
    with database.write() as connection:
        command.check(schema.configuration(connection))
    after = everything(database)
    assert len(before["versions"]) == 2
    assert {name for name in before if before[name] != after[name]} == {"alembic_version"}
    assert {row.digest for row in after["versions"]} == set(digests.values())
    assert (after["observations"], after["version_acceptances"]) == ([], [])
    with monkeypatch.context() as first_release:
        first_release.setattr(schema, "REVISIONS", schema.REVISIONS[:1])
        first_release.setattr(schema, "HEAD", schema.REVISIONS[0])
        schema.check_running(database)


def everything(database):
    """The rows of every table that the database has."""
    with database.read() as connection:
        names = inspect(connection).get_table_names()
        return {name: connection.execute(select(text("*")).select_from(table(name))).all() for name in names}


def test_a_migration_does_not_wait_long_for_a_table_in_use(postgresql, servers, monkeypatch):
    database = Database(servers.new_database(postgresql))
    said = []

    def look(connection, revision):
        said.extend(connection.execute(text(f"SHOW {name}")).scalar() for name in ("lock_timeout", "statement_timeout"))
        whole(connection, revision)

    whole = schema._run
    monkeypatch.setattr(schema, "_run", look)
    schema.upgrade(database)
    assert said == ["4s", "15min"] * len(schema.REVISIONS)
    with database.read() as connection:
        assert connection.execute(text("SHOW lock_timeout")).scalar() == "30s"
    database.close()


def test_threads_that_upgrade_at_once_run_each_revision_once(settings):
    def upgrade(_):
        database = Database(settings.database_url)
        try:
            return schema.upgrade(database)
        finally:
            database.close()

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(upgrade, range(6)))
    assert sorted(revision for revisions in done for revision in revisions) == list(schema.REVISIONS)


PROGRAM = """
import sys
from drafter_registry.db import schema
from drafter_registry.db.database import Database
schema.create_or_check(Database(sys.argv[1]))
print("alembic" in sys.modules)
"""


def test_processes_that_make_one_at_once_all_succeed_and_a_look_needs_no_alembic(settings):
    program = [sys.executable, "-c", PROGRAM, settings.database_url]
    started = [subprocess.Popen(program, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert "True\n" in outputs
    again = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == "False\n"


def test_sqlite_checks_foreign_keys_again_after_a_migration(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/registry.db")
    with database.write(foreign_keys=False) as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0
        connection.connection.driver_connection.execute("CREATE TABLE t (id INTEGER)")
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    database.close()
    with sqlite3.connect(tmp_path / "registry.db") as plain:
        assert plain.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_migration_that_breaks_a_reference_is_taken_back(tmp_path, monkeypatch):
    database = Database(f"sqlite:///{tmp_path}/registry.db")
    schema.upgrade(database)

    def lose(configuration, revision):
        connection = configuration.attributes["connection"]
        connection.exec_driver_sql("INSERT INTO version_boundaries VALUES (7, 0, 3)")

    monkeypatch.setattr(command, "upgrade", lose)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "drafters_9998"))
    monkeypatch.setattr(schema, "HEAD", "drafters_9998")
    with pytest.raises(SchemaError, match="version_boundaries without its versions"):
        schema.upgrade(database)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM version_boundaries").scalar() == 0
    database.close()


def test_a_sqlite_file_that_cannot_be_opened_is_named(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/absent/registry.db", create=False)
    with pytest.raises(UnavailableError, match=r"absent/registry\.db cannot be opened") as told:
        schema.check(database)
    assert "writable" in told.value.hint
    database.close()
