"""The bytes of one request on their way into an upload."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from sqlalchemy import delete, update

from drafter_registry.db.models import UploadRow
from drafter_registry.errors import InternalError, RangeError, RegistryError, StorageFullError, TooLargeError
from drafter_registry.failpoints import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from drafter_registry.service.context import Registry


def too_large(registry: Registry) -> TooLargeError:
    """The error for a blob that is larger than this registry takes."""
    return TooLargeError(
        f"a blob has at most {registry.settings.blob_max_bytes} bytes here", hint="DRAFTERS_BLOB_MAX_BYTES is the limit"
    )


class Receiver:
    """Context manager that takes bytes and, on leaving, records how far the upload is now. For one thread at a time.

    What arrived before an error or a cut is kept, so that the client can go on there.

    Args:
        registry: The registry.
        upload: The upload's id.
        offset: Where its bytes end.
    """

    def __init__(self, registry: Registry, upload: str, offset: int) -> None:
        self._registry = registry
        self._upload = upload
        self._started = offset
        self._staged = offset
        self._waiting = bytearray()
        self._over = False

    def __enter__(self) -> Self:
        return self

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            TooLargeError: The blob would be too large; the upload is gone.
            StorageFullError: The store is full; the upload is gone, so that it does not fill the store.
            RangeError: Staged bytes were lost; a new upload is needed.
            UnavailableError: The store does not answer.
            InternalError: Written to after an error.
        """
        if self._over:
            raise InternalError("an upload goes on after an error")
        if self._staged + len(self._waiting) + len(data) > self._registry.settings.blob_max_bytes:
            self._give_up()
            raise too_large(self._registry)
        size = self._registry.blobs.append_bytes
        if not self._waiting and len(data) == size:
            self._append(data)
            return
        self._waiting += data
        while len(self._waiting) >= size:
            piece = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._append(piece)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the new offset.

        Raises:
            RangeError: Somebody else wrote to the upload meanwhile, or finished it.
            StorageFullError: The store or the database is full.
            UnavailableError: One of them does not answer.
        """
        try:
            if self._waiting and not self._over:
                self._append(bytes(self._waiting))
                self._waiting.clear()
        finally:
            self._record()

    def _record(self) -> None:
        """Say in the row how far the upload is; also when its last bytes could not be staged."""
        if self._staged == self._started:
            return
        reached("upload.appended")
        mine = (UploadRow.id == self._upload, UploadRow.offset == self._started)
        step = update(UploadRow).where(*mine).values(offset=self._staged, touched_at=self._registry.now())
        with self._registry.database.write() as connection:
            if not connection.execute(step).rowcount:
                raise RangeError("somebody else wrote to this upload meanwhile", hint="GET the upload, and go on there")
        self._started = self._staged

    def _append(self, data: bytes) -> None:
        try:
            self._registry.blobs.append(self._upload, self._staged, data)
        except StorageFullError:
            self._give_up()
            raise
        except BaseException:
            self._over = True
            raise
        self._staged += len(data)

    def _give_up(self) -> None:
        """Forget the upload. A collection does what fails here."""
        self._over = True
        self._waiting.clear()
        self._staged = self._started
        with suppress(RegistryError):
            self._registry.blobs.discard(self._upload)
        with suppress(RegistryError), self._registry.database.write() as connection:
            connection.execute(delete(UploadRow).where(UploadRow.id == self._upload))
