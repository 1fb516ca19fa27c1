"""Acceptances attached to versions, and what engines were seen to accept.

New tables alone: a server of the release before goes on working.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "drafters_0002"
down_revision = "drafters_0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make both tables."""
    _version_acceptances()
    _observations()


def _version_acceptances() -> None:
    op.create_table(
        "version_acceptances",
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("added_at", _TIME, nullable=False),
        sa.Column("added_by", sa.String(length=255), nullable=False),
        sa.Column("acceptance", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name=op.f("fk_version_acceptances_version_id_versions")
        ),
        sa.PrimaryKeyConstraint("version_id", "digest", name=op.f("pk_version_acceptances")),
    )


def _observations() -> None:
    key = ("version_id", "hour", "instance", "series", "run")
    op.create_table(
        "observations",
        sa.Column("id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("hour", _TIME, nullable=False),
        sa.Column("instance", sa.String(length=128), nullable=False),
        sa.Column("series", sa.String(length=64), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("readings", sa.BigInteger(), nullable=False),
        sa.Column("verify_steps", sa.BigInteger(), nullable=True),
        sa.Column("length", sa.Double(), nullable=False),
        sa.Column("lowest", sa.Double(), nullable=False),
        sa.Column("highest", sa.Double(), nullable=False),
        sa.Column("reported_at", _TIME, nullable=False),
        sa.Column("reported_by", sa.String(length=255), nullable=False),
        sa.Column("conditions", sa.LargeBinary(), nullable=False),
        sa.Column("positions", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name=op.f("fk_observations_version_id_versions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
        sa.UniqueConstraint(*key, name=op.f("uq_observations_" + "_".join(key))),
    )
    op.create_index(op.f("ix_observations_hour"), "observations", ["hour"])
