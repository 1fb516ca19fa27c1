"""Request bodies: read up to a limit, decoded into request structs, with every fault told and its JSON pointer."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from drafter_registry.errors import Fault, InvalidError, TooLargeError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

T = TypeVar("T")

JSON_TYPE = "application/json"
#: An escaped NUL: no database text, path or argument holds one.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def media_type(header: str) -> str:
    """A Content-Type without its parameters."""
    return header.partition(";")[0].strip().lower()


def check_content(request: Request, spoken: tuple[str, ...], *, optional: bool = False) -> None:
    """Refuse a body of another type, or a compressed one.

    Args:
        request: The request.
        spoken: Media types that are understood.
        optional: Whether a missing Content-Type is taken for the first of them.

    Raises:
        UnsupportedError: Names what is spoken.
    """
    given = media_type(request.headers.get("content-type", ""))
    if given not in spoken and not (optional and not given):
        shown = given[:80] or "nothing"
        raise UnsupportedError(f"Content-Type is {shown!r}", hint="this route takes " + " or ".join(spoken))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedError(f"Content-Encoding is {encoding[:80]!r}", hint="send the body as it is")


def content_length(request: Request) -> int | None:
    """The announced length of the body, bytes; None for one that is sent in chunks."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


async def read(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        TooLargeError: It is longer than `limit` bytes, announced or in fact.
    """
    announced = content_length(request)
    if announced is not None and announced > limit:
        raise _too_large(limit)
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > limit:
                raise _too_large(limit)
    except ClientDisconnect:
        raise InvalidError("the connection ended within the body") from None
    return bytes(data)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError("the body is too large", hint=f"at most {limit} bytes")


def decode(data: bytes, kind: type[T]) -> T:
    """A body as a request struct.

    Raises:
        InvalidError: Not JSON, or not such a document; `faults` names every field that is wrong.
    """
    if _NUL.search(data):
        raise InvalidError("the body has a text with a NUL character", hint="leave it out")
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            faults = tuple(_faults(msgspec.json.decode(data), kind, "")) or (_one(str(error), ""),)
            raise InvalidError("the body is not what this route takes", faults=faults) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError("the body is not JSON", hint=str(error)) from None
    except RecursionError:
        raise InvalidError("the body is nested too deeply", hint="no document here needs it") from None


def _faults(value: Any, kind: Any, pointer: str) -> Iterator[Fault]:
    """What is wrong, field by field: msgspec itself stops at the first fault."""
    items = _item(kind)
    if items is not None and isinstance(value, list):
        for position, item in enumerate(value):
            yield from _faults(item, items, f"{pointer}/{position}")
        return
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            yield _one(str(error), pointer)
        return
    if not isinstance(value, dict):
        yield Fault(pointer=pointer, message="wrong type", expected="an object", actual=_shown(value))
        return
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in value.keys() - known.keys() if kind.__struct_config__.forbid_unknown_fields else ():
        yield Fault(
            pointer=f"{pointer}/{_escaped(name)}", message="unknown field", expected="one of " + ", ".join(known)
        )
    for name, field in known.items():
        if name in value:
            yield from _faults(value[name], _inner(field.type, value[name]), f"{pointer}/{name}")
        elif field.required:
            yield Fault(pointer=f"{pointer}/{name}", message="missing", expected=f"the field {name}")


def _inner(kind: Any, value: Any) -> Any:
    """The struct in `Struct | None`, for a value that is there."""
    structs = [
        one for one in getattr(kind, "__args__", ()) if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    return structs[0] if structs and getattr(kind, "__origin__", None) is None and value is not None else kind


def _item(kind: Any) -> Any:
    """The struct in `tuple[Struct, ...]`, also in one of bounded length, or None."""
    kind = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    inner = getattr(kind, "__args__", ()) if getattr(kind, "__origin__", None) is tuple else ()
    return inner[0] if inner and isinstance(inner[0], type) and issubclass(inner[0], msgspec.Struct) else None


def _one(text: str, pointer: str) -> Fault:
    """Msgspec's sentence, taken apart: "Expected `str`, got `int` - at `$.why`"."""
    message, _, path = text.partition(" - at `$")
    inner = re.sub(r"\[(\d+)\]", r"/\1", path.rstrip("`")).replace(".", "/").replace("[...]", "")
    expected, found, actual = message.removeprefix("Expected ").partition(", got ")
    if not found:
        return Fault(pointer=pointer + inner, message=message.replace("`", "'"))
    return Fault(
        pointer=pointer + inner,
        message="wrong type",
        expected=expected.replace("`", ""),
        actual=actual.replace("`", ""),
    )


def _escaped(name: str) -> str:
    """A key as one part of a JSON pointer (RFC 6901), not longer than a line."""
    return name[:80].replace("~", "~0").replace("/", "~1")


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:80]
