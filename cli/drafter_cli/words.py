"""Sizes, moments and durations as people write them."""

from __future__ import annotations

import re

from drafter_cli.errors import UsageError

_UNITS = ("B", "kB", "MB", "GB", "TB")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")


def size(count: int) -> str:
    """Bytes in powers of 1000: "1.4 GB"."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{count} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def moment(text: str) -> str:
    """A document's time for a table: "2026-11-30 20:18 UTC"."""
    return f"{text[:10]} {text[11:16]} UTC" if len(text) > 16 else text


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 version", "3 versions"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def seconds(option: str, text: str) -> int:
    """A duration ("90s", "30m", "24h", "7d", "2w"; "0") in seconds.

    Raises:
        UsageError: It is none.
    """
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text)
    if match is None or not text.isascii():
        raise UsageError(f"{option} is {text!r}", "write a number and s, m, h, d or w, for example 24h")
    return int(match[1]) * _SECONDS[match[2]]


def number(option: str, text: str, *, least: int = 1) -> int:
    """A whole number.

    Raises:
        UsageError: It is none, or too small.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or int(text) < least:
        raise UsageError(f"{option} is {text!r}", f"write a whole number, at least {least}")
    return int(text)
