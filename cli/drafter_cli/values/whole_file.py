"""Files that are written whole or not at all."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError


def replace_file(path: str, data: bytes) -> None:
    """Write a file: other processes see the old one or the whole new one.

    Args:
        path: The file; a link stays one, and what it leads to is written.
        data: Its content.

    Raises:
        UsageError: It cannot be written; nothing was changed.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError:
            os.remove(partial)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name another file: -o FILE") from None
