"""The sha256 of local files, remembered as long as a file is the same.

A file is the same while device, inode, size, modification and change time are. One that was written moments before is
not remembered: it could be written again within the clock's own step, and look the same.

Hashing comes before sending, not with it: a registry that has a file already is then sent nothing, and reading twice
costs little beside a network (hashlib reads 1.2 GB/s where sha256sum reads 0.3).
"""

from __future__ import annotations

import hashlib
import os
import time

import msgspec

from drafter_cli.errors import UsageError
from drafter_contracts.checkpoint.regular import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_cli.client.backend import Tell

_READ_BYTES = 1024 * 1024
#: Age of a file's last change below which its digest is not remembered, nanoseconds.
_SETTLED_NS = 2 * 10**9
_NOTE_MAX_BYTES = 1024


class Identity(msgspec.Struct, frozen=True):
    """What tells whether a file is the same: device, inode, size in bytes, and times in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class _Note(msgspec.Struct):
    identity: Identity
    sha256: str


def identity(path: str) -> Identity:
    """A file's identity now; links are followed.

    Raises:
        OSError: It is gone.
    """
    return _identity(os.stat(path))


def _identity(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def digest_of(
    path: str, folder: str, tell: Tell, told: Callable[[str], UsageError] | None = None
) -> tuple[str, Identity]:
    """The sha256 of a file, 64 hex digits, and which file it was.

    Args:
        path: The file.
        folder: Where digests are remembered.
        tell: Told of every byte read, or of all at once where nothing need be read.
        told: Makes the error for a file that changes while it is read; None for one that speaks of publishing.

    Raises:
        CheckpointError: It cannot be opened, or is no regular file.
        UsageError: It changes while it is read, or cannot be read.
    """
    note = os.path.join(folder, hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:40])
    file, _ = open_regular(path)
    with file:
        before = _identity(os.fstat(file.fileno()))
        known = _read_note(note)
        if known is not None and known.identity == before:
            tell(before.size)
            return known.sha256, before
        hasher = hashlib.sha256()
        try:
            while data := file.read(_READ_BYTES):
                hasher.update(data)
                tell(len(data))
            after = _identity(os.fstat(file.fileno()))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if after != before:
        raise (told or changed)(path)
    found = hasher.hexdigest()
    if time.time_ns() - max(before.modified, before.changed) > _SETTLED_NS:
        _write_note(note, _Note(before, found))
    return found, before


def check_same(path: str, before: Identity) -> None:
    """Refuse a file that is another one than it was.

    Raises:
        UsageError: It is.
    """
    try:
        same = identity(path) == before
    except OSError:
        same = False
    if not same:
        raise changed(path)


def changed(path: str) -> UsageError:
    """The error for a file that changes under the reader's hands."""
    return UsageError(
        f"{path} changed while it was published; nothing was published", "publish again once it is finished"
    )


def _read_note(path: str) -> _Note | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(_NOTE_MAX_BYTES), type=_Note)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_note(path: str, note: _Note) -> None:
    """Remember; where that is not possible, the file is read again the next time."""
    partial = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(partial, "xb") as file:
            file.write(msgspec.json.encode(note))
        os.replace(partial, path)
    except OSError:
        return
