"""Conditional requests and ranges (RFC 9110, sections 8.8, 13 and 14)."""

from __future__ import annotations

import re

import msgspec

from drafter_registry.errors import InvalidError, RangeError

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*(?:,|$)')
_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*")
_CONTENT_RANGE = re.compile(r"(?:bytes\s+)?([0-9]{1,18})-([0-9]{1,18})(?:/(?:[0-9]{1,18}|\*))?")


class Span(msgspec.Struct, frozen=True):
    """Bytes of a file: from `start` to `end`, exclusive."""

    start: int
    end: int


def tags(header: str) -> list[tuple[bool, str]]:
    """Entity tags of a header in order, each with whether it is weak; what cannot be read ends the list."""
    found: list[tuple[bool, str]] = []
    position = 0
    while match := _TAG.match(header, position):
        found.append((match[1] is not None, match[2]))
        position = match.end()
        if position >= len(header):
            break
    return found


def not_modified(header: str, tag: str) -> bool:
    """Whether If-None-Match names `tag`, by the weak comparison that it asks for."""
    return header.strip() == "*" or any(value == tag for _, value in tags(header))


def single_range(header: str, size: int) -> Span | None:
    """The one range that a Range header asks for, cut to the file; None if the whole file is to be sent.

    Several ranges at once, other units and what cannot be read are answered with the whole file, as RFC 9110 allows.

    Raises:
        RangeError: It lies outside the file.
    """
    match = _RANGE.fullmatch(header)
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        if length == 0:
            raise RangeError(f"the last {match[2]} bytes of {size} are none")
        return Span(size - length, size)
    start = int(match[1])
    if match[2] and int(match[2]) < start:
        return None
    if start >= size:
        raise RangeError(f"the file has {size} bytes, the range begins at {start}")
    return Span(start, min(int(match[2]) + 1, size) if match[2] else size)


def range_holds(header: str, tag: str) -> bool:
    """Whether If-Range lets a range be sent: absent, or exactly this strong tag (a date never is)."""
    return not header or tags(header) == [(False, tag)]


def upload_range(header: str) -> Span | None:
    """Where a chunk of an upload belongs, from its Content-Range ("0-1023", also "bytes 0-1023/*"); None if absent.

    Raises:
        InvalidError: It cannot be read.
    """
    if not header:
        return None
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None or int(match[2]) < int(match[1]):
        raise InvalidError(f"Content-Range is {header[:80]!r}", hint="write START-END, both inclusive: 0-1048575")
    return Span(int(match[1]), int(match[2]) + 1)


def expected_revision(if_match: str, if_none_match: str) -> int | None:
    """The revision that an alias must have: 0 for "it must not exist", None where nothing is asked.

    Raises:
        InvalidError: Neither a revision nor `*`, or both headers at once.
    """
    if if_match and if_none_match:
        raise InvalidError("If-Match and If-None-Match contradict each other", hint="send one of them")
    if if_none_match:
        if if_none_match.strip() != "*":
            raise InvalidError("If-None-Match of a move can only be *", hint="it means: there is no such alias yet")
        return 0
    if not if_match:
        return None
    found = tags(if_match)
    if len(found) != 1 or found[0][0] or not re.fullmatch(r"[0-9]{1,9}", found[0][1]) or found[0][1] == "0":
        raise InvalidError(f"If-Match is {if_match[:80]!r}", hint='write the ETag of the alias, a revision: "3"')
    return int(found[0][1])
