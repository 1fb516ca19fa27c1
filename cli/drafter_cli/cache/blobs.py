"""Blobs of the local cache: fetched by digest, continued after a cut, verified before they have their name.

A blob that was verified is read-only and has a fixed modification time. Whatever writes into it later changes that
time, and it is hashed again before it is used: so gigabytes need not be read on each use. Folders: `blobs/sha256/` for
whole ones, `partial/` for those under way, each locked by whoever writes it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import threading

from drafter_cli.errors import UnreachableError, UsageError
from drafter_registry.errors import DigestError, UnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drafter_cli.client.backend import Tell

    #: Gives a file's bytes from a position on.
    Source = Callable[[int], Iterator[bytes]]

#: Modification time of a verified blob: 2000-01-01, nanoseconds. (Archives cannot hold times before 1980.)
VERIFIED_NS = 946_684_800 * 10**9
#: Cuts in a row, without a byte between them, before giving up; and the first wait, seconds.
_TRIES = 4
_FIRST_WAIT = 0.25
_POLL_SECONDS = 0.1
_READ_BYTES = 1024 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StoppedError(Exception):
    """Another download failed, or the user interrupted: this one ends, and can be continued."""


class Blobs:
    """The blobs of one cache.

    Args:
        root: The cache's directory.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.stop = threading.Event()

    def path(self, sha256: str) -> str:
        """Where a blob is, or would be."""
        return os.path.join(self._root, "blobs", "sha256", sha256[:2], sha256)

    def has(self, sha256: str, size: int) -> bool:
        """Whether a blob is here, whole; a damaged one is removed."""
        path = self.path(sha256)
        if not is_verified(path, sha256, size):
            _remove(path)
            return False
        return True

    def fetch(self, sha256: str, size: int, source: Source, tell: Tell) -> None:
        """Get a blob that is not here.

        Args:
            sha256: Its digest, 64 hex digits.
            size: Its bytes.
            source: Where the bytes come from.
            tell: Told of every byte that is here, those of an earlier try too.

        Raises:
            DigestError: The bytes that came are not those; nothing of them is kept.
            UnreachableError: The source went away and stayed away; what came is kept.
            UsageError: The disk is full, or the cache cannot be written; nothing is kept.
            RegistryError: The source refuses.
            StoppedError: `stop` was set.
        """
        partial = os.path.join(self._root, "partial", sha256 + ".part")
        try:
            os.makedirs(os.path.dirname(partial), 0o700, exist_ok=True)
            descriptor = self._lock(partial)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            if self.has(sha256, size):  # somebody else fetched it meanwhile
                _remove(partial)
                tell(size)
                return
            self._fill(descriptor, size, sha256, source, tell)
            self._keep(descriptor, partial, sha256)
        except DigestError:
            _remove(partial)
            raise
        except OSError as error:
            _remove(partial)
            raise self._unwritable(error) from None
        finally:
            os.close(descriptor)

    def _lock(self, partial: str) -> int:
        """The partial file, open and locked; waits for whoever else is fetching it."""
        while True:
            descriptor = wait_for_lock(partial, self.stop)
            if _is_same(descriptor, partial):
                return descriptor
            os.close(descriptor)  # it was finished or removed meanwhile

    def _fill(self, descriptor: int, size: int, sha256: str, source: Source, tell: Tell) -> None:
        resumed, hasher = self._resume(descriptor, size, tell)
        self._receive(descriptor, resumed, size, hasher, source, tell)
        if hasher.hexdigest() != sha256 and resumed:  # what lay here may be what is wrong
            os.ftruncate(descriptor, 0)
            hasher = hashlib.sha256()
            self._receive(descriptor, 0, size, hasher, source, lambda _: None)
        if hasher.hexdigest() != sha256:
            raise DigestError(
                f"the bytes received have the digest sha256:{hasher.hexdigest()}, not sha256:{sha256}",
                hint="the file is damaged where it is stored or on the way; nothing of it was kept",
            )

    def _resume(self, descriptor: int, size: int, tell: Tell) -> tuple[int, hashlib._Hash]:
        """How much of the file is here from an earlier try, and its hash so far."""
        there = os.fstat(descriptor).st_size
        if there > size:
            os.ftruncate(descriptor, 0)
            there = 0
        hasher, position = hashlib.sha256(), 0
        while data := os.pread(descriptor, _READ_BYTES, position):
            hasher.update(data)
            position += len(data)
        tell(position)
        return position, hasher

    def _receive(
        self, descriptor: int, position: int, size: int, hasher: hashlib._Hash, source: Source, tell: Tell
    ) -> None:
        failures = 0
        while position < size:
            cut: Exception | None = None
            began = position
            try:
                for data in source(position):
                    position = self._take(descriptor, data, position, size, hasher)
                    tell(len(data))
            except (UnreachableError, UnavailableError) as error:
                cut = error
            failures = failures + 1 if position == began else 0
            if failures >= _TRIES:
                raise cut or UnreachableError(f"the file ends after {position} of {size} bytes")
            if position < size and self.stop.wait(_FIRST_WAIT * 2**failures if failures else 0):
                raise StoppedError

    def _take(self, descriptor: int, data: bytes, position: int, size: int, hasher: hashlib._Hash) -> int:
        if self.stop.is_set():
            raise StoppedError
        if position + len(data) > size:
            raise DigestError(f"more bytes came than the {size} that the manifest names")
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, position)
            hasher.update(view[:written])
            position += written
            view = view[written:]
        return position

    def _keep(self, descriptor: int, partial: str, sha256: str) -> None:
        path = self.path(sha256)
        os.fchmod(descriptor, 0o444)
        os.utime(descriptor, ns=(VERIFIED_NS, VERIFIED_NS))
        os.fsync(descriptor)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.replace(partial, path)

    def _unwritable(self, error: OSError) -> UsageError:
        if error.errno in _FULL:
            return UsageError(
                f"the cache {self._root} has no room left ({error.strerror})", "make room, or set DRAFTERS_CACHE"
            )
        return UsageError(f"the cache {self._root} cannot be written: {error.strerror}", "set DRAFTERS_CACHE")


def is_verified(path: str, sha256: str, size: int) -> bool:
    """Whether a file of the cache has these bytes; hashed only if somebody touched it since that was seen last."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        if status.st_mtime_ns == VERIFIED_NS:
            return True
        with open(path, "rb", buffering=0) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                return False
        os.utime(path, ns=(VERIFIED_NS, VERIFIED_NS))
    except OSError:
        return False
    return True


def doubt(path: str) -> None:
    """Have a file of the cache hashed again before its next use: it was found to hold other bytes."""
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(descriptor: int, path: str) -> bool:
    ours = os.fstat(descriptor)
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return


def wait_for_lock(path: str, stop: threading.Event) -> int:
    """A file, made if need be, that is locked until the descriptor is closed.

    Raises:
        OSError: It cannot be made.
        StoppedError: `stop` was set while somebody else held it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    while not _try_lock(descriptor):
        if stop.wait(_POLL_SECONDS):
            os.close(descriptor)
            raise StoppedError
    return descriptor
