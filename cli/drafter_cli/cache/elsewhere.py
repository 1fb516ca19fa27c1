"""Files of a version that the registry does not keep: fetched from where its manifest says, verified like others."""

from __future__ import annotations

import hashlib
import re

from drafter_cli.errors import UsageError
from drafter_contracts import limits
from drafter_registry.errors import DigestError, Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from drafter_contracts.manifest import FileRecord

_HUB = re.compile(r"hf://((?:[A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+)@([0-9a-f]{40})/([!-~]+)")
_READ_BYTES = 1024 * 1024
_LENGTH_BYTES = 8


def stream(elsewhere: str, start: int) -> Iterator[bytes]:
    """Bytes of a file that is elsewhere, from `start`.

    Args:
        elsewhere: "hf://ORG/REPO@COMMIT/PATH".
        start: Where to begin.

    Raises:
        UsageError: A place that is not known, or the Hub's library is not installed.
        UnreachableError: The Hub does not have it, or cannot be reached.
    """
    match = _HUB.fullmatch(elsewhere)
    if match is None or ".." in match[3].split("/"):
        raise UsageError(f"{elsewhere!r} is no place that files are fetched from", "known is hf://ORG/REPO@COMMIT/PATH")
    from drafter_cli.hub.client import download

    with open(download(match[1], match[2], match[3]), "rb", buffering=0) as file:
        file.seek(start)
        while data := file.read(_READ_BYTES):
            yield data


def check_headers(files: Iterable[FileRecord], path_of: Callable[[str], str]) -> None:
    """Whether fetched files begin with the headers that the registry keeps, and judges them by.

    Nobody can tell that from the two digests alone: only who has the whole file sees that they belong together.

    Args:
        files: Files of a manifest, fetched and verified.
        path_of: Where the file of a sha256 lies.

    Raises:
        DigestError: Some do not; lists all.
    """
    faults = []
    for record in files:
        if not record.header_sha256:
            continue
        with open(path_of(record.sha256), "rb", buffering=0) as file:
            prefix = file.read(_LENGTH_BYTES)
            length = min(int.from_bytes(prefix, "little"), limits.header_max_bytes)
            own = hashlib.sha256(prefix + file.read(length)).hexdigest()
        if own != record.header_sha256:
            faults.append(Fault(record.path, "begins with another header", record.header_sha256, own))
    if faults:
        raise DigestError(
            "the registry judged this drafter by headers that its files do not have: "
            + ", ".join(fault.pointer for fault in faults),
            faults=tuple(faults),
            hint="do not use it; what was published is not what lies elsewhere",
        )
