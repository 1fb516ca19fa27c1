"""A registry from its settings: its database with the right schema, and its blob store."""

from __future__ import annotations

import os

from drafter_registry.db import schema
from drafter_registry.db.database import Database, make_directory
from drafter_registry.errors import SchemaError
from drafter_registry.service.context import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.settings import Settings


def open_registry(settings: Settings, *, create: bool = True) -> Registry:
    """The registry of these settings; let go of it with `close`.

    Several processes may open, and make, one registry at the same time.

    Args:
        settings: Where it is.
        create: Whether to make what is not there: the directory (for its owner only), the SQLite file, the tables.

    Raises:
        SchemaError: The database has an older or newer schema, or is another program's; or there is none and `create`
            is false. Says what to do.
        InvalidError: A URL that cannot be read, or a directory that cannot be made.
        UnavailableError: The database or the blob store does not answer.
    """
    database = open_database(settings, create=create)
    try:
        if create:
            schema.create_or_check(database)
        else:
            schema.check(database)
        # Not before the schema is right: a store may be made by opening it.
        from drafter_registry.blobs.open import open_store

        return Registry(database, open_store(settings.storage_url), settings)
    except BaseException:
        database.close()
        raise


def open_database(settings: Settings, *, create: bool = True) -> Database:
    """The database alone, whatever its schema.

    Raises:
        SchemaError: `create` is false and there is no such SQLite file.
        InvalidError: A URL that cannot be read, or a directory that cannot be made.
    """
    if settings.data and create:
        make_directory(settings.data)
    database = Database(settings.database_url, create=create)
    path = database.url.database or ":memory:"
    if database.is_sqlite and not create and path != ":memory:" and not os.path.exists(path):
        raise SchemaError(f"there is no registry at {path}", hint="`drafters publish` and `drafters serve` make one")
    return database


def close(registry: Registry) -> None:
    """Close every connection to the database."""
    registry.database.close()
