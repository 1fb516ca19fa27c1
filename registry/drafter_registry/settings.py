"""Where a registry keeps its things, and what it allows. Read from the environment at the edge, once."""

from __future__ import annotations

import os

import msgspec

from drafter_registry import limits
from drafter_registry.errors import InvalidError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one registry.

    Attributes:
        data: Directory of the defaults: `registry.db` and `blobs/` are kept in it.
        database: SQLAlchemy URL ("sqlite:////var/lib/...", "postgresql://..."); "" for SQLite in `data`.
        storage: Blob store: a directory, "file:///...", "s3://bucket/prefix", "gs://...", "az://..."; "" for `data`.
        anonymous_read: Whether everybody may read without a token.
        blob_max_bytes: Largest blob accepted.
        gc_grace_seconds: Age below which an unreferenced blob is kept.
        upload_idle_seconds: Age at which an upload that nobody continues is swept.
        observation_retention_seconds: Age at which an observation is refused, and removed.
    """

    data: str = ""
    database: str = ""
    storage: str = ""
    anonymous_read: bool = False
    blob_max_bytes: int = limits.blob_max_bytes
    gc_grace_seconds: int = limits.gc_grace_seconds
    upload_idle_seconds: int = limits.upload_idle_seconds
    observation_retention_seconds: int = limits.observation_retention_seconds

    @property
    def database_url(self) -> str:
        """The database in use."""
        return self.database or "sqlite:///" + os.path.join(os.path.abspath(self.data), "registry.db")

    @property
    def storage_url(self) -> str:
        """The blob store in use."""
        return self.storage or os.path.join(os.path.abspath(self.data), "blobs")


def default_data(environment: Mapping[str, str] | None = None) -> str:
    """Where an embedded registry lives if nobody says otherwise: below XDG_DATA_HOME."""
    variables = os.environ if environment is None else environment
    home = variables.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "drafter-registry")


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from `DRAFTERS_DATA`, `DRAFTERS_DATABASE`, `DRAFTERS_STORAGE`, `DRAFTERS_ANONYMOUS_READ` and limits.

    Raises:
        InvalidError: A variable that cannot be read; names it.
    """
    variables = os.environ if environment is None else environment
    return Settings(
        data=variables.get("DRAFTERS_DATA") or default_data(variables),
        database=variables.get("DRAFTERS_DATABASE", ""),
        storage=variables.get("DRAFTERS_STORAGE", ""),
        anonymous_read=_flag(variables, "DRAFTERS_ANONYMOUS_READ"),
        blob_max_bytes=_number(variables, "DRAFTERS_BLOB_MAX_BYTES", limits.blob_max_bytes),
        gc_grace_seconds=_number(variables, "DRAFTERS_GC_GRACE_SECONDS", limits.gc_grace_seconds),
        upload_idle_seconds=_number(variables, "DRAFTERS_UPLOAD_IDLE_SECONDS", limits.upload_idle_seconds),
        observation_retention_seconds=_number(
            variables, "DRAFTERS_OBSERVATION_RETENTION_SECONDS", limits.observation_retention_seconds
        ),
    )


def _flag(variables: Mapping[str, str], name: str) -> bool:
    text = variables.get(name, "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise InvalidError(f"{name} is {text!r}", hint="write 1 or 0")


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise InvalidError(f"{name} is {text!r}", hint="write a whole number")
    return int(text)
