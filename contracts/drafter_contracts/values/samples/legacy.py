"""Torch's old container (before 1.6, or by choice), rewritten as the one that can be mapped.

Layout (`torch.serialization._legacy_save`): pickles of a magic number, of the protocol, of a note on the system, of
the object, and of the storages' keys; then per key the number of elements (8 bytes, little-endian) and the elements.
The object's pickle refers to a storage by a tuple of six, the last for views; the new container's has five.
"""

from __future__ import annotations

import io
import pickletools
import re
import struct
import zipfile
from collections import deque
from typing import Any, BinaryIO

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
    source.seek(0)
    head = io.BytesIO(source.read(limits.sample_pickle_max_bytes))
    try:
        for _ in range(3):
            _skip(head)
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
    if stored != elements or left > limits.sample_unpacked_max_bytes:
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


def _skip(head: io.BytesIO) -> None:
    for _ in pickletools.genops(head):
        pass


def _without_views(head: io.BytesIO, where: str) -> tuple[dict[str, tuple[int, int]], bytes]:
    """The object's pickle for the new container, and of every storage its elements and the bytes of one."""
    begin = head.tell()
    pieces: list[tuple[int, int]] = []
    sizes: dict[str, tuple[int, int]] = {}
    memo: dict[int, Any] = {}
    recent: deque[tuple[str, Any, int]] = deque(maxlen=8)
    kept = begin
    for opcode, argument, position in pickletools.genops(head):
        if opcode.name in {"BINPUT", "LONG_BINPUT"}:
            memo[int(argument or 0)] = recent[-1][1] if recent else None
            continue
        if opcode.name == "BINPERSID":
            *_, storage, key, _, elements, view, end = recent
            if (view[0], end[0]) != ("NONE", "TUPLE"):
                raise SampleError("torch's old container holds views of storages, which is not read", where=where)
            pieces.append((kept, view[2]))
            kept = view[2] + 1
            sizes[str(key[1])] = (int(elements[1]), _itemsize(str(storage[1]), where))
        named = memo.get(int(argument or 0)) if opcode.name in {"BINGET", "LONG_BINGET"} else argument
        recent.append((opcode.name, named, int(position or 0)))
    pieces.append((kept, head.tell()))
    whole = head.getbuffer()
    for named in sizes:
        if not _KEY.fullmatch(named):
            raise SampleError("torch's old container has an odd key", where=where, actual=named[:80])
    return sizes, b"".join(whole[start:end] for start, end in pieces)


def _itemsize(storage: str, where: str) -> int:
    """Bytes of an element of a storage class, "torch FloatStorage"."""
    size = _ITEMSIZES.get(storage.partition(" ")[2])
    if size is None:
        raise SampleError("torch's old container holds a storage of an unknown kind", where=where, actual=storage[:80])
    return size


def _strings(head: io.BytesIO) -> list[str]:
    """A pickled list of text: the keys."""
    return [
        str(argument)
        for opcode, argument, _ in pickletools.genops(head)
        if opcode.name in {"BINUNICODE", "SHORT_BINUNICODE", "UNICODE"}
    ]
