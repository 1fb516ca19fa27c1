"""One JSON line per request and per thing that went wrong, to standard error; never a header, a query or a token."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: A token wherever somebody put it: in a path, a name, an error's text.
_TOKEN = re.compile(r"drt_[\w%.~+=-]*", re.IGNORECASE)
REDACTED = "drt_[redacted]"


def redact(text: str) -> str:
    """The text without anything that begins like a token."""
    return _TOKEN.sub(REDACTED, text) if "drt_" in text.lower() else text


class Log:
    """Writes lines.

    Args:
        write: Takes one line with its end; standard error if it is not given.
    """

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or _to_stderr

    def line(self, level: str, event: str, **fields: object) -> None:
        """Write one line.

        Args:
            level: "info", "warning" or "error".
            event: What happened, one word or sentence.
            **fields: More of it; values that JSON can hold.
        """
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            **fields,
        }
        self._write(redact(msgspec.json.encode(record).decode()) + "\n")

    def failure(self, event: str, error: BaseException, **fields: object) -> None:
        """Write an exception with its traceback, which holds source lines but no values of variables."""
        text = "".join(traceback.format_exception(error))
        self.line("error", event, error=type(error).__name__, traceback=text, **fields)


class LogHandler(logging.Handler):
    """Brings what libraries log into the same form."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            fields["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        self.log.line(record.levelname.lower(), record.getMessage(), **fields)


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # whoever read it is gone; the service goes on
        return
