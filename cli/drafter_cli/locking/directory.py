"""The sha256 of every file of a drafter's directory, remembered as long as a file is the same."""

from __future__ import annotations

import hashlib
import os

from drafter_cli.cache.drafters import cache_root
from drafter_cli.errors import UsageError
from drafter_cli.publishing.file_digests import digest_of
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_READ_BYTES = 1024 * 1024


def digests(directory: str, paths: Iterable[str] | None = None, *, verify: bool = False) -> dict[str, str]:
    """Path of files to their sha256, 64 hex digits.

    Args:
        directory: The directory; links to files are followed.
        paths: Which files, with / between folders, as far as they are there; None for all but hidden ones.
        verify: Whether to read every byte, whatever is remembered.

    Raises:
        UsageError: A file cannot be read, or changes meanwhile.
    """
    folder = os.path.join(cache_root(), "digests")
    found = {}
    for path in _files(directory) if paths is None else paths:
        full = os.path.join(directory, *path.split("/"))
        if not os.path.lexists(full):
            continue
        try:
            found[path] = _read(full) if verify else digest_of(full, folder, lambda _: None, _changed)[0]
        except CheckpointError as error:
            raise UsageError(error.diagnostics(), "a drafter's directory holds regular files") from None
    return found


def names(directory: str) -> list[str]:
    """Names of what lies in a directory itself.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return sorted(os.listdir(directory))
    except OSError as error:
        raise _unreadable(error) from None


def _files(directory: str) -> Iterator[str]:
    for folder, below, names in os.walk(directory, onerror=_stop):
        below[:] = sorted(name for name in below if not name.startswith("."))
        inside = os.path.relpath(folder, directory)
        for name in sorted(names):
            if not name.startswith("."):
                yield name if inside == "." else "/".join((*inside.split(os.sep), name))


def _stop(error: OSError) -> None:
    raise _unreadable(error)


def _unreadable(error: OSError) -> UsageError:
    return UsageError(f"{error.filename} cannot be read: {error.strerror}", "its files decide what is loaded")


def _read(path: str) -> str:
    file, _ = open_regular(path)
    hasher = hashlib.sha256()
    with file:
        try:
            while data := file.read(_READ_BYTES):
                hasher.update(data)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return hasher.hexdigest()


def _changed(path: str) -> UsageError:
    return UsageError(f"{path} changed while it was read", "try again once it is finished")
