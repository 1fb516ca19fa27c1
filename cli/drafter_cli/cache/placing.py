"""Copying a pulled drafter to a directory of the user's own, which holds nothing else that an engine would read.

Copies and no links: whoever edits a config there does not edit the cache.
"""

from __future__ import annotations

import errno
import hashlib
import os

from drafter_cli.cache.blobs import doubt
from drafter_cli.errors import UsageError
from drafter_contracts.manifest import FILE_NAME, FileRecord
from drafter_registry.errors import ConflictError, DigestError, Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_READ_BYTES = 1024 * 1024
#: Files that an engine would read beside those of the drafter, or instead of them.
_READ_BY_ENGINES = (".safetensors", ".safetensors.index.json", ".bin", ".pt", ".pth", ".gguf")


def place(source: str, directory: str, files: Sequence[FileRecord]) -> str:
    """Copy files and manifest.

    Args:
        source: The cache's directory.
        directory: Where to; made if it is missing. Files with the right content are left as they are.
        files: Which files; their paths were checked.

    Returns:
        The directory.

    Raises:
        ConflictError: It holds other content under one of the names, or weights that are not the drafter's; lists all,
            and nothing was written.
        DigestError: A file of the cache is damaged.
        UsageError: It cannot be written.
    """
    with open(os.path.join(source, FILE_NAME), "rb") as file:
        manifest = file.read()
    own = FileRecord(path=FILE_NAME, size=len(manifest), sha256=hashlib.sha256(manifest).hexdigest())
    listed = (*files, own)
    try:
        absent = _absent(directory, listed)
        for record in absent:
            _copy(os.path.join(source, *record.path.split("/")), directory, record)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise UsageError(
            f"{directory} {'has no room left' if full else 'cannot be written'}: {error.strerror}",
            "what was copied before is whole; pull again to go on",
        ) from None
    return directory


def _absent(directory: str, files: Sequence[FileRecord]) -> list[FileRecord]:
    """The files that are not there yet; everything that stands in the way is told at once."""
    faults, absent = [], []
    for record in files:
        path = os.path.join(directory, *record.path.split("/"))
        link = _link_on_the_way(directory, record.path)
        if link:
            faults.append(Fault(link, "is a link or no directory", expected="a directory"))
        elif not os.path.lexists(path):
            absent.append(record)
        elif not _has(path, record):
            faults.append(Fault(path, "has other content", expected=f"sha256:{record.sha256[:16]}..."))
    why = "is not the drafter's, and an engine may read it"
    faults += [Fault(os.path.join(directory, name), why) for name in strangers(directory, files)]
    if faults:
        raise ConflictError(
            f"{directory} holds something else; nothing was written",
            faults=tuple(faults),
            hint="name another directory",
        )
    return absent


def strangers(directory: str, files: Sequence[FileRecord]) -> list[str]:
    """Names of weights in a directory that are not among these files, and that an engine would read."""
    paths = {record.path for record in files}
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [name for name in names if name.endswith(_READ_BY_ENGINES) and name not in paths]


def _link_on_the_way(directory: str, path: str) -> str:
    """The first part between the directory and a file that is no plain directory, or ""."""
    place = directory
    for part in ("", *path.split("/")[:-1]):
        place = os.path.join(place, part) if part else place
        if os.path.lexists(place) and (not os.path.isdir(place) or (part and os.path.islink(place))):
            return place
    return ""


def _has(path: str, record: FileRecord) -> bool:
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) != record.size:
        return False
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == record.sha256


def _copy(source: str, directory: str, record: FileRecord) -> None:
    """Copy one file under another name, verify it, and give it its own."""
    path = os.path.join(directory, *record.path.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.{os.getpid()}.part"
    hasher = hashlib.sha256()
    try:
        with open(source, "rb", buffering=0) as read, open(partial, "xb") as written:
            while data := read.read(_READ_BYTES):
                hasher.update(data)
                written.write(data)
        if hasher.hexdigest() != record.sha256:
            doubt(source)
            raise DigestError(f"{source} is damaged", hint="pull again; it is fetched anew")
        os.replace(partial, path)
    finally:
        if os.path.lexists(partial):
            os.remove(partial)
