"""The file `drafters.lock`: read whole, and written whole or not at all."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError
from drafter_contracts import limits
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError
from drafter_contracts.locking.document import Lock, canonical, decode, is_lock

_WRITE = "`drafters lock NAME@VERSION` writes one"


def read(path: str) -> Lock:
    """A lock file.

    Raises:
        UsageError: There is none, or it cannot be opened.
        LockError: It is no lock that is known here, or was changed after it was written.
    """
    if not os.path.lexists(path):
        raise UsageError(f"there is no lock file {path}", _WRITE)
    try:
        data = read_capped(path, limits.lock_max_bytes)
    except CheckpointError as error:
        raise UsageError(error.diagnostics(), _WRITE) from None
    return decode(data, where=path)


def write(path: str, lock: Lock) -> bool:
    """Write a lock file; other processes see the old one or the whole new one.

    Args:
        path: The file; a link stays one, and what it leads to is written.
        lock: The lock.

    Returns:
        Whether it was written: one with these very bytes is left alone.

    Raises:
        UsageError: It cannot be written, or holds something that is no lock; nothing was changed.
    """
    try:
        data = canonical(lock)
    except UnicodeEncodeError:
        raise UsageError("an argument is no text and cannot be written down", "write it in UTF-8") from None
    path = os.path.realpath(path)
    if os.path.lexists(path):
        try:
            there = read_capped(path, limits.lock_max_bytes)
        except CheckpointError as error:
            raise UsageError(error.diagnostics(), "name another file: -o FILE") from None
        if there == data:
            return False
        if not is_lock(there):
            raise UsageError(f"{path} is no lock file and was left as it is", "name another file: -o FILE")
    try:
        _replace(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name another file: -o FILE") from None
    return True


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{os.getpid()}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        os.remove(partial)
        raise
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
