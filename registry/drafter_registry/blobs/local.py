"""A blob store in a directory. Everything is staged beside its place, so that a rename makes it appear.

No symbolic link below the directory is followed. An upload's file is locked (`flock`) while it is written, and each
writer leaves a mark on it: a process that still has the hash of what it wrote knows by the mark that nobody else has
written since, and need not read the bytes again to know their digest.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from drafter_registry import limits
from drafter_registry.blobs.folders import discard_file, folder, told
from drafter_registry.blobs.keys import (
    BLOBS,
    UPLOADS,
    blob_place,
    check_upload,
    digest_at,
    gap,
    is_upload,
    other_digest,
    too_few,
)
from drafter_registry.blobs.store import Stored
from drafter_registry.errors import InternalError, NotFoundError
from drafter_registry.failpoints import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from hashlib import _Hash

#: Most uploads whose running hash is kept in this process.
_REMEMBERED = 4096
_BLOCK = 4 * 1024 * 1024


class _Written:
    """What this process knows of an upload: the hash of its first `end` bytes, true as long as the mark is there."""

    def __init__(self) -> None:
        self.end = 0
        self.hash: _Hash = hashlib.sha256()
        self.mark = 0
        #: Whether those bytes are on the disk, not only in its cache.
        self.synced = False


class LocalStore:
    """Blobs below a directory, which is made when something is written.

    Args:
        directory: Path of the directory.
    """

    append_bytes = limits.chunk_bytes

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self._written: dict[str, _Written] = {}

    def __repr__(self) -> str:
        return f"LocalStore({self.directory!r})"

    def size(self, digest: str) -> int | None:
        """See `BlobStore`."""
        parent, name = blob_place(digest)
        with told("a blob cannot be looked up"):
            try:
                with folder(self.directory, *BLOBS, parent) as place:
                    status = os.stat(name, dir_fd=place, follow_symlinks=False)
            except FileNotFoundError:
                return None
        _check_regular(status, digest)
        return status.st_size

    def read(self, digest: str, start: int, length: int) -> bytes:
        """See `BlobStore`."""
        with told("a blob cannot be read"), self._blob(digest) as file:
            parts = []
            while length > 0 and (part := os.pread(file, min(length, _BLOCK), start)):
                parts.append(part)
                start, length = start + len(part), length - len(part)
        return b"".join(parts)

    def stream(self, digest: str, start: int, end: int) -> Iterator[bytes]:
        """See `BlobStore`."""
        with told("a blob cannot be read"), self._blob(digest) as file:
            while start < end and (part := os.pread(file, min(end - start, limits.chunk_bytes), start)):
                yield part
                start += len(part)

    def delete(self, digest: str) -> None:
        """See `BlobStore`."""
        parent, name = blob_place(digest)
        with told("a blob cannot be removed"):
            discard_file((self.directory, *BLOBS, parent), name, durably=True)

    def blobs(self) -> Iterator[Stored]:
        """See `BlobStore`."""
        for parent in self._names(*BLOBS):
            for name in self._names(*BLOBS, parent):
                digest = digest_at(parent, name)
                if digest is not None:
                    yield from self._stored(digest, name, *BLOBS, parent)

    def staged(self) -> Iterator[Stored]:
        """See `BlobStore`."""
        for name in self._names(UPLOADS):
            if is_upload(name):
                yield from self._stored(name, name, UPLOADS)

    def append(self, upload: str, offset: int, data: bytes) -> None:
        """See `BlobStore`."""
        with told("an upload cannot be written"), self._upload(upload, create=True) as (_, file):
            status = os.fstat(file)
            if status.st_size < offset:
                raise gap(status.st_size, offset)
            known = self._known(upload, status)
            if known is None or known.end != offset:
                known = _Written() if offset == 0 else None
            if status.st_size > offset:
                os.ftruncate(file, offset)
            try:
                _write(file, offset, data)
            except BaseException:
                self._written.pop(upload, None)
                with suppress(OSError):
                    os.ftruncate(file, offset)
                raise
            if known is not None:
                known.hash.update(data)
                known.end += len(data)
            self._leave_mark(upload, file, known)

    def ingest(self, upload: str, chunks: Iterable[bytes], digest: str) -> int:
        """See `BlobStore`."""
        try:
            with told("a blob cannot be written"), self._upload(upload, create=True) as (_, file):
                known = _Written()
                for chunk in chunks:
                    _write(file, known.end, chunk)
                    known.hash.update(chunk)
                    known.end += len(chunk)
                self._leave_mark(upload, file, known)
                self._verify(upload, file, known.end, digest)
        except BaseException:
            self.discard(upload)
            raise
        return known.end

    def prepare(self, upload: str, size: int, digest: str) -> None:
        """See `BlobStore`."""
        try:
            with told("an upload cannot be verified"), self._upload(upload, create=size == 0) as (_, file):
                self._verify(upload, file, size, digest)
        except FileNotFoundError:
            if self.size(digest) != size:
                raise too_few(0, size) from None

    def commit(self, upload: str, size: int, digest: str) -> None:
        """See `BlobStore`."""
        parent, name = blob_place(digest)
        try:
            with told("a blob cannot be stored"), self._upload(upload, create=size == 0) as (place, file):
                self._verify(upload, file, size, digest)
                with folder(self.directory, *BLOBS, parent, create=True) as target:
                    reached("local.synced")
                    os.rename(upload, name, src_dir_fd=place, dst_dir_fd=target)
                    reached("local.renamed")
                    os.fsync(target)
        except FileNotFoundError:  # staged no more: committed before, then whoever asked was cut off
            if self.size(digest) != size:
                raise too_few(0, size) from None
        self._written.pop(upload, None)

    def discard(self, upload: str) -> None:
        """See `BlobStore`."""
        check_upload(upload)
        self._written.pop(upload, None)
        with told("an upload cannot be removed"):
            discard_file((self.directory, UPLOADS), upload)

    def probe(self) -> None:
        """See `BlobStore`."""
        upload = secrets.token_hex(16)
        try:
            with told("the blob store cannot be written"), self._upload(upload, create=True) as (_, file):
                _write(file, 0, b"probe")
        finally:
            self.discard(upload)

    def _names(self, *parts: str) -> list[str]:
        """Sorted names in a folder; none if there is no such folder."""
        with told("the blob store cannot be listed"):
            try:
                with folder(self.directory, *parts) as place:
                    return sorted(os.listdir(place))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _stored(self, key: str, name: str, *parts: str) -> Iterator[Stored]:
        """That file, unless it went away meanwhile or is no regular one."""
        with told("the blob store cannot be listed"):
            try:
                with folder(self.directory, *parts) as place:
                    status = os.stat(name, dir_fd=place, follow_symlinks=False)
            except FileNotFoundError:
                return
        if stat.S_ISREG(status.st_mode):
            yield Stored(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    @contextmanager
    def _blob(self, digest: str) -> Iterator[int]:
        parent, name = blob_place(digest)
        try:
            with folder(self.directory, *BLOBS, parent) as place:
                _check_regular(os.stat(name, dir_fd=place, follow_symlinks=False), digest)
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place)
        except FileNotFoundError:
            raise NotFoundError(f"blob {digest} is not stored") from None
        try:
            _check_regular(os.fstat(file), digest)
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _upload(self, upload: str, *, create: bool) -> Iterator[tuple[int, int]]:
        """The folder of uploads, and the upload's file, ours alone. FileNotFoundError if there is none."""
        check_upload(upload)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with folder(self.directory, UPLOADS, create=create) as place:
            while True:
                file = os.open(upload, flags, 0o600, dir_fd=place)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    if _is_still(file, upload, place):
                        yield place, file
                        return
                finally:
                    os.close(file)

    def _known(self, upload: str, status: os.stat_result) -> _Written | None:
        """What this process knows of the upload, if nobody else has written since."""
        known = self._written.get(upload)
        return known if known is not None and known.mark == status.st_mtime_ns else None

    def _leave_mark(self, upload: str, file: int, known: _Written | None) -> None:
        """Set the file's time to about now, with nanoseconds nobody can guess. A disk without any forgets it."""
        mark = (int(time.time()) - 1) * 1_000_000_000 + secrets.randbelow(1_000_000_000)
        os.utime(file, ns=(mark, mark))
        self._written.pop(upload, None)
        if known is None:
            return
        known.mark, known.synced = mark, False
        self._written[upload] = known
        while len(self._written) > _REMEMBERED:
            with suppress(StopIteration, KeyError, RuntimeError):  # another thread may be faster
                del self._written[next(iter(self._written))]

    def _verify(self, upload: str, file: int, size: int, digest: str) -> None:
        """The file has exactly those bytes afterwards, and they survive a power cut."""
        status = os.fstat(file)
        _check_regular(status, upload)
        if status.st_size < size:
            raise too_few(status.st_size, size)
        known = self._known(upload, status)
        if known is None or known.end != size:
            known = _hash_again(file, size)
        actual = "sha256:" + known.hash.hexdigest()
        if actual != digest:
            raise other_digest(digest, actual)
        if known.synced and status.st_size == size:
            return
        if status.st_size > size:
            os.ftruncate(file, size)
        self._leave_mark(upload, file, known)
        os.fsync(file)
        known.synced = True


def _hash_again(file: int, size: int) -> _Written:
    known = _Written()
    while known.end < size and (part := os.pread(file, min(_BLOCK, size - known.end), known.end)):
        known.hash.update(part)
        known.end += len(part)
    return known


def _write(file: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        reached("local.writing")
        done = os.pwrite(file, view, offset)
        view, offset = view[done:], offset + done


def _is_still(file: int, name: str, place: int) -> bool:
    """Whether the open file is the one of that name: while we waited for it, it may have been committed."""
    try:
        now = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    status = os.fstat(file)
    return (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)


def _check_regular(status: os.stat_result, subject: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InternalError(
            f"{subject} is no regular file in the blob store", hint="somebody put a link or folder there: look at it"
        )
