"""A blob store in a bucket (S3, GCS, Azure), through obstore.

What is staged of an upload is one object per part, `uploads/ID/OFFSET`, so that any process can go on with it. To
commit is to stream the parts through the hash into the blob's key. Stores show a put whole or not at all, and obstore
gives a multipart put up when its source raises: bytes with another digest never appear.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError

from drafter_registry import limits
from drafter_registry.blobs.ahead import ReadAhead
from drafter_registry.blobs.answers import NoBucketError, translated
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
from drafter_registry.errors import NotFoundError, RangeError
from drafter_registry.failpoints import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from obstore.store import ObjectStore

#: Bytes asked for at once while a blob is streamed.
_WINDOW = 8 * 1024 * 1024
#: S3 takes no smaller part of a multipart put, but for the last.
_LEAST_PART = 5 * 1024 * 1024
#: Parts of one put on the way at once; each is held in memory.
_CONCURRENCY = 2
#: Most uploads of which this process remembers where they end, or that they are prepared.
_REMEMBERED = 4096
_Value = TypeVar("_Value")


class _Part(msgspec.Struct, frozen=True, order=True):
    """One staged object: where it begins in its upload, its size, and when it was written."""

    start: int
    size: int
    modified: datetime
    path: str


class ObjectsStore:
    """Blobs in a bucket.

    Args:
        store: The bucket, with the prefix below which everything is kept.
        name: What to call it: its URL.
    """

    append_bytes = limits.part_bytes

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._name = name
        self._store = store
        self._ends: dict[str, int] = {}
        self._prepared: dict[str, tuple[int, str]] = {}

    def __repr__(self) -> str:
        return f"ObjectsStore({self._name!r})"

    def size(self, digest: str) -> int | None:
        """See `BlobStore`."""
        path = _path(digest)
        with translated():
            try:
                return int(obstore.head(self._store, path)["size"])
            except FileNotFoundError:
                return None

    def read(self, digest: str, start: int, length: int) -> bytes:
        """See `BlobStore`."""
        return b"".join(self._windows(digest, start, start + length))

    def stream(self, digest: str, start: int, end: int) -> Iterator[bytes]:
        """See `BlobStore`."""
        for window in self._windows(digest, start, end):
            for at in range(0, len(window), limits.chunk_bytes):
                yield window[at : at + limits.chunk_bytes]

    def delete(self, digest: str) -> None:
        """See `BlobStore`."""
        self._delete([_path(digest)])

    def blobs(self) -> Iterator[Stored]:
        """See `BlobStore`."""
        prefix = "/".join(BLOBS)
        for path, size, modified in self._listed(prefix):
            folder, _, name = path.removeprefix(prefix + "/").partition("/")
            digest = digest_at(folder, name)
            if digest is not None:
                yield Stored(digest, size, modified)

    def staged(self) -> Iterator[Stored]:
        """See `BlobStore`."""
        found: dict[str, Stored] = {}
        for path, size, modified in self._listed(UPLOADS):
            upload = path.removeprefix(UPLOADS + "/").partition("/")[0]
            if is_upload(upload):
                before = found.get(upload, Stored(upload, 0, modified))
                found[upload] = Stored(upload, before.size + size, max(before.modified, modified))
        yield from sorted(found.values(), key=lambda one: one.key)

    def append(self, upload: str, offset: int, data: bytes) -> None:
        """See `BlobStore`."""
        check_upload(upload)
        if self._ends.pop(upload, None) != offset:
            self._cut(upload, offset)
        for at in range(0, len(data), limits.part_bytes):
            reached("objects.part")
            self._put(_part_path(upload, offset + at), data[at : at + limits.part_bytes])
        _remember(self._ends, upload, offset + len(data))

    def prepare(self, upload: str, size: int, digest: str) -> None:
        """See `BlobStore`."""
        parts = _chain(self._parts(upload), size)
        staged = sum(part.size for part in parts)
        if staged < size:
            if parts or self.size(digest) != size:  # none: committed before, then whoever asked was cut off
                raise too_few(staged, size)
            return
        self._make_blob(self._bytes_of(parts, size), digest)
        _remember(self._prepared, upload, (size, digest))

    def ingest(self, upload: str, chunks: Iterable[bytes], digest: str) -> int:
        """See `BlobStore`."""
        size = self._make_blob(iter(chunks), digest)
        _remember(self._prepared, check_upload(upload), (size, digest))
        return size

    def commit(self, upload: str, size: int, digest: str) -> None:
        """See `BlobStore`."""
        prepared = self._prepared.pop(check_upload(upload), None) == (size, digest)
        if not prepared or self.size(digest) != size:
            self.prepare(upload, size, digest)
            self._prepared.pop(upload, None)

    def discard(self, upload: str) -> None:
        """See `BlobStore`."""
        self._delete([part.path for part in self._parts(upload)])
        self._ends.pop(upload, None)
        self._prepared.pop(upload, None)

    def probe(self) -> None:
        """See `BlobStore`."""
        path = f"probe/{secrets.token_hex(16)}"
        self._put(path, b"probe")
        self._delete([path])

    def _windows(self, digest: str, start: int, end: int) -> Iterator[bytes]:
        path = _path(digest)
        while start < end:
            window = self._range(path, digest, start, min(end, start + _WINDOW))
            if not window:
                return
            yield window
            start += len(window)

    def _range(self, path: str, subject: str, start: int, end: int) -> bytes:
        """Bytes of an object; none from beyond its end."""
        try:
            with translated():
                try:
                    return bytes(obstore.get_range(self._store, path, start=start, end=end))
                except FileNotFoundError:
                    raise NotFoundError(f"blob {subject} is not stored") from None
        except RangeError:
            return b""

    def _listed(self, prefix: str) -> Iterator[tuple[str, int, datetime]]:
        try:
            yield from self._list(prefix)
        except NoBucketError:
            self.probe()  # some gateways make a bucket with its first object; the others say that there is none
            yield from self._list(prefix)

    def _list(self, prefix: str) -> Iterator[tuple[str, int, datetime]]:
        with translated():
            for page in obstore.list(self._store, prefix, chunk_size=1000):
                for meta in page:
                    yield meta["path"], meta["size"], meta["last_modified"]

    def _parts(self, upload: str) -> list[_Part]:
        parts = []
        for path, size, modified in self._listed(f"{UPLOADS}/{check_upload(upload)}"):
            name = path.rpartition("/")[2]
            if name.isascii() and name.isdigit():
                parts.append(_Part(int(name), size, modified, path))
        return sorted(parts)

    def _cut(self, upload: str, offset: int) -> None:
        """Forget what is staged at `offset` and beyond."""
        parts = self._parts(upload)
        chain = _chain(parts, offset)
        end = sum(part.size for part in chain)
        if end < offset:
            raise gap(end, offset)
        if end > offset:
            last = chain.pop()
            self._put(last.path, self._range(last.path, upload, 0, offset - last.start))
            chain.append(last)
        kept = {part.path for part in chain}
        self._delete([part.path for part in parts if part.path not in kept])

    def _bytes_of(self, parts: list[_Part], size: int) -> Iterator[bytes]:
        for part in parts:
            end = min(part.size, size - part.start)
            for at in range(0, end, _WINDOW):
                yield self._range(part.path, part.path, at, min(end, at + _WINDOW))

    def _make_blob(self, chunks: Iterator[bytes], digest: str) -> int:
        """Put bytes under their digest, if it is theirs. Returns how many they were."""
        path = _path(digest)
        small = bytearray()
        for chunk in chunks:
            small += chunk
            if len(small) > limits.part_bytes:
                return self._make_large(_Hashing(bytes(small), chunks, digest), path)
        actual = "sha256:" + sha256(small).hexdigest()
        if actual != digest:
            raise other_digest(digest, actual)
        with translated():
            try:
                obstore.put(self._store, path, bytes(small), mode="create", use_multipart=False)
            except AlreadyExistsError:
                reached("objects.there")
                if self.size(digest) != len(small):  # damaged, or a collection has just removed it
                    self._put(path, bytes(small))
        return len(small)

    def _make_large(self, source: _Hashing, path: str) -> int:
        with ReadAhead(source) as ahead, translated():
            obstore.put(
                self._store,
                path,
                iter(ahead),
                use_multipart=True,
                chunk_size=max(limits.part_bytes, _LEAST_PART),
                max_concurrency=_CONCURRENCY,
            )
        return source.size

    def _put(self, path: str, data: bytes) -> None:
        with translated():
            obstore.put(self._store, path, data, use_multipart=False)

    def _delete(self, paths: list[str]) -> None:
        with translated():
            try:
                obstore.delete(self._store, paths)
            except FileNotFoundError:  # of several, the others are removed all the same
                return


class _Hashing:
    """Chunks on their way, hashed; raises after the last one if the digest is another."""

    def __init__(self, first: bytes, rest: Iterator[bytes], digest: str) -> None:
        self._first = first
        self._rest = rest
        self._digest = digest
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        running = sha256()
        chunk = self._first
        self._first = b""
        while chunk:
            running.update(chunk)
            self.size += len(chunk)
            yield chunk
            chunk = next(self._rest, b"")
        actual = "sha256:" + running.hexdigest()
        if actual != self._digest:
            raise other_digest(self._digest, actual)
        reached("objects.sent")


def _path(digest: str) -> str:
    return "/".join((*BLOBS, *blob_place(digest)))


def _part_path(upload: str, start: int) -> str:
    return f"{UPLOADS}/{upload}/{start:020d}"


def _chain(parts: list[_Part], size: int) -> list[_Part]:
    """The parts that follow each other from 0 to at least `size`, or as far as they go."""
    by_start = {part.start: part for part in parts}
    chain: list[_Part] = []
    end = 0
    while end < size and end in by_start and by_start[end].size > 0:
        chain.append(by_start[end])
        end += chain[-1].size
    return chain


def _remember(known: dict[str, _Value], upload: str, value: _Value) -> None:
    known[upload] = value
    while len(known) > _REMEMBERED:
        with suppress(StopIteration, KeyError, RuntimeError):  # another thread may be faster
            del known[next(iter(known))]
