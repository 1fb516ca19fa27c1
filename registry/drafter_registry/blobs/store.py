"""What the service needs of a blob store: staged uploads that become immutable blobs, their ranges, their removal.

A blob appears whole or not at all, and when `commit` has returned it survives a power cut. Nothing here knows of the
database: who may delete what is decided above.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Stored(msgspec.Struct, frozen=True):
    """One object of a store: digest (of a blob) or upload id (of something staged), size, and when it was written."""

    key: str
    size: int
    modified: datetime


class BlobStore(Protocol):
    """A place for bytes.

    Every method raises `UnavailableError` if the store does not answer, `StorageFullError` if it is full, and
    `InternalError` for what cannot be. Methods may be called from several threads and processes at once.
    """

    def size(self, digest: str) -> int | None:
        """Bytes of a blob, or None if it is not here."""
        ...

    def read(self, digest: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`, fewer only at the end.

        Raises:
            NotFoundError: No such blob.
        """
        ...

    def stream(self, digest: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to `end` (exclusive), in chunks of at most `limits.chunk_bytes`.

        Raises:
            NotFoundError: No such blob.
        """
        ...

    def delete(self, digest: str) -> None:
        """Remove a blob; nothing happens if it is not here."""
        ...

    def blobs(self) -> Iterator[Stored]:
        """Every blob."""
        ...

    def append(self, upload: str, offset: int, data: bytes) -> None:
        """Stage bytes of an upload at `offset`. Bytes staged there or beyond before are forgotten."""
        ...

    def commit(self, upload: str, size: int, digest: str) -> None:
        """Make the first `size` staged bytes of an upload the blob `digest`, durably; the staged bytes are gone then.

        Committing a blob that is here already is no error.

        Raises:
            DigestError: They have another digest, or are fewer. The staged bytes stay.
        """
        ...

    def discard(self, upload: str) -> None:
        """Forget what was staged; nothing happens if there is nothing."""
        ...

    def staged(self) -> Iterator[Stored]:
        """Every upload of which something is staged."""
        ...

    def probe(self) -> None:
        """Raise if the store cannot be read and written now."""
        ...
