"""Run by Alembic, never imported: migrates the connection that the caller put into the configuration.

The caller has begun the transaction and ends it; see `drafter_registry.db.schema.upgrade`.
"""

from __future__ import annotations

from alembic import context

from drafter_registry.db.models import Base

_connection = context.config.attributes["connection"]
context.configure(
    connection=_connection,
    target_metadata=Base.metadata,
    compare_type=True,
    # SQLite changes a table by making it anew.
    render_as_batch=_connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
