"""Files that are written whole or not at all."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError

_HINT = "name another file: -o FILE"


def check_output(path: str, *inputs: str) -> None:
    """Say before the work what would be in the way of writing its result after it.

    Args:
        path: The file that will be written.
        inputs: Files that are read, and must not be lost.

    Raises:
        UsageError: A directory, a device, one of the inputs, or a file in a folder that is not there or not writable.
    """
    if not path or os.path.isdir(path):
        raise UsageError(f"{path} is a directory" if path else "no name of a file was given", _HINT)
    _check_kind(path)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: {folder} is no directory that can be written to", _HINT)
    for given in inputs:
        if os.path.exists(path) and os.path.isfile(given) and os.path.samefile(path, given):
            raise UsageError(f"{path} is what is read, and would be lost", _HINT)


def _check_kind(path: str) -> None:
    """A device or a pipe would be replaced by a file of that name: for everybody, if it is /dev/null."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is no regular file", _HINT)


def replace_file(path: str, data: bytes) -> None:
    """Write a file: other processes see the old one or the whole new one.

    Args:
        path: The file; a link stays one, and what it leads to is written.
        data: Its content.

    Raises:
        UsageError: It cannot be written, or is a device; nothing was changed.
    """
    if not os.path.isdir(path):
        _check_kind(path)
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
        except BaseException:  # an interrupt leaves nothing either
            os.remove(partial)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", _HINT) from None
