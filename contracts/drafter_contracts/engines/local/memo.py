"""Hashes of an installation's files, remembered, so that a gate that starts again need not read them all again.

A file counts as unchanged while its size, inode, modification time and change time are the same. The change time is the
kernel's own and cannot be set, so that a file put back with its old date is read again; and what was written less than
two seconds ago is not remembered, because the next write might bear the same time. What this trades away: a filesystem
that keeps no change times, or a machine whose clock is set back onto the very tick.
"""

# No `from __future__ import annotations` here, as in `engines.profile`: it costs a gate's start.

import os

import msgspec

from drafter_contracts.engines.local.folder import prune, read, write

SCHEMA = "drafters.hashes.v2"
_MAX_BYTES = 16 * 1024 * 1024
#: Most installations that are remembered.
_KEEP = 16
_SETTLED_NS = 2_000_000_000

#: Size, modification time, change time (ns) and inode.
Stamp = tuple[int, int, int, int]


def stamp(status: os.stat_result) -> Stamp:
    """What must stay the same for a file or folder to count as unchanged."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class Hashed(msgspec.Struct, array_like=True):
    """One file as it was read.

    Attributes:
        stamp: When it was read.
        digest: First 16 hex digits of its sha256.
        registers: Whether it binds the name by which a model file registers its classes.
    """

    stamp: Stamp
    digest: str
    registers: bool


class Listed(msgspec.Struct, array_like=True):
    """One folder as it was listed: its Python files, its subfolders, and its compiled modules."""

    stamp: Stamp
    files: list[str]
    folders: list[str]
    compiled: list[str]


class Memo(msgspec.Struct):
    """What is remembered of one directory.

    Attributes:
        schema: `SCHEMA`.
        root: The directory.
        files: Path below it to the file.
        folders: Path below it to the folder.
    """

    schema: str
    root: str
    files: dict[str, Hashed] = msgspec.field(default_factory=dict)
    folders: dict[str, Listed] = msgspec.field(default_factory=dict)


def settled(seen: Stamp) -> bool:
    """Whether a stamp is old enough that a later change must bear another one."""
    import time

    return max(seen[1], seen[2]) < time.time_ns() - _SETTLED_NS


def _path(folder: str, root: str) -> str:
    from zlib import crc32

    return os.path.join(folder, "hashes", f"{crc32(os.fsencode(root)):08x}.json")


def recall(folder: str, root: str) -> Memo:
    """What is remembered of a directory; nothing, if that is damaged or speaks of another one.

    Args:
        folder: Where profiles are kept, or "".
        root: The directory.
    """
    from zlib import crc32

    data = read(_path(folder, root), _MAX_BYTES) if folder else None
    if data is not None:
        check, _, body = data.partition(b"\n")
        if check == b"%08x" % crc32(body):
            try:
                memo = msgspec.json.decode(body, type=Memo)
            except msgspec.MsgspecError:
                return Memo(SCHEMA, root)
            if (memo.schema, memo.root) == (SCHEMA, root):
                return memo
    return Memo(SCHEMA, root)


def remember(folder: str, memo: Memo) -> str:
    """Write a memo; returns why it could not be written, or ""."""
    from zlib import crc32

    try:
        body = msgspec.json.encode(memo)
    except (msgspec.MsgspecError, UnicodeError) as error:
        return str(error)
    path = _path(folder, memo.root)
    problem = write(path, b"%08x\n" % crc32(body) + body)
    prune(os.path.dirname(path), _KEEP)
    return problem
