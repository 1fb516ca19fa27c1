"""Where the next page of a list begins: the key of the last row given, as a text that callers hand back unread."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from drafter_registry import limits
from drafter_registry.errors import InvalidError
from drafter_registry.names import shown

_FIRST = "start without a cursor; pass on the `next` of the page before, unchanged"
_LARGEST = 2**63 - 1


def encode(kind: str, row: int) -> str:
    """The cursor after that row of that list."""
    return urlsafe_b64encode(f"{kind}:{row}".encode()).decode().rstrip("=")


def decode(kind: str, cursor: str) -> int | None:
    """The row after which the page begins; None for the first page ("").

    Raises:
        InvalidError: No cursor of that list.
    """
    if not cursor:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, UnicodeError):
        text = ""
    number = text.partition(":")[2]
    if not number.isdigit() or int(number) > _LARGEST or encode(kind, int(number)) != cursor:
        raise InvalidError(f"{shown(cursor)} is no cursor of this list", hint=_FIRST)
    return int(number)


def check_limit(limit: int) -> int:
    """How many items a page is to have, if that many are given.

    Raises:
        InvalidError: Fewer than one, or too many.
    """
    if not 1 <= limit <= limits.page_max_items:
        raise InvalidError(f"a page has 1 to {limits.page_max_items} items, not {limit}", hint="follow `next` for more")
    return limit
