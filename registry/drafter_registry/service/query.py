"""What a list of versions can be asked: the parameters' names and values, read strictly."""

from __future__ import annotations

import re
from difflib import get_close_matches

import msgspec

from drafter_registry import limits
from drafter_registry.documents import DELETED, LIVE, YANKED
from drafter_registry.errors import Fault, InvalidError
from drafter_registry.names import check_alias, check_digest, check_name, shown
from drafter_registry.service import cursor as cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CURSOR = "versions"
STATES = (LIVE, YANKED, DELETED, "all")
_PATTERN = re.compile(r"[a-z0-9._*-]+")
_MAX_LENGTH = 255
_MAX_BOUNDARIES = 32


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked; "" or () for everything.

    Attributes:
        name: A drafter, or a pattern with "*".
        target: The target's name, or a pattern with "*".
        architecture: The target's class.
        method: In capitals.
        alias: One that points to the version now.
        boundaries: The layout has all of these.
        fingerprint: Of the contract.
        state: One of `STATES`.
        before: Row after which the page begins.
        limit: Items of the page.
    """

    name: str = ""
    target: str = ""
    architecture: str = ""
    method: str = ""
    alias: str = ""
    boundaries: tuple[int, ...] = ()
    fingerprint: str = ""
    state: str = LIVE
    before: int | None = None
    limit: int = limits.page_items

    @property
    def name_is_pattern(self) -> bool:
        """Whether the name is a pattern."""
        return "*" in self.name

    @property
    def target_is_pattern(self) -> bool:
        """Whether the target is a pattern."""
        return "*" in self.target


def read_query(parameters: dict[str, str]) -> Query:
    """The parameters of GET /v1/drafters; an empty value is as good as none.

    `name` and `target` (the model's name as published): exact, or with "*" for anything, then case is ignored.
    `architecture`; `method` (in any case); `alias`; `boundary` ("3,31": has all of them); `fingerprint`; `state`
    ("live" unless given, "yanked", "deleted", "all"); `cursor`; `limit`.

    Raises:
        InvalidError: Parameters that are none (with the nearest that is), or values that cannot be; lists all of them.
    """
    values: dict[str, object] = {}
    faults: list[Fault] = []
    for key, text in parameters.items():
        if key not in _READERS:
            close = get_close_matches(key, _READERS, 1, 0.5)
            message = f"{shown(key)} is no parameter of a list" + (f"; did you mean {close[0]!r}?" if close else "")
            faults.append(Fault(key, message, expected=", ".join(_READERS), actual=shown(key)))
        elif text:
            field, reader = _READERS[key]
            try:
                values[field] = reader(text)
            except InvalidError as error:
                faults.append(Fault(key, f"{key}: {error.message}", expected=error.hint, actual=shown(text)))
    if faults:
        message = "; ".join(fault.message for fault in faults)
        raise InvalidError(message, hint=faults[0].expected, faults=tuple(faults))
    return msgspec.convert(values, Query)


def _name(text: str) -> str:
    if "*" not in text:
        return check_name(text)
    if len(text) > limits.name_max_length or not _PATTERN.fullmatch(text):
        raise InvalidError(f"{shown(text)} is no pattern of names", hint='small letters, digits, . _ - and "*"')
    return text


def _text(text: str) -> str:
    if len(text) > _MAX_LENGTH or not text.isprintable():
        raise InvalidError(f"{shown(text)} cannot be one", hint=f"at most {_MAX_LENGTH} printable characters")
    return text


def _boundaries(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > _MAX_BOUNDARIES or not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        raise InvalidError(f"{shown(text)} are no boundaries", hint="whole numbers with commas between them: 3,31,59")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _state(text: str) -> str:
    if text not in STATES:
        raise InvalidError(f"{shown(text)} is no state", hint=f"one of {', '.join(STATES)}")
    return text


def _limit(text: str) -> int:
    return cursors.check_limit(int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0)


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "name": ("name", _name),
    "target": ("target", _text),
    "architecture": ("architecture", _text),
    "method": ("method", lambda text: _text(text).upper()),
    "alias": ("alias", check_alias),
    "boundary": ("boundaries", _boundaries),
    "fingerprint": ("fingerprint", check_digest),
    "state": ("state", _state),
    "cursor": ("before", lambda text: cursors.decode(CURSOR, text)),
    "limit": ("limit", _limit),
}
