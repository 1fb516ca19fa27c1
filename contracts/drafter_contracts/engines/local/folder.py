"""The folder in which profiles are kept: where it is, and files in it that are written whole or not at all.

Nothing here is needed: a folder that cannot be written costs time, never an answer.
"""

from __future__ import annotations

import os

from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

#: Names a directory that is used instead of `$XDG_CACHE_HOME/drafter-registry`.
VARIABLE = "DRAFTERS_CACHE"
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_WRITABLE_BY_OTHERS = 0o022
#: Longest wait for another process that does the same work, seconds.
_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.2


def profiles_folder() -> str:
    """Directory of kept profiles, which need not exist; "" where the environment names none."""
    own = os.environ.get(VARIABLE, "")
    if own:
        return os.path.join(os.path.abspath(own), "profiles")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the specification says to ignore it then
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "drafter-registry", "profiles") if os.path.isabs(base) else ""


def read(path: str, limit: int) -> bytes | None:
    """Content of a kept file; None if it is absent, too large, or might have been written by somebody else.

    Args:
        path: The file.
        limit: Most bytes it may have.
    """
    try:
        file, _ = open_regular(path)
    except (CheckpointError, ValueError):
        return None
    with file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & _WRITABLE_BY_OTHERS:
            return None
        try:
            data = file.read(limit + 1)
        except OSError:
            return None
    return data if len(data) <= limit else None


def write(path: str, data: bytes) -> str:
    """Write a kept file: other processes see the old one or the whole new one.

    Args:
        path: The file.
        data: Its content.

    Returns:
        Why it could not be written, or "".
    """
    partial = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(path), _PRIVATE_FOLDER, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError as error:
        _remove(partial)
        return f"{path}: {error.strerror}"
    return ""


def prune(folder: str, keep: int) -> None:
    """Remove all but the most recently written files of a folder.

    Args:
        folder: The folder.
        keep: How many stay.
    """
    try:
        with os.scandir(folder) as entries:
            dated = [(entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in entries]
    except OSError:
        return
    for _, path in sorted(dated, reverse=True)[keep:]:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return


def lock(path: str) -> AbstractContextManager[None]:
    """Do work once where several processes start with it: wait for the one that holds the lock.

    Where no lock can be had (a folder that cannot be written, a filesystem without locks, a wait that is too long) the
    work is done all the same: its result is the same, whoever does it.

    Args:
        path: The lock's file, or "" for none.
    """
    import contextlib

    return contextlib.contextmanager(_locked)(path)


def _locked(path: str) -> Iterator[None]:
    import fcntl
    import time

    if not path:
        yield
        return
    try:
        os.makedirs(os.path.dirname(path), _PRIVATE_FOLDER, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(descriptor)
