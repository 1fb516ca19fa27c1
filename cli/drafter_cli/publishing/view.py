"""What `drafters publish` shows before it publishes: what was read and where, what is taken on word, which files."""

from __future__ import annotations

import sys

from drafter_cli.table import UNLIMITED, Column, layout
from drafter_cli.terminal import BOLD, DIM, RED, YELLOW, Style, colours, draws_unicode, printable, write
from drafter_cli.words import plural, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drafter_contracts.manifest import FileRecord
    from drafter_contracts.recording.build import Recorded
    from drafter_contracts.recording.claims import Claim

_FACTS = (Column("fact"), Column("value", shrinks=True), Column("from", shrinks=True))
_FILES = (Column("file", shrinks=True), Column("size", right=True), Column("sha256", leaves=1))
_LEFT_OUT = (Column("not published", shrinks=True), Column("because"))
_SHOWN_DIGITS = 16


class View:
    """Prints to standard error."""

    def __init__(self) -> None:
        self._style = Style(on=colours(sys.stderr))
        self._width = _width()

    def facts(self, name: str, recorded: Recorded) -> None:
        """The manifest, fact by fact."""
        write(self._style.paint(printable(name), BOLD), to_stderr=True)
        for heading, lines in (
            ("read", recorded.read),
            ("told by values", recorded.told_by_values),
            ("taken on word", recorded.taken_on_word),
        ):
            if lines:
                self._table(f"{heading}:", _FACTS, [(line.fact, line.value, line.source) for line in lines])

    def files(self, files: Sequence[FileRecord], left_out: Sequence[tuple[str, str]], code: Sequence[str]) -> None:
        """What is published, and what is not."""
        total = f"{plural(len(files), 'file')}, {size(sum(file.size for file in files))}:"
        self._table(total, _FILES, [(file.path, size(file.size), file.sha256[:_SHOWN_DIGITS]) for file in files])
        if left_out:
            self._table("left out:", _LEFT_OUT, left_out)
        if code:
            self.note(f"{', '.join(code)}: code, which an engine runs only with --trust-remote-code")

    def note(self, text: str) -> None:
        """Something worth knowing."""
        write(f"{self._style.paint('note:', YELLOW)} {printable(text)}", to_stderr=True)

    def obstacles(self, claims: Sequence[Claim], is_open: Callable[[Claim], bool]) -> None:
        """Why nothing is published, and what settles each that is open or would be right."""
        heading = f"not published: {plural(len(claims), 'obstacle')}"
        write(f"\n{self._style.paint(heading, RED)}", to_stderr=True)
        for claim in claims:
            write(f"  {printable(claim.pointer or '/')}: {printable(claim.message)}", to_stderr=True)
            if claim.source and claim.source not in claim.message:
                write(f"    read from {printable(claim.source)}", to_stderr=True)
            if claim.expected:
                label = "settled by" if is_open(claim) else "expected"
                write(f"    {label}: {printable(claim.expected)}", to_stderr=True)

    def _table(self, heading: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        ellipsis = "…" if draws_unicode(sys.stderr) else "~"
        titles, *lines = layout(columns, rows, width=self._width - 2, ellipsis=ellipsis)
        write(heading, to_stderr=True)
        write("  " + self._style.paint(titles, DIM), to_stderr=True)
        for line in lines:
            write("  " + line, to_stderr=True)


def _width() -> int:
    try:
        terminal = sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        terminal = False
    if not terminal:
        return UNLIMITED
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 60)
