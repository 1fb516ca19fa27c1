"""What a command prints and in which colours: data to stdout, everything said about it to stderr."""

from __future__ import annotations

import os
import sys

from drafter_cli.errors import OutputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

RED, GREEN, YELLOW, BLUE, BOLD, DIM = "31", "32", "33", "34", "1", "2"


def colours(stream: TextIO | None) -> bool:
    """Whether to colour what goes to this stream: a terminal that can, and nobody asked not to (NO_COLOR)."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    try:
        return stream.isatty()
    except ValueError:  # the stream is closed
        return False


def draws_unicode(stream: TextIO | None) -> bool:
    """Whether box and arrow signs can be written to this stream."""
    try:
        "●◌┼│─▶▼".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Style:
    """Paints text, or leaves it as it is.

    Args:
        on: Whether to use colours.
    """

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def paint(self, text: str, *codes: str) -> str:
        """The text in the given colours."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.on and codes else text


def write(text: str, *, to_stderr: bool = False) -> None:
    """Write text and a line end.

    A reader that has gone away (`| head`) is no error, nor a standard error that cannot be written (a full disk below a
    log): the exit code still tells, and `guard` still starts what it may start.

    Raises:
        OutputError: Standard output cannot be written.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if stream is None:  # closed by whoever started this
        return
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        if to_stderr:
            sys.stderr = None  # the descriptor stays as it is: it may yet be a launch's
        else:
            _let_go(stream)
            if not isinstance(error, BrokenPipeError):
                raise OutputError(f"standard output cannot be written: {error.strerror}") from error
    except UnicodeEncodeError:  # a terminal of another encoding: say it in ASCII rather than not at all
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


def _let_go(stream: TextIO) -> None:
    """Point a broken stream at nothing, so that the interpreter's own flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_json(value: object, *, to_stderr: bool = False) -> None:
    """Write a value as one indented JSON document."""
    import msgspec.json

    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # a path that is not UTF-8: its bytes as Python keeps them, escaped
        from json import dumps

        text = dumps(msgspec.to_builtins(value), indent=2)
    write(text, to_stderr=to_stderr)


def printable(text: str) -> str:
    """Text that somebody else made, in one line and without the signs that a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def wrap(text: str, *, indent: str, width: int = 110) -> str:
    """Text broken at spaces into lines of at most `width`, after `indent` and its own. A long word stays whole."""
    lines = []
    for paragraph in text.split("\n"):
        words = paragraph.lstrip(" ")
        line, deeper = "", indent + " " * (len(paragraph) - len(words))
        for word in words.split(" "):
            if line and len(deeper) + len(line) + 1 + len(word) > width:
                lines.append(deeper + line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(deeper + line)
    return "\n".join(lines)
