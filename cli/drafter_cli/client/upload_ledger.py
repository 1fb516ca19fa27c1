"""What is remembered of unfinished uploads, so that another process goes on where a killed one stopped.

One small file per server and digest, held under a lock while somebody uploads that: two processes never continue one
upload. Nothing here is needed: where it cannot be written, an upload starts at its beginning.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ID_MAX_BYTES = 256


class Entry:
    """The remembered upload of one file; "" where there is none, or nothing can be remembered."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def read(self) -> str:
        """The upload's id."""
        if self._descriptor is None:
            return ""
        text = os.pread(self._descriptor, _ID_MAX_BYTES, 0).decode("ascii", "replace").strip()
        return text if text.replace("-", "").replace("_", "").isalnum() else ""

    def write(self, upload: str) -> None:
        """Remember an id; "" forgets it."""
        if self._descriptor is None:
            return
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, upload.encode(), 0)
        except OSError:
            self._descriptor = None


@contextmanager
def held(folder: str, server: str, digest: str) -> Iterator[Entry]:
    """The entry of a server and digest, locked for this process.

    Args:
        folder: Where entries are.
        server: The server's URL.
        digest: Of the file.
    """
    import fcntl

    key = hashlib.sha256(f"{server}\0{digest}".encode()).hexdigest()[:40]
    path = os.path.join(folder, key)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield Entry(None)
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # somebody else is at it
            yield Entry(None)
            return
        entry = Entry(descriptor)
        yield entry
        if not entry.read():
            _forget(path)
    finally:
        os.close(descriptor)


def _forget(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return
