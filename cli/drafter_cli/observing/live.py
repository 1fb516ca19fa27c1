"""What is said while an observation runs: a line on standard error, and lines of JSON in a file."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.observing.report import counted, figures, short, word
from drafter_cli.observing.watch import RankSeen, Seen, Window
from drafter_cli.terminal import printable, write
from drafter_contracts.acceptance.records import Conditions, Judgement, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from drafter_cli.observing.posting import Poster
    from drafter_cli.observing.session import Clock

#: Notes that are kept for the report: an engine that comes and goes for a week makes no larger document.
_NOTES = 200


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of the file: what was seen until then.

    Attributes:
        time: When, ISO 8601, UTC.
        new: Readings since the line before.
        judgement: The verdict so far.
        ranks: Each data-parallel rank.
    """

    time: str
    new: int
    judgement: Judgement
    ranks: tuple[RankSeen, ...] = ()


class Live:
    """Tells, and reports to a registry on the way.

    Args:
        clock: Time.
        path: File to which lines of JSON are added, or "".

    Attributes:
        notes: What happened, one sentence each, with its time.
        poster: Reports to a registry; None where none are asked for.

    Raises:
        UsageError: The file cannot be written.
    """

    def __init__(self, clock: Clock, path: str = "") -> None:
        self.notes: list[str] = []
        self.poster: Poster | None = None
        self._clock, self._path = clock, path
        self._terminal = _is_terminal()
        self._open = False
        self._file = _appended(path) if path else None

    def note(self, text: str) -> None:
        """See `Told`."""
        told = f"{iso(self._clock.wall())[11:19]} {text}"
        if len(self.notes) < _NOTES:
            self.notes.append(told)
        self.say(told)

    def say(self, text: str) -> None:
        """Something that the report says anyway."""
        self._end_line()
        write(printable(text), to_stderr=True)

    def window(self, window: Window) -> None:
        """See `Told`."""
        found = window.judgement
        self.note(f"from {iso(window.begun)} to {iso(window.ended)}: {figures(found)}, {counted(found)}, {word(found)}")

    def look(self, seen: Seen, readings: Sequence[Reading], conditions: Conditions, wall: float) -> None:
        """See `Told`."""
        self._show(printable(short(seen, iso(wall)[11:19])))
        self._keep(Line(time=iso(wall), new=len(readings), judgement=seen.judgement, ranks=seen.ranks))
        if self.poster is not None:
            self.poster.add(readings, conditions, wall)
            self.poster.send(self._clock.now(), wall)

    def close(self) -> None:
        """The last line stays."""
        self._end_line()
        if self._file is not None:
            self._file.close()

    def _show(self, text: str) -> None:
        if not self._terminal or sys.stderr is None:
            write(text, to_stderr=True)
            return
        from shutil import get_terminal_size

        try:
            sys.stderr.write("\r\x1b[K" + text[: get_terminal_size().columns - 1])
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more
            self._terminal = False
        self._open = self._terminal

    def _end_line(self) -> None:
        if self._open:
            write("", to_stderr=True)
        self._open = False

    def _keep(self, line: Line) -> None:
        if self._file is None:
            return
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            self._file.close()
            self._file = None
            self.note(f"{self._path} cannot be written: {error.strerror}; nothing more goes there")


def iso(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC: "2026-11-30T20:18:04Z"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def _appended(path: str) -> BinaryIO:
    try:
        return open(path, "ab", buffering=0)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
