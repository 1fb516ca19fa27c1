"""What every verb works with: the database, the blob store, the clock, and who is asking."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from drafter_registry.blobs.store import BlobStore
from drafter_registry.db.database import Database
from drafter_registry.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _now() -> datetime:
    return datetime.now(UTC)


class Actor(msgspec.Struct, frozen=True):
    """Who asks.

    Attributes:
        name: Name of the token, "local:USER" without a server, "anonymous".
        scopes: What they may do: "read", "publish:GLOB", "alias:GLOB", "observe:GLOB", "admin".
        request_id: Of the request, or "".
        address: Where it came from, or "".
    """

    name: str
    scopes: tuple[str, ...] = ()
    request_id: str = ""
    address: str = ""


#: Whoever runs a command on the registry's own files may do everything.
LOCAL_SCOPES = ("admin",)


class Registry(msgspec.Struct, frozen=True):
    """The ports of one registry.

    Attributes:
        database: Where rows are.
        blobs: Where bytes are.
        settings: What is allowed.
        now: The clock.
    """

    database: Database
    blobs: BlobStore
    settings: Settings
    now: Callable[[], datetime] = _now


def timestamp(moment: datetime | None) -> str:
    """A moment as documents write it: "2026-11-30T20:18:08.123456Z"; "" for None."""
    return "" if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
