"""The first tables.

A migration says everything itself and imports nothing of the registry: what it makes must not change with the models.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "drafters_0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make every table."""
    _audit()
    _blobs()
    _drafters()
    _tokens()
    _uploads()
    _alias_moves()
    _versions()
    _aliases()
    _version_boundaries()
    _version_files()


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", _ID, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"])
    op.create_index(op.f("ix_audit_subject"), "audit", ["subject"])


def _blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored_at", _TIME, nullable=False),
        sa.Column("touched_at", _TIME, nullable=False),
        sa.Column("doomed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_blobs")),
    )
    op.create_index(op.f("ix_blobs_touched_at"), "blobs", ["touched_at"])


def _drafters() -> None:
    op.create_table(
        "drafters",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("normal_form", sa.String(length=128), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drafters")),
        sa.UniqueConstraint("name", name=op.f("uq_drafters_name")),
        sa.UniqueConstraint("normal_form", name=op.f("uq_drafters_normal_form")),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("expires_at", _TIME, nullable=True),
        sa.Column("revoked_at", _TIME, nullable=True),
        sa.Column("last_used_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )


def _uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("touched_at", _TIME, nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(op.f("ix_uploads_touched_at"), "uploads", ["touched_at"])


def _alias_moves() -> None:
    op.create_table(
        "alias_moves",
        sa.Column("id", _ID, nullable=False),
        sa.Column("drafter_id", _ID, nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("from_version", sa.String(length=64), nullable=False),
        sa.Column("to_version", sa.String(length=64), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["drafter_id"], ["drafters.id"], name=op.f("fk_alias_moves_drafter_id_drafters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alias_moves")),
        sa.UniqueConstraint("drafter_id", "alias", "revision", name=op.f("uq_alias_moves_drafter_id_alias_revision")),
    )


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("drafter_id", _ID, nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("fingerprint", sa.String(length=71), nullable=False),
        sa.Column("method", sa.String(length=32), nullable=False),
        sa.Column("target_model", sa.String(length=255), nullable=False),
        sa.Column("target_architecture", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("published_at", _TIME, nullable=False),
        sa.Column("published_by", sa.String(length=255), nullable=False),
        sa.Column("tool", sa.String(length=255), nullable=False),
        sa.Column("state_at", _TIME, nullable=True),
        sa.Column("state_by", sa.String(length=255), nullable=False),
        sa.Column("state_why", sa.Text(), nullable=False),
        sa.Column("facts_by", sa.String(length=64), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.Column("facts", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["drafter_id"], ["drafters.id"], name=op.f("fk_versions_drafter_id_drafters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_versions")),
        sa.UniqueConstraint("drafter_id", "version", name=op.f("uq_versions_drafter_id_version")),
    )
    op.create_index(op.f("ix_versions_digest"), "versions", ["digest"])
    op.create_index(op.f("ix_versions_drafter_id_digest"), "versions", ["drafter_id", "digest"])
    op.create_index(op.f("ix_versions_drafter_id_id"), "versions", ["drafter_id", "id"])
    op.create_index(op.f("ix_versions_fingerprint_id"), "versions", ["fingerprint", "id"])
    op.create_index(op.f("ix_versions_method_id"), "versions", ["method", "id"])
    only = sa.text("state <> 'live'")
    op.create_index(op.f("ix_versions_state_id"), "versions", ["state", "id"], sqlite_where=only, postgresql_where=only)
    op.create_index(op.f("ix_versions_target_architecture_id"), "versions", ["target_architecture", "id"])
    op.create_index(op.f("ix_versions_target_model_id"), "versions", ["target_model", "id"])


def _aliases() -> None:
    op.create_table(
        "aliases",
        sa.Column("drafter_id", _ID, nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("version_id", _ID, nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["drafter_id"], ["drafters.id"], name=op.f("fk_aliases_drafter_id_drafters")),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name=op.f("fk_aliases_version_id_versions")),
        sa.PrimaryKeyConstraint("drafter_id", "alias", name=op.f("pk_aliases")),
    )
    op.create_index(op.f("ix_aliases_alias_version_id"), "aliases", ["alias", "version_id"])
    op.create_index(op.f("ix_aliases_version_id"), "aliases", ["version_id"])


def _version_boundaries() -> None:
    op.create_table(
        "version_boundaries",
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("boundary", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name=op.f("fk_version_boundaries_version_id_versions")
        ),
        sa.PrimaryKeyConstraint("version_id", "position", name=op.f("pk_version_boundaries")),
    )
    op.create_index(op.f("ix_version_boundaries_boundary_version_id"), "version_boundaries", ["boundary", "version_id"])


def _version_files() -> None:
    op.create_table(
        "version_files",
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("path", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name=op.f("fk_version_files_version_id_versions")),
        sa.PrimaryKeyConstraint("version_id", "path", name=op.f("pk_version_files")),
    )
    op.create_index(op.f("ix_version_files_digest"), "version_files", ["digest"])
