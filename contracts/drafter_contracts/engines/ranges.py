"""Releases with the same behaviour, as ranges of the releases whose profiles are shipped."""

from __future__ import annotations

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Span(msgspec.Struct, frozen=True):
    """Releases that follow each other among those known.

    Attributes:
        first: The oldest of them.
        last: The newest of them.
        following: The next release known, "" if there is none.
        oldest: No earlier release is known.
    """

    first: str
    last: str
    following: str = ""
    oldest: bool = False

    def text(self) -> str:
        """The range as text: "0.5.11 to 0.5.12.post1", "from 0.5.13 on", or one release."""
        if not self.following and self.first != self.last:
            return f"from {self.first} on"
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    def phrase(self) -> str:
        """The same inside a sentence: "in 0.5.11 to 0.5.12.post1", "from 0.5.13 on"."""
        text = self.text()
        return text if text.startswith("from ") else f"in {text}"


def spans(known: Sequence[str], members: Iterable[str]) -> tuple[Span, ...]:
    """The ranges that some of the known releases form.

    Args:
        known: Every release that is known, oldest first.
        members: Those to be named.
    """
    wanted = set(members)
    result: list[Span] = []
    start = ""
    for position, release in enumerate(known):
        if release not in wanted:
            continue
        start = start or release
        following = known[position + 1] if position + 1 < len(known) else ""
        if following not in wanted:
            result.append(Span(start, release, following, start == known[0]))
            start = ""
    return tuple(result)


def span_text(known: Sequence[str], members: Iterable[str]) -> str:
    """All ranges on one line: "0.5.2 to 0.5.4, from 0.5.9 on"."""
    return ", ".join(span.text() for span in spans(known, members))
