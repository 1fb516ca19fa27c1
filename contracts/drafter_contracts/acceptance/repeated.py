"""Log lines that are there more than once: one report of an engine, however often a collector wrote it, is one report.

Loggers with two handlers write every line twice, and collectors that connect again begin with what they sent before.
"""

from __future__ import annotations

import re
from collections import OrderedDict

#: Dated reports that are remembered: a day of one every second.
_REMEMBERED = 86_400
_MESSAGE = re.compile(r"Decode batch|SpecDecoding metrics")
_CLOCK = re.compile(r"(?:\d{2,4}-)?\d\d-\d\d \d\d:\d\d:\d\d")


class Repeats:
    """Remembers reports. Two that agree in the engine's own time and in every figure are the same one."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, None] = OrderedDict()

    def forget(self) -> None:
        """Begin anew: what an engine that was started again reports is its own."""
        self._seen.clear()

    def again(self, line: str) -> bool:
        """Whether a line is a report that was there before; one without a time of the engine never is.

        Args:
            line: A line that `read_line` reads.
        """
        own = _own_words(line)
        if own is None:
            return False
        key = hash(own)
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False


def _own_words(line: str) -> str | None:
    """From the engine's own time to the end of its message, without what a collector wrote around it."""
    message = _MESSAGE.search(line)
    if message is None:
        return None
    start = max((clock.start() for clock in _CLOCK.finditer(line, 0, message.start())), default=None)
    return None if start is None else line[start:].rstrip().partition('"')[0].removesuffix("\\n")
