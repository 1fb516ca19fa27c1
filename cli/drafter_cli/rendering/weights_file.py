"""Writing the weight files of a render by their plans: streamed, hashed on the way, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import ExitStack

import msgspec

from drafter_cli.errors import UsageError
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from drafter_contracts.rendering.weights import FilePlan, Piece, WeightsHead

#: Bytes held at once of each of reading and writing.
_CHUNK_BYTES = 8 * 1024 * 1024
_MODE = 0o644
#: So much of each piece is looked at where only a look is asked for.
_SAMPLE_BYTES = 64 * 1024


class WrittenFile(msgspec.Struct, frozen=True):
    """What was written.

    Attributes:
        path: Where.
        size: Bytes.
        sha256: Of its bytes, 64 hex digits.
    """

    path: str
    size: int
    sha256: str


def read_weights_head(path: str, name: str) -> WeightsHead:
    """The first bytes of a weight file, for a plan.

    Args:
        path: The file.
        name: Its path inside the drafter's directory.

    Raises:
        CheckpointError: No such regular file, or no safetensors header at its start.
    """
    from drafter_contracts.checkpoint.header import LENGTH_BYTES, header_length
    from drafter_contracts.rendering.weights import WeightsHead

    file, size = open_regular(path)
    with file:
        prefix = file.read(LENGTH_BYTES)
        return WeightsHead(name, prefix + file.read(header_length(prefix, size, path)), size)


def write_weights(plan: FilePlan, sources: Mapping[str, str], path: str) -> WrittenFile:
    """Write one weight file of a render; the same plan and sources give the same bytes.

    Args:
        plan: What to write.
        sources: Where each file lies that the plan takes bytes from, by its name in the plan. They are only read.
        path: Where to write; its folder exists, and a file of this name is replaced at once when the new one is whole.

    Raises:
        CheckpointError: A source that is not, or no longer, the file that was planned with.
        UsageError: It cannot be written; nothing is left of it.
    """
    partial = f"{path}.{secrets.token_hex(8)}.part"
    try:
        with ExitStack() as stack:
            opened = {source.name: _opened(stack, source, sources) for source in plan.sources}
            sha256 = _write(plan, opened, partial)
            for source in plan.sources:
                _check_size(opened[source.name], source, sources[source.name])
        os.replace(partial, path)
        _sync_folder(os.path.dirname(path) or ".")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "make room, or name another place") from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return WrittenFile(path, plan.size, sha256)


def first_bytes(file: BinaryIO, piece: Piece) -> bytes:
    """What a piece of a plan begins with: some whole rows in their new order, or bytes as they lie there.

    Args:
        file: The old file.
        piece: What is taken from it.

    Raises:
        CheckpointError: The file is cut short, or cannot be read.
    """
    row = sum(piece.widths)
    if not piece.order:
        size = min(piece.size, _SAMPLE_BYTES)
        return b"".join(bytes(part) for part in _range(file, piece.start, size, memoryview(bytearray(size or 1))))
    rows = min(piece.rows, max(1, _SAMPLE_BYTES // row))
    few = msgspec.structs.replace(piece, rows=rows)
    return b"".join(_rows(file, few, memoryview(bytearray(rows * row))))


def _opened(stack: ExitStack, source: WeightsHead, sources: Mapping[str, str]) -> BinaryIO:
    """A source, found to be the one that was planned with by its size and header."""
    path = sources.get(source.name, "")
    if not path:
        raise CheckpointError("where this file lies was not said", where=source.name)
    file, _ = open_regular(path)
    stack.enter_context(file)
    _check_size(file, source, path)
    if file.read(len(source.head)) != source.head:
        raise CheckpointError("not the file that was planned with: its header is another", where=path)
    return file


def _check_size(file: BinaryIO, source: WeightsHead, path: str) -> None:
    size = os.fstat(file.fileno()).st_size
    if size != source.size:
        raise CheckpointError(
            "not the file that was planned with", where=path, expected=f"{source.size} bytes", actual=f"{size} bytes"
        )


def _write(plan: FilePlan, opened: Mapping[str, BinaryIO], partial: str) -> str:
    """Write and sync a file of a new name; returns the digest of what was written."""
    hasher = hashlib.sha256()
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    with open(descriptor, "wb", buffering=0) as file:
        for data in _contents(plan, opened):
            view = memoryview(data)
            hasher.update(view)
            while view:
                view = view[file.write(view) :]
        os.fsync(descriptor)
    return hasher.hexdigest()


def _contents(plan: FilePlan, opened: Mapping[str, BinaryIO]) -> Iterator[bytes | memoryview]:
    yield plan.head
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    for piece in plan.pieces:
        file = opened[piece.source]
        row = sum(piece.widths)
        if not piece.order:
            yield from _range(file, piece.start, piece.size, buffer)
        elif row <= _CHUNK_BYTES:
            yield from _rows(file, piece, buffer)
        else:  # one row alone is more than is held at once
            for start in range(piece.start, piece.start + piece.size, row):
                for left, right in _blocks(piece):
                    yield from _range(file, start + left, right - left, buffer)


def _range(file: BinaryIO, start: int, size: int, buffer: memoryview) -> Iterator[memoryview]:
    """Bytes of a file as they lie there."""
    file.seek(start)
    while size:
        part = buffer[: min(size, len(buffer))]
        _fill(file, part)
        yield part
        size -= len(part)


def _rows(file: BinaryIO, piece: Piece, buffer: memoryview) -> Iterator[bytes]:
    """Rows of a file with their blocks in another order."""
    row, blocks = sum(piece.widths), _blocks(piece)
    file.seek(piece.start)
    left = piece.rows
    while left:
        count = min(left, len(buffer) // row)
        part = buffer[: count * row]
        _fill(file, part)
        yield b"".join([part[at + first : at + last] for at in range(0, count * row, row) for first, last in blocks])
        left -= count


def _blocks(piece: Piece) -> list[tuple[int, int]]:
    """First byte of each block within a row, and the one after its last, in the new order."""
    ends = [sum(piece.widths[: place + 1]) for place in range(len(piece.widths))]
    return [(ends[place] - piece.widths[place], ends[place]) for place in piece.order]


def _fill(file: BinaryIO, part: memoryview) -> None:
    """Read until a buffer is full."""
    filled = 0
    while filled < len(part):
        try:
            count = file.readinto(part[filled:])  # type: ignore[attr-defined]
        except OSError as error:
            raise CheckpointError("cannot be read", where=str(file.name), actual=error.strerror or "") from None
        if not count:
            raise CheckpointError("cut short while it was read", where=str(file.name))
        filled += count


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
