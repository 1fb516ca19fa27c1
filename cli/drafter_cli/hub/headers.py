"""The header of a weight file on the Hub, without its weights."""

from __future__ import annotations

from drafter_cli.hub import client as hub_client
from drafter_contracts import limits
from drafter_contracts.checkpoint.header import LENGTH_BYTES, header_length, parse_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.hub.client import HubFile
    from drafter_cli.hub.source import HubListing

#: What is asked for first: most headers are far smaller, and are there with one request.
_FIRST_BYTES = 64 * 1024


def read_head(listing: HubListing, file: HubFile) -> bytes:
    """A weight file's first bytes up to the end of its header, checked against the size that the Hub states.

    Raises:
        CheckpointError: No safetensors file, a header over `limits.header_max_bytes`, or one that does not fit the
            file's size.
        UsageError: No such file, or no access.
        UnreachableError: The Hub does not answer.
    """
    first = _read(listing, file, 0, min(_FIRST_BYTES, file.size, LENGTH_BYTES + limits.header_max_bytes))
    end = LENGTH_BYTES + header_length(first[:LENGTH_BYTES], file.size, file.path)
    head = first[:end]
    if len(head) < end:
        head += _read(listing, file, len(head), end - len(head))
    parse_header(head, file.size, file.path)
    return head


def _read(listing: HubListing, file: HubFile, start: int, count: int) -> bytes:
    if listing.snapshot:
        with open(f"{listing.snapshot}/{file.path}", "rb") as opened:
            opened.seek(start)
            return opened.read(count)
    return hub_client.read_range(listing.repository, listing.commit, file.path, start, count)
