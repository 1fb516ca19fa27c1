"""A server, or rows alone, of an empty registry of either kind (see `settings` of tests/conftest.py)."""

from __future__ import annotations

import hashlib
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select


@pytest.fixture
def server(settings, live_server):
    """One server of an empty registry, of both kinds: `.url`, `.token`, `.headers`."""
    return live_server(settings)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self):
        return self.moment

    def forward(self, **duration):
        self.moment += timedelta(**duration)


@pytest.fixture
def row_clock():
    """The clock of `rows`."""
    return Clock()


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory):
    """A SQLite file with the schema and nothing else, to be copied: faster than making it for every test."""
    from drafter_registry.db import schema
    from drafter_registry.db.database import Database

    path = str(tmp_path_factory.mktemp("empty") / "registry.db")
    database = Database(f"sqlite:///{path}")
    schema.upgrade(database)
    database.close()
    return path


@pytest.fixture
def rows(settings, row_clock, empty_sqlite):
    """An empty registry with its schema made, and no blob store."""
    from drafter_registry.db import schema
    from drafter_registry.db.database import Database
    from drafter_registry.service.context import Registry

    database = Database(settings.database_url)
    if database.is_sqlite:
        shutil.copyfile(empty_sqlite, database.url.database)
    schema.create_or_check(database)
    yield Registry(database, None, settings, row_clock)
    database.close()


@pytest.fixture
def local_admin():
    """Whoever may do everything."""
    from drafter_registry.service.context import LOCAL_SCOPES, Actor

    return Actor("local:tests", LOCAL_SCOPES, "request-1", "127.0.0.1")


@pytest.fixture
def add_row():
    """Puts a version's rows into a registry: `add_row(registry, name, version, boundaries=(3, 31), **columns)`."""
    from drafter_registry.db.models import BoundaryRow, DrafterRow, VersionRow
    from drafter_registry.names import normal_form

    def add(registry, name, version, boundaries=(3, 31, 59), **columns):
        now = registry.now()
        values = {
            "version": version,
            "digest": "sha256:" + hashlib.sha256(f"{name}@{version}".encode()).hexdigest(),
            "fingerprint": "sha256:" + hashlib.sha256(repr(boundaries).encode()).hexdigest(),
            "manifest": b"{}",
            "facts": b"{}",
            "facts_by": "tests",
            "method": "EAGLE3",
            "target_model": "moonshotai/Kimi-K2.5",
            "target_architecture": "KimiK25ForConditionalGeneration",
            "size": 1000,
            "state": "live",
            "published_at": now,
            "published_by": "trainer",
            "tool": "drafters 0.1.0",
        } | columns
        with registry.database.write() as connection:
            owner = connection.execute(select(DrafterRow.id).where(DrafterRow.name == name)).scalar()
            if owner is None:
                made = insert(DrafterRow).values(name=name, normal_form=normal_form(name), created_at=now)
                owner = connection.execute(made.returning(DrafterRow.id)).scalar_one()
            made = insert(VersionRow).values(drafter_id=owner, **values).returning(VersionRow.id)
            number = connection.execute(made).scalar_one()
            for position, boundary in enumerate(boundaries):
                place = {"version_id": number, "position": position, "boundary": boundary}
                connection.execute(insert(BoundaryRow).values(**place))
        return values["digest"]

    return add
