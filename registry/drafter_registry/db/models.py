"""The tables. A change here needs a revision in `drafter_migrations` (a test runs Alembic's own comparison)."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: Names of constraints, so that a migration can name them on every database.
_NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

_NOT_LIVE = text("state <> 'live'")

#: SQLite numbers rows only in a column of exactly this type.
RowId = BigInteger().with_variant(Integer(), "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC, also where the database keeps no zone (SQLite)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To UTC; a moment without a zone is a fault of the program."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """With its zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=_NAMING)


class DrafterRow(Base):
    """A name. `normal_form` keeps out names that people would confuse with it."""

    __tablename__ = "drafters"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    normal_form: Mapped[str] = mapped_column(String(128), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class VersionRow(Base):
    """A version: the manifest's exact bytes, and what lists and look-ups need of it. Never updated but for its state.

    A deleted version keeps its row, so that nobody can publish other bytes under that name again; its manifest, facts,
    files and boundaries are gone.
    """

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("drafter_id", "version"),
        Index(None, "drafter_id", "digest"),
        Index(None, "digest"),
        # With `id` behind: a page of a list, newest first, is one walk along the index.
        Index(None, "drafter_id", "id"),
        # Most versions are live: an index of those would never be worth a walk.
        Index(None, "state", "id", sqlite_where=_NOT_LIVE, postgresql_where=_NOT_LIVE),
        Index(None, "fingerprint", "id"),
        Index(None, "target_model", "id"),
        Index(None, "target_architecture", "id"),
        Index(None, "method", "id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    drafter_id: Mapped[int] = mapped_column(ForeignKey("drafters.id"))
    version: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(71))
    fingerprint: Mapped[str] = mapped_column(String(71))
    method: Mapped[str] = mapped_column(String(32))
    target_model: Mapped[str] = mapped_column(String(255))
    target_architecture: Mapped[str] = mapped_column(String(255))
    size: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16))
    published_at: Mapped[datetime] = mapped_column(UtcTime)
    published_by: Mapped[str] = mapped_column(String(255))
    tool: Mapped[str] = mapped_column(String(255))
    state_at: Mapped[datetime | None] = mapped_column(UtcTime)
    state_by: Mapped[str] = mapped_column(String(255), default="")
    state_why: Mapped[str] = mapped_column(Text, default="")
    facts_by: Mapped[str] = mapped_column(String(64))
    # The long ones are last: SQLite reads a row from its beginning.
    manifest: Mapped[bytes] = mapped_column(LargeBinary)
    #: What the drafter's own files say (`checkpoint.facts.DrafterFacts` as JSON), as read by `facts_by`.
    facts: Mapped[bytes] = mapped_column(LargeBinary)


class FileRow(Base):
    """A file of a version; the row that keeps its blob alive."""

    __tablename__ = "version_files"
    __table_args__ = (Index(None, "digest"),)

    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), primary_key=True)
    path: Mapped[str] = mapped_column(String(255), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    #: Of the blob; for a file that is kept elsewhere, of the blob that holds its header.
    digest: Mapped[str] = mapped_column(String(71))


class BoundaryRow(Base):
    """A captured boundary of a version, for search."""

    __tablename__ = "version_boundaries"
    __table_args__ = (Index(None, "boundary", "version_id"),)

    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    boundary: Mapped[int] = mapped_column(Integer)


class AliasRow(Base):
    """Where an alias points now. A removed alias keeps its row (`version_id` None), so that revisions go on."""

    __tablename__ = "aliases"
    __table_args__ = (Index(None, "version_id"), Index(None, "alias", "version_id"))

    drafter_id: Mapped[int] = mapped_column(ForeignKey("drafters.id"), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    version_id: Mapped[int | None] = mapped_column(ForeignKey("versions.id"))
    revision: Mapped[int] = mapped_column(Integer)


class AliasMoveRow(Base):
    """One move of an alias. Never updated or deleted; (drafter, alias, revision) is unique."""

    __tablename__ = "alias_moves"
    __table_args__ = (UniqueConstraint("drafter_id", "alias", "revision"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    drafter_id: Mapped[int] = mapped_column(ForeignKey("drafters.id"))
    alias: Mapped[str] = mapped_column(String(64))
    revision: Mapped[int] = mapped_column(Integer)
    from_version: Mapped[str] = mapped_column(String(64))
    to_version: Mapped[str] = mapped_column(String(64))
    at: Mapped[datetime] = mapped_column(UtcTime)
    by: Mapped[str] = mapped_column(String(255))
    why: Mapped[str] = mapped_column(Text)


class BlobRow(Base):
    """A stored blob. `doomed` blobs are being removed: they count as missing."""

    __tablename__ = "blobs"
    __table_args__ = (Index(None, "touched_at"),)

    digest: Mapped[str] = mapped_column(String(71), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    stored_at: Mapped[datetime] = mapped_column(UtcTime)
    #: When somebody last uploaded it or asked whether it is here: a publication may be about to name it.
    touched_at: Mapped[datetime] = mapped_column(UtcTime)
    doomed: Mapped[bool] = mapped_column(default=False)


class UploadRow(Base):
    """An upload in progress. Its bytes are staged in the blob store under its id."""

    __tablename__ = "uploads"
    __table_args__ = (Index(None, "touched_at"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    touched_at: Mapped[datetime] = mapped_column(UtcTime)
    by: Mapped[str] = mapped_column(String(255))


class TokenRow(Base):
    """A token's digest and what it may do; never the token."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    #: Separated by spaces.
    scopes: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    created_by: Mapped[str] = mapped_column(String(255))
    expires_at: Mapped[datetime | None] = mapped_column(UtcTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcTime)


class AuditRow(Base):
    """One write. Never updated or deleted by the service."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "at"), Index(None, "subject"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    actor: Mapped[str] = mapped_column(String(255))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(255))
    #: JSON object of texts.
    detail: Mapped[bytes] = mapped_column(LargeBinary)
    request_id: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(String(64))


class AcceptanceRow(Base):
    """An acceptance that was attached to a version after it was published, by the digest of its canonical JSON."""

    __tablename__ = "version_acceptances"

    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(String(71), primary_key=True)
    added_at: Mapped[datetime] = mapped_column(UtcTime)
    added_by: Mapped[str] = mapped_column(String(255))
    #: Canonical JSON.
    acceptance: Mapped[bytes] = mapped_column(LargeBinary)


class ObservationRow(Base):
    """What one run of an observer saw of one engine in one hour under the same conditions, so far.

    A report with more readings takes the place of the one before: to send one twice counts once.
    """

    __tablename__ = "observations"
    __table_args__ = (
        UniqueConstraint("version_id", "hour", "instance", "series", "run"),
        Index(None, "hour"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"))
    hour: Mapped[datetime] = mapped_column(UtcTime)
    instance: Mapped[str] = mapped_column(String(128))
    #: Digest of the conditions, and of whether verify steps are told: what may be added up.
    series: Mapped[str] = mapped_column(String(64))
    run: Mapped[str] = mapped_column(String(64))
    readings: Mapped[int] = mapped_column(BigInteger)
    verify_steps: Mapped[int | None] = mapped_column(BigInteger)
    length: Mapped[float] = mapped_column(Double)
    lowest: Mapped[float] = mapped_column(Double)
    highest: Mapped[float] = mapped_column(Double)
    reported_at: Mapped[datetime] = mapped_column(UtcTime)
    reported_by: Mapped[str] = mapped_column(String(255))
    #: Canonical JSON of `Conditions`, and a JSON list of numbers.
    conditions: Mapped[bytes] = mapped_column(LargeBinary)
    positions: Mapped[bytes] = mapped_column(LargeBinary)
