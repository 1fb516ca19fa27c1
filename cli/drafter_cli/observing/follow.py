"""A log as it grows: a file that is rotated, truncated or not there yet, a pipe, or standard input."""

from __future__ import annotations

import os
import select
import stat
import time

from drafter_cli.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Longest line that is kept, bytes; what follows of a longer one is dropped up to its end.
LONGEST_LINE = 64 * 1024
#: Bytes read at once, and at most before whoever asks gets its turn again.
_PART, _TURN = 256 * 1024, 8 * 1024 * 1024
STANDARD_INPUT = "-"


class Follower:
    """Whole lines of a log, as they come. Nothing here waits.

    A line counts when its end is there: half a number is no number. After a rotation by rename, the rest of the old
    file is read before the new one, that from its beginning; after a truncation, the file from its beginning again.

    Args:
        path: A file, which need not be there yet, a named pipe, or "-" for standard input.
        from_start: Whether to begin with what a file holds already; else with what is added. A file that appears
            later is read from its beginning.

    Attributes:
        ended: Whether no more can come: the pipe's writer is gone, or standard input is a file and read.
        behind: Whether more is there than was read at once.
        notes: What happened since they were last taken, in words.

    Raises:
        UsageError: It can never be read: a directory, or no permission.
    """

    def __init__(self, path: str, *, from_start: bool = False) -> None:
        self.path, self.ended, self.behind = path, False, False
        self.notes: list[str] = []
        self._file, self._regular, self._offset = -1, False, 0
        self._rest, self._skipping = b"", False
        self._identity = (0, 0)
        self._open(first=True)
        if self._regular and not from_start and path != STANDARD_INPUT:
            self._offset = os.lseek(self._file, 0, os.SEEK_END)
            # From a line's middle on, its beginning is missing.
            self._skipping = self._offset > 0 and os.pread(self._file, 1, self._offset - 1) != b"\n"

    def poll(self) -> tuple[str, ...]:
        """Lines that were ended since the last call, without their ends; bytes that are no UTF-8 are replaced."""
        self.behind = False
        if self._file < 0:
            self._open()
        if self._file < 0 or self.ended:
            return ()
        try:
            return tuple(self._grown() if self._regular else self._pipe())
        except OSError as error:  # a network file system's handle that is stale, a disk's error
            self.notes.append(f"{self.path} cannot be read: {error.strerror}; it is opened again")
            self.close()
            self.ended = self.path == STANDARD_INPUT
            return ()

    def close(self) -> None:
        """Let go of the file; standard input stays open."""
        if self._file > 0:
            os.close(self._file)
        self._file = -1

    def _grown(self) -> list[str]:
        """Of a regular file, and of the one that took its place."""
        found = self._read_on()
        if not self.behind and self.path != STANDARD_INPUT and self._replaced():
            found += self._read_on()  # what came between the reading and the rename
            if not self.behind:
                self._reopen()
        elif not self.behind and self.path == STANDARD_INPUT:
            self.ended = True
        return found

    def _open(self, *, first: bool = False) -> None:
        if self.path == STANDARD_INPUT:
            self._file = 0
        else:
            try:
                self._file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                if first:
                    self.notes.append(f"{self.path} is not there yet")
                return
            except OSError as error:
                if first:
                    raise UsageError(f"{self.path} cannot be read: {error.strerror}") from None
                return  # a rotation that is not done yet: the next look sees it
        try:
            status = os.fstat(self._file)
        except OSError as error:  # closed by whoever started this
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from None
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise UsageError(f"{self.path} is a directory", "name the engine's log file")
        self._regular = stat.S_ISREG(status.st_mode)
        self._identity, self._offset = (status.st_dev, status.st_ino), 0
        if self._regular and self.path == STANDARD_INPUT:
            self._offset = os.lseek(0, 0, os.SEEK_CUR)

    def _read_on(self) -> list[str]:
        """Of a regular file."""
        if os.fstat(self._file).st_size < self._offset:
            self.notes.append(f"{self.path} was truncated: it is read from its beginning")
            self._offset, self._rest, self._skipping = 0, b"", False
        found: list[str] = []
        end = self._offset + _TURN
        while data := os.pread(self._file, _PART, self._offset):
            self._offset += len(data)
            found += self._lines(data)
            if self._offset >= end:
                self.behind = True
                break
        return found

    def _replaced(self) -> bool:
        """Whether the name leads to another file now."""
        try:
            status = os.stat(self.path)
        except OSError:  # renamed, and the new one is not there yet: the old one may still be written
            return False
        return (status.st_dev, status.st_ino) != self._identity

    def _reopen(self) -> None:
        self.close()
        self._rest, self._skipping = b"", False
        self.notes.append(f"{self.path} was rotated")
        self._open()
        self.behind = self._file >= 0

    def _pipe(self) -> list[str]:
        """What a pipe holds, without waiting for more, and without changing how others read it."""
        asked = select.poll()
        asked.register(self._file, select.POLLIN)
        found: list[str] = []
        size = 0
        while events := asked.poll(0):
            if not events[0][1] & select.POLLIN:  # nothing in it, and nobody who writes
                self.ended = True
                break
            data = os.read(self._file, _PART)
            if not data:  # a terminal, a socket or a device at its end
                self.ended = True
                break
            found += self._lines(data)
            size += len(data)
            if size >= _TURN:
                self.behind = True
                break
        return found

    def _lines(self, data: bytes) -> list[str]:
        *whole, rest = (self._rest + data).split(b"\n")
        found = []
        for line in whole:
            if not self._skipping:
                found.append(line[:LONGEST_LINE].rstrip(b"\r").decode(errors="replace"))
            self._skipping = False
        if len(rest) > LONGEST_LINE and not self._skipping:
            found.append(rest[:LONGEST_LINE].decode(errors="replace"))
            self._skipping = True
        self._rest = b"" if self._skipping else rest
        return found


def follow(
    path: str,
    *,
    from_start: bool = False,
    interval: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """The lines of a log, without end but for a pipe's.

    Args:
        path: See `Follower`.
        from_start: See `Follower`.
        interval: Seconds between looks where nothing came.
        sleep: Waits that long.

    Raises:
        UsageError: It can never be read.
    """
    follower = Follower(path, from_start=from_start)
    try:
        while True:
            lines = follower.poll()
            yield from lines
            if follower.ended:
                return
            if not lines and not follower.behind:
                sleep(interval)
    finally:
        follower.close()
