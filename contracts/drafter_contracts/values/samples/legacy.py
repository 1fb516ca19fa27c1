"""Torch's old container (before 1.6, or by choice), rewritten as the one that can be mapped.

Layout (`torch.serialization._legacy_save`): pickles of a magic number, of the protocol, of a note on the system, of
the object, and of the storages' keys; then per key the number of elements (8 bytes, little-endian) and the elements.
The object's pickle refers to a storage by a tuple of six, the last for views; the new container's has five.
"""

from __future__ import annotations

import pickletools
import re
import struct
import zipfile
from collections import deque
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, cast

from drafter_contracts import limits
from drafter_contracts.errors import SampleError

#: A pickle of torch's magic number, 0x1950a86a20f9469cfc6c.
MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."

_CHUNK = 1 << 20
# By the names of torch's storage classes; dtypes newer than these are saved as bytes.
_ITEMSIZES = {
    "DoubleStorage": 8,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
    "UntypedStorage": 1,
}
_KEY = re.compile(r"[0-9A-Za-z_]{1,64}")


def rewrite(source: BinaryIO, target: BinaryIO, where: str) -> None:
    """Copy a file of the old container into the new one, a piece at a time.

    Args:
        source: The old file.
        target: Open for writing.
        where: The file's name, for messages.

    Raises:
        SampleError: Damaged, cut short, over a limit, or of a kind that recorded states are not (views of storages).
    """
    size = source.seek(0, 2)
    if size > limits.sample_unpacked_max_bytes:
        raise SampleError(
            "torch's old container is too large to be rewritten: save it anew",
            where=where,
            expected=f"at most {limits.sample_unpacked_max_bytes} bytes",
            actual=f"{size} bytes",
        )
    head = _Head(source)
    try:
        for _ in range(3):
            deque(_operations(head), maxlen=0)
        sizes, pickle = _without_views(head, where)
        keys = _strings(head)
        start = head.tell()
    except SampleError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes make pickletools raise ValueError, struct.error, ...
        raise SampleError("torch's old container is damaged", where=where, actual=str(error)[:200]) from None
    if sorted(keys) != sorted(sizes):
        raise SampleError(
            "torch's old container holds other storages than its pickle asks for",
            where=where,
            expected=", ".join(sorted(sizes))[:200],
            actual=", ".join(sorted(keys))[:200],
        )
    source.seek(start)
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            archive.writestr("sample/data.pkl", pickle)
            archive.writestr("sample/byteorder", "little")
            for key in keys:
                _copy(source, archive, key, sizes[key], where)
            archive.writestr("sample/version", "3\n")
    except OSError as error:
        raise SampleError("cannot be rewritten: no space", where=where, actual=str(error)) from None
    target.flush()


def _copy(source: BinaryIO, archive: zipfile.ZipFile, key: str, size: tuple[int, int], where: str) -> None:
    elements, itemsize = size
    (stored,) = struct.unpack("<q", source.read(8).ljust(8, b"\xff"))
    left = elements * itemsize
    if stored != elements or left < 0:
        raise SampleError(
            f"storage {key} has another length than its pickle says: damaged, or cut short",
            where=where,
            expected=f"{elements} elements",
            actual=str(stored),
        )
    with archive.open(f"sample/data/{key}", "w", force_zip64=True) as record:
        while left:
            chunk = source.read(min(_CHUNK, left))
            if not chunk:
                raise SampleError(f"cut short inside storage {key}", where=where, expected=f"{left} bytes more")
            record.write(chunk)
            left -= len(chunk)


class _Head:
    """The pickles at the beginning, as pickletools reads them: a piece at a time, and not more than the limit.

    Args:
        file: From its beginning.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = limits.sample_pickle_max_bytes
        file.seek(0)
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        """Like a file's."""
        return self._count(self._file.read(min(size, self._left + 1)))

    def readline(self) -> bytes:
        """Like a file's."""
        return self._count(self._file.readline(self._left + 1))

    def between(self, start: int, end: int) -> bytes:
        """Bytes that were read before."""
        self._file.seek(start)
        return self._file.read(end - start)

    def _count(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(f"its pickles have more than {limits.sample_pickle_max_bytes} bytes")
        return piece


def _operations(head: _Head) -> Iterator[tuple[str, Any, int]]:
    """The next pickle's opcodes, up to its end: name, argument, position in the file."""
    for opcode, argument, position in pickletools.genops(cast("IO[bytes]", head)):
        yield opcode.name, argument, int(position or 0)


def _without_views(head: _Head, where: str) -> tuple[dict[str, tuple[int, int]], bytes]:
    """The object's pickle for the new container, and of every storage its elements and the bytes of one."""
    begin = head.tell()
    pieces: list[tuple[int, int]] = []
    sizes: dict[str, tuple[int, int]] = {}
    memo: dict[int, Any] = {}
    recent: deque[tuple[str, Any, int]] = deque(maxlen=8)
    kept = begin
    for name, argument, position in _operations(head):
        if name in {"BINPUT", "LONG_BINPUT"}:
            memo[argument] = recent[-1][1] if recent else None
            continue
        if name == "BINPERSID":
            *_, storage, key, _, elements, view, end = recent
            if (view[0], end[0]) != ("NONE", "TUPLE"):
                raise SampleError("torch's old container holds views of storages, which is not read", where=where)
            pieces.append((kept, view[2]))
            kept = view[2] + 1
            sizes[str(key[1])] = (int(elements[1]), _itemsize(str(storage[1]), where))
        value = memo.get(argument) if name in {"BINGET", "LONG_BINGET"} else argument
        recent.append((name, value, position))
    pieces.append((kept, head.tell()))
    for named in sizes:
        if not _KEY.fullmatch(named):
            raise SampleError("torch's old container has an odd key", where=where, actual=named[:80])
    return sizes, b"".join(head.between(start, end) for start, end in pieces)


def _itemsize(storage: str, where: str) -> int:
    """Bytes of an element of a storage class, "torch FloatStorage"."""
    size = _ITEMSIZES.get(storage.partition(" ")[2])
    if size is None:
        raise SampleError("torch's old container holds a storage of an unknown kind", where=where, actual=storage[:80])
    return size


def _strings(head: _Head) -> list[str]:
    """A pickled list of text: the keys."""
    texts = {"BINUNICODE", "SHORT_BINUNICODE", "UNICODE"}
    return [str(argument) for name, argument, _ in _operations(head) if name in texts]
