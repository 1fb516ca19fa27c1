"""Sending one file to a server: in chunks, continued after a cut, by this process or a later one."""

from __future__ import annotations

import os

from drafter_cli.client import upload_ledger
from drafter_cli.client.http_client import TRIES, HttpClient
from drafter_cli.errors import UnreachableError, UsageError
from drafter_registry.documents import UploadState
from drafter_registry.errors import DigestError, NotFoundError, RangeError, StorageFullError, UnavailableError
from drafter_registry.failpoints import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from drafter_cli.client.backend import Tell

#: Bytes of one PATCH: what a cut can cost at most, and enough that round trips cost nothing.
CHUNK_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024
#: Making a blob durable may need another read of it, seconds.
FINISH_SECONDS = 900.0


class Upload:
    """One file on its way.

    Args:
        http: The server.
        digest: "sha256:..." of the file.
        size: Its bytes.
        tell: Told of every byte that is stored there, those of an earlier try too.
    """

    def __init__(self, http: HttpClient, digest: str, size: int, tell: Tell) -> None:
        self._http = http
        self._digest = digest
        self._size = size
        self._tell = tell
        self._told = 0

    def run(self, path: str, ledger: str) -> None:
        """Send it.

        Args:
            path: The file.
            ledger: Folder of unfinished uploads.

        Raises:
            UsageError: The file is shorter than it was.
            DigestError: It is not what it was when its digest was taken.
            UnreachableError: The server is gone for longer than a moment; the next run continues.
            RegistryError: The server refuses.
        """
        with (
            upload_ledger.held(ledger, self._http.server, self._digest) as entry,
            open(path, "rb", buffering=0) as file,
        ):
            try:
                self._send(file, entry)
            except (DigestError, StorageFullError):
                self._cancel(entry.read())
                entry.write("")
                raise
            reached("client.stored")
            entry.write("")

    def _send(self, file: BinaryIO, entry: upload_ledger.Entry) -> None:
        failures = furthest = 0
        upload, offset = self._begin(entry)
        while True:
            try:
                if offset < self._size:
                    offset = self._chunk(upload, file, offset)
                    reached("client.sent")
                    # Progress is only what was never stored before: a server may forget an upload each time.
                    failures, furthest = (0, offset) if offset > furthest else (failures, furthest)
                    continue
                self._http.send(
                    "PUT",
                    f"/v1/uploads/{upload}",
                    params={"digest": self._digest},
                    repeatable=False,
                    timeout=FINISH_SECONDS,
                )
            except (UnreachableError, UnavailableError, RangeError, NotFoundError) as error:
                failures += 1
                if failures >= TRIES:
                    raise
                if not isinstance(error, RangeError):
                    self._http.pause(failures)
                if offset >= self._size and self._is_stored():
                    return
                upload, offset = self._begin(entry)
            else:
                return

    def _begin(self, entry: upload_ledger.Entry) -> tuple[str, int]:
        """The upload to continue and how far it is: the remembered one if the server still has it, else a new one."""
        known = entry.read()
        if known:
            try:
                state = self._http.send("GET", f"/v1/uploads/{known}").read_as(UploadState, self._http.server)
            except NotFoundError:
                pass
            else:
                if state.offset <= self._size:
                    self._tell_up_to(state.offset)
                    return known, state.offset
                self._cancel(known)
        started = self._http.send("POST", "/v1/uploads").read_as(UploadState, self._http.server)
        entry.write(started.id)
        reached("client.begun")
        return started.id, started.offset

    def _chunk(self, upload: str, file: BinaryIO, offset: int) -> int:
        """Send the next chunk; returns how far the server is then."""
        end = min(offset + CHUNK_BYTES, self._size)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - offset),
            "Content-Range": f"{offset}-{end - 1}",
        }
        answer = self._http.send(
            "PATCH",
            f"/v1/uploads/{upload}",
            headers=headers,
            body=lambda: self._read(file, offset, end),
            repeatable=False,  # what arrived of it is asked for first
            timeout=FINISH_SECONDS,
        )
        stored = answer.headers.get("range", "").rpartition("-")[2]
        now = int(stored) + 1 if stored.isascii() and stored.isdigit() else end
        self._tell_up_to(now)
        return now

    def _read(self, file: BinaryIO, offset: int, end: int) -> Iterator[bytes]:
        while offset < end:
            data = os.pread(file.fileno(), min(_READ_BYTES, end - offset), offset)
            if not data:
                raise UsageError(f"{file.name} became shorter while it was published", "nothing was published")
            offset += len(data)
            yield data
            reached("client.sending")
            self._tell_up_to(offset)

    def _is_stored(self) -> bool:
        """Whether the blob is there: the answer to the last request may have been lost."""
        try:
            self._http.send("HEAD", f"/v1/blobs/{self._digest}")
        except NotFoundError:
            return False
        return True

    def _cancel(self, upload: str) -> None:
        from drafter_registry.errors import RegistryError

        try:
            if upload:
                self._http.send("DELETE", f"/v1/uploads/{upload}")
        except (RegistryError, UnreachableError):  # the server sweeps it in time
            return

    def _tell_up_to(self, offset: int) -> None:
        if offset > self._told:
            self._tell(offset - self._told)
            self._told = offset
