"""Rows for people: aligned columns, as wide as the terminal."""

from __future__ import annotations

import sys

import msgspec

from drafter_cli.terminal import BOLD, Style, colours, draws_unicode, printable, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = 2
_NARROWEST = 8
#: Of whatever is no terminal: nothing is cut from what a program reads.
UNLIMITED = 1_000_000


class Column(msgspec.Struct, frozen=True):
    """One column.

    Attributes:
        title: Its heading.
        leaves: Order in which columns are left out where the terminal is too narrow, 1 first; 0 for never.
        shrinks: Whether its texts may be cut.
        right: Whether its texts stand at the right, as numbers do.
    """

    title: str
    leaves: int = 0
    shrinks: bool = False
    right: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Write a table to standard output. Columns without any text are left out."""
    lines = layout(columns, rows, width=output_width(), ellipsis="…" if draws_unicode(sys.stdout) else "~")
    style = Style(on=colours(sys.stdout))
    write("\n".join([style.paint(lines[0], BOLD), *lines[1:]]))


def output_width() -> int:
    """Columns of the terminal that standard output is; `UNLIMITED` if it is none."""
    try:
        terminal = sys.stdout is not None and sys.stdout.isatty()
    except ValueError:  # closed
        terminal = False
    if not terminal:
        return UNLIMITED
    from shutil import get_terminal_size

    return get_terminal_size().columns


def layout(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int, ellipsis: str = "~"
) -> tuple[str, ...]:
    """The lines of a table, its headings first.

    Args:
        columns: The columns.
        rows: A text per column each; signs that a terminal would obey are escaped.
        width: Most signs of one line.
        ellipsis: Stands for what was cut.

    Returns:
        Lines without trailing spaces. They are longer than `width` only where nothing more can be left out or cut.
    """
    cells = [tuple(printable(text) for text in row) for row in rows]
    kept = [at for at in range(len(columns)) if any(row[at] for row in cells)]
    widths = {at: max(len(columns[at].title), *(len(row[at]) for row in cells)) for at in kept}
    for at in sorted((at for at in kept if columns[at].leaves), key=lambda at: columns[at].leaves):
        if _total(widths) > width and _total(_shrunk(columns, widths, width)) > width:
            del widths[at]
    widths = _shrunk(columns, widths, width)
    titles = tuple(column.title for column in columns)
    return tuple(
        "".join(_cell(row[at], wide, columns[at], ellipsis) + " " * _GAP for at, wide in widths.items()).rstrip()
        for row in (titles, *cells)
    )


def _shrunk(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    """Widths with the columns that may be cut made narrower, the widest first."""
    result = dict(widths)
    over = _total(result) - width
    for at in sorted((at for at in result if columns[at].shrinks), key=lambda at: -result[at]):
        cut = max(min(over, result[at] - max(_NARROWEST, len(columns[at].title))), 0)
        result[at] -= cut
        over -= cut
    return result


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * max(len(widths) - 1, 0)


def _cell(text: str, width: int, column: Column, ellipsis: str) -> str:
    if len(text) > width:
        return text[: width - len(ellipsis)] + ellipsis
    return text.rjust(width) if column.right else text.ljust(width)
