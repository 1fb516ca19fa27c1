"""Opening files of a directory that somebody else made: regular files only, and never waiting for one."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from drafter_contracts.errors import CheckpointError


def open_regular(path: str) -> tuple[BinaryIO, int]:
    """Open a regular file for reading.

    Args:
        path: The file; links are followed. A named pipe or a device is refused at once instead of being waited for.

    Returns:
        The open file and its size in bytes.

    Raises:
        CheckpointError: No such file, not readable, or not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CheckpointError("cannot be opened", where=path, actual=error.strerror or str(error)) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise CheckpointError("not a regular file", where=path)
    return open(descriptor, "rb"), status.st_size


def read_capped(path: str, limit: int) -> bytes:
    """The whole content of a small file.

    Args:
        path: The file.
        limit: Most bytes it may have.

    Raises:
        CheckpointError: As `open_regular`, or more than `limit` bytes.
    """
    file, _ = open_regular(path)
    with file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise CheckpointError("too large", where=path, expected=f"at most {limit} bytes")
    return content
