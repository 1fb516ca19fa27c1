"""Pages of a list: one of them, or one after another."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from drafter_cli.commandline import Option, Parsed
from drafter_cli.errors import UsageError
from drafter_cli.terminal import write
from drafter_cli.words import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Options of every command that lists.
PAGING = (
    Option("--limit", "entries of one page", "N"),
    Option("--cursor", "the page that an earlier answer named as its next", "CURSOR"),
    Option("--all", "all pages, from this one on"),
)


class Paging(msgspec.Struct, frozen=True):
    """Which pages are asked for.

    Attributes:
        limit: Entries of one page, 0 for as many as the registry gives.
        cursor: First page, "" for the beginning.
        everything: Whether all that follow are too.
    """

    limit: int = 0
    cursor: str = ""
    everything: bool = False

    @classmethod
    def of(cls, parsed: Parsed) -> Paging:
        """From a command line.

        Raises:
            UsageError: A limit that is none.
        """
        from drafter_registry import limits

        limit = number("--limit", parsed.value("--limit")) if parsed.has("--limit") else 0
        if limit > limits.page_max_items:
            raise UsageError(f"--limit is {limit}", f"at most {limits.page_max_items}; --all gives everything")
        if parsed.has("--all") and not limit:
            limit = limits.page_max_items
        return cls(limit, parsed.value("--cursor"), parsed.has("--all"))

    def query(self, cursor: str) -> dict[str, str]:
        """As query parameters."""
        found = {"cursor": cursor, "limit": str(self.limit) if self.limit else ""}
        return {name: value for name, value in found.items() if value}

    def collect(self, page: Callable[[str], tuple[tuple[T, ...], str]]) -> tuple[tuple[T, ...], str]:
        """The entries, and the cursor of what follows ("" if nothing does).

        Args:
            page: Gives one page and the cursor of the next.

        Raises:
            RegistryError: What `page` raises; or the registry's cursors go round in a circle.
        """
        items, cursor = page(self.cursor)
        seen = {self.cursor}
        while cursor and self.everything:
            if cursor in seen:
                from drafter_registry.errors import InternalError

                raise InternalError("the registry gave the same page twice", hint="report it; drafters --version")
            seen.add(cursor)
            more, cursor = page(cursor)
            items += more
        return items, cursor

    def tell(self, cursor: str) -> None:
        """Say on standard error that there is more."""
        if cursor:
            write(f"there is more: --all, or --cursor {cursor}", to_stderr=True)
