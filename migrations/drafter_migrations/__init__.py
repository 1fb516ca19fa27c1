"""The registry's schema as Alembic revisions. Shipped in the wheel; `drafter_registry.db.schema` runs them.

A new revision is a module `versions/revision_NNNN.py`, and its name the last of `drafter_registry.db.schema.REVISIONS`.
A test compares the tables that the revisions make with the models, and says what differs.
"""
