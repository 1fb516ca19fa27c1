"""Lines of "label  value" under headings, wrapped to the terminal."""

from __future__ import annotations

from drafter_cli.terminal import BOLD, Style, printable, wrap

_LABEL = 14
_NARROWEST = 40
_WIDEST = 110


class Sheet:
    """Facts of one thing for a person.

    Args:
        style: Colours.
        width: Columns of the terminal.
    """

    def __init__(self, style: Style, width: int) -> None:
        self.style = style
        self.width = min(max(width, _NARROWEST), _WIDEST)
        self.lines: list[str] = []

    def title(self, name: str, rest: str = "", *codes: str) -> None:
        """The thing's name, and a word about it."""
        self.lines.append(
            f"{self.style.paint(printable(name), BOLD)}  {self.style.paint(printable(rest), *codes)}".rstrip()
        )

    def section(self, name: str) -> None:
        """A heading."""
        self.lines += ["", self.style.paint(name, BOLD)]

    def field(self, label: str, value: object, *codes: str) -> None:
        """One fact; nothing if it is not known."""
        if value is None or value == "":
            return
        indent = " " * (_LABEL + 2)
        first, *rest = wrap(printable(str(value)), indent=indent, width=self.width).split("\n")
        self.lines.append(f"  {label:<{_LABEL}}" + self.style.paint(first[len(indent) :], *codes))
        self.lines += [indent + self.style.paint(line[len(indent) :], *codes) for line in rest]

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)
