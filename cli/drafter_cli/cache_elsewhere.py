"""Files of a version that the registry does not keep: fetched from where its manifest says, verified like others."""

from __future__ import annotations

import re

from drafter_cli.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HUB = re.compile(r"hf://((?:[A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+)@([0-9a-f]{40})/([!-~]+)")
_READ_BYTES = 1024 * 1024


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
    from drafter_cli.hub_client import download

    with open(download(match[1], match[2], match[3]), "rb", buffering=0) as file:
        file.seek(start)
        while data := file.read(_READ_BYTES):
            yield data
