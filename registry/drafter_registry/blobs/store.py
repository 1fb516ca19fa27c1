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
    from collections.abc import Iterable, Iterator


class Stored(msgspec.Struct, frozen=True):
    """One object of a store: digest (of a blob) or upload id (of something staged), size, and when it was written."""

    key: str
    size: int
    modified: datetime


class BlobStore(Protocol):
    """A place for bytes.

    Every method raises `UnavailableError` if the store does not answer, `StorageFullError` if it is full, and
    `InternalError` for what cannot be. Methods may be called from several threads and processes at once.

    Attributes:
        append_bytes: How many bytes `append` is best given at once.
    """

    append_bytes: int

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
        """Stage bytes of an upload at `offset`. Bytes staged there or beyond before are forgotten.

        Raises:
            RangeError: Fewer than `offset` bytes are staged.
        """
        ...

    def prepare(self, upload: str, size: int, digest: str) -> None:
        """Do ahead what takes `commit` long: verify the first `size` staged bytes and make them durable.

        The staged bytes stay. The blob may appear already, so nobody may rely on it before `commit`.

        Raises:
            DigestError: They have another digest, or are fewer.
        """
        ...

    def ingest(self, upload: str, chunks: Iterable[bytes], digest: str) -> int:
        """Stage and prepare all bytes of a new upload in one pass; `commit` is next. Returns how many they were.

        If that fails, or `chunks` raises, nothing stays staged.

        Raises:
            DigestError: They have another digest.
        """
        ...

    def commit(self, upload: str, size: int, digest: str) -> None:
        """Make the first `size` staged bytes of an upload the blob `digest`, durably.

        They may stay staged: discard them then.

        Committing a blob that is here already is no error, and neither is doing it twice.

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
