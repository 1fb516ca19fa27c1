"""Folders below a directory, opened one by one so that no symbolic link is followed; what the disk says, in words."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress

from drafter_registry.errors import InternalError, StorageFullError, UnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The last one: the file system, or what the process may write, allows no larger file.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MISPLACED = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EMLINK, errno.ENXIO})
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Errors of the disk as the registry's own. FileNotFoundError goes through: what it means only the caller knows.

    Raises:
        StorageFullError: No room, or the quota is used up.
        InternalError: A link or a file is where a folder should be, or the other way round.
        UnavailableError: Anything else.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("the blob store has no room left", hint="free some, or run drafters gc") from error
        if error.errno in _MISPLACED:
            raise InternalError(
                f"{doing}: a link or another kind of file is in its place in the blob store", hint="look at it"
            ) from error
        raise UnavailableError(f"{doing}: {error.strerror}", retry_after=5) from error


@contextmanager
def folder(root: str, *names: str, create: bool = False) -> Iterator[int]:
    """A folder below `root`, open. `root` itself may be a link; it is whoever set the registry up that chose it.

    Args:
        root: Path of the directory.
        names: The folders on the way.
        create: Whether to make, for their owner only and durably, those that are not there.

    Raises:
        FileNotFoundError: It is not there.
    """
    if create and not os.path.isdir(root):
        _make_root(root)
    place = os.open(root, _FLAGS)
    try:
        for name in names:
            inner = _enter(place, name, create=create)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _make_root(root: str) -> None:
    """Make the directory; itself and what is made on the way survive a power cut."""
    made = [root]
    while not os.path.isdir(os.path.dirname(made[-1])):
        made.append(os.path.dirname(made[-1]))
    os.makedirs(root, mode=0o700, exist_ok=True)
    for path in made:
        parent = os.open(os.path.dirname(path), _FLAGS)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def _enter(place: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=place)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=place)
    os.fsync(place)
    return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=place)


def discard_file(path: tuple[str, ...], name: str, *, durably: bool = False) -> None:
    """Remove a file (or a link) of a folder, if it is there.

    Args:
        path: Root and names of the folder.
        name: Of the file.
        durably: Whether it must not come back after a power cut.
    """
    try:
        with folder(*path) as place:
            os.unlink(name, dir_fd=place)
            if durably:
                os.fsync(place)
    except FileNotFoundError:
        pass
