"""How far something is, with rate and time left: a line that is drawn again on a terminal, rare lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque

from drafter_cli.terminal import write
from drafter_cli.words import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_BAR = 24
_DRAW_SECONDS = 0.1
#: Seconds between two lines where standard error is no terminal.
_LINE_SECONDS = 10.0
#: The rate is that of the last so many seconds.
_WINDOW_SECONDS = 8.0


class Progress:
    """Progress of a number of bytes; `tell` may be called by several threads.

    Args:
        what: What is done, e.g. "sending".
        total: Bytes.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._terminal = _is_terminal()
        self._last = time.monotonic()
        self._samples = deque([(self._last, 0)])
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn and sys.stderr is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def tell(self, count: int) -> None:
        """So many bytes more are done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._last < (_DRAW_SECONDS if self._terminal else _LINE_SECONDS):
                return
            self._last = now
            self._samples.append((now, self._done))
            while now - self._samples[0][0] > _WINDOW_SECONDS and len(self._samples) > 2:
                self._samples.popleft()
            self._show(now)

    def _show(self, now: float) -> None:
        began, before = self._samples[0]
        rate = (self._done - before) / max(now - began, 1e-6)
        line = text(self._what, self._done, self._total, rate, bar=self._terminal)
        if not self._terminal:
            write(line, to_stderr=True)
        elif sys.stderr is not None:
            try:
                sys.stderr.write("\r\x1b[K" + line)
                sys.stderr.flush()
                self._drawn = True
            except (OSError, ValueError):  # whoever watched is gone
                self._terminal = False


def text(what: str, done: int, total: int, rate: float, *, bar: bool) -> str:
    """One line: "sending  [=====     ] 52 %  1.2 GB of 2.3 GB  110 MB/s  10 s left"."""
    part = min(done / total, 1.0) if total else 1.0
    drawn = f"[{'=' * int(part * _BAR):<{_BAR}}] " if bar else ""
    left = f"  {_duration((total - done) / rate)} left" if rate > 0 and done < total else ""
    return f"{what}  {drawn}{int(part * 100)} %  {size(done)} of {size(total)}  {size(int(rate))}/s{left}"


def _duration(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _is_terminal() -> bool:
    import os

    try:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False
