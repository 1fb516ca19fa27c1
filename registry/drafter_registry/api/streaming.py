"""Large bodies: files sent in ranges, uploads received in pieces, both with constant memory."""

from __future__ import annotations

import asyncio

import anyio
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from drafter_registry import limits
from drafter_registry.api import bodies, conditions
from drafter_registry.api.conditions import Span
from drafter_registry.api.endpoint import BYTES
from drafter_registry.errors import InternalError, InvalidError, RangeError
from drafter_registry.service import uploads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request

    from drafter_registry.api.call import Call
    from drafter_registry.api.state import State

    #: Opens the bytes from a start to an end, exclusive.
    Opening = Callable[[int, int], Iterator[bytes]]


async def send(call: Call, size: int, digest: str, opening: Opening, cache: str) -> Response:
    """A stored file as the answer: whole, a range of it, or 304.

    Args:
        call: The request.
        size: Of the file, bytes.
        digest: Its entity tag.
        opening: Opens it; called in a worker thread.
        cache: Cache-Control.

    Raises:
        RangeError: The range lies outside the file.
    """
    told = {"cache-control": cache, "etag": f'"{digest}"', "accept-ranges": "bytes"}
    if conditions.not_modified(call.header("if-none-match"), digest):
        return Response(None, 304, told)
    span, status = _span(call, size, digest), 206
    if span is None:
        span, status = Span(0, size), 200
    else:
        told["content-range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    told["content-length"] = str(span.end - span.start)
    if call.request.method == "HEAD" or span.start == span.end:
        return Response(None, status, told, media_type=BYTES)
    pieces = await call.state.chunk(opening, span.start, span.end)
    first = await call.state.chunk(next, pieces, b"")  # what goes wrong with the first piece can still be answered
    return StreamingResponse(_pieces(call.state, first, pieces, span), status, told, media_type=BYTES)


def _span(call: Call, size: int, digest: str) -> Span | None:
    header = call.header("range")
    if not header or not conditions.range_holds(call.header("if-range"), digest):
        return None
    call.with_problem["content-range"] = f"bytes */{size}"
    span = conditions.single_range(header, size)
    call.with_problem.clear()
    return span


async def _pieces(state: State, first: bytes, pieces: Iterator[bytes], span: Span) -> AsyncIterator[bytes]:
    sent = 0
    piece = first
    while piece:
        sent += len(piece)
        yield piece
        piece = await state.chunk(next, pieces, b"")
    if sent != span.end - span.start:
        raise InternalError(f"{sent} bytes came of {span.end - span.start} that were announced")


async def receive(call: Call, upload: str) -> int:
    """The body of a request as the next bytes of an upload; what arrived before a cut is kept.

    Returns:
        Bytes that were added.

    Raises:
        RangeError: The chunk does not begin where the upload ends.
        InvalidError: The body is longer or shorter than its Content-Range says; or the connection ended within it.
    """
    span = conditions.upload_range(call.header("content-range"))
    announced = bodies.content_length(call.request)
    length = None if span is None else span.end - span.start
    if length is not None and announced is not None and announced != length:
        raise InvalidError(f"Content-Range covers {length} bytes, Content-Length is {announced}", hint="send as many")
    stored = (await call.verb(uploads.state, upload)).offset
    if span is not None and span.start != stored:
        call.with_problem["upload-offset"] = str(stored)
        raise RangeError(f"the upload has {stored} bytes, the chunk begins at {span.start}", hint=f"go on at {stored}")
    receiver = await call.verb(uploads.receive, upload, stored)
    await call.state.in_thread(receiver.__enter__)
    try:
        added = await _write(call, receiver.write, length)
    finally:
        with anyio.CancelScope(shield=True):  # also when the server ends: what arrived is recorded
            await call.state.in_thread(receiver.__exit__, None, None, None)
    if length is not None and added != length:
        raise InvalidError(f"{added} bytes came, Content-Range covers {length}", hint="GET the upload, and go on there")
    return added


async def _write(call: Call, write: Callable[[bytes], object], most: int | None) -> int:
    """Hand the body on in pieces; while one is being written, the next one arrives."""
    added = 0
    writing: asyncio.Task[object] | None = None
    try:
        async for piece in _gathered(call.request, limits.chunk_bytes):
            kept = piece if most is None else piece[: most - added]
            if writing is not None:
                await writing
            writing = asyncio.create_task(call.state.chunk(write, kept))
            added += len(kept)
            if len(kept) < len(piece):
                raise InvalidError(
                    f"more bytes came than the {most} of Content-Range", hint="GET the upload, and go on there"
                )
    finally:
        if writing is not None:
            with anyio.CancelScope(shield=True):
                await writing
    return added


async def _gathered(request: Request, size: int) -> AsyncIterator[bytes]:
    """The body in pieces of `size` bytes, the last one shorter; ends early with the connection.

    Raises:
        InvalidError: The connection ended within the body; after all that came.
    """
    waiting = bytearray()
    try:
        async for chunk in request.stream():
            waiting += chunk
            while len(waiting) >= size:
                yield bytes(waiting[:size])
                del waiting[:size]
    except ClientDisconnect:
        if waiting:
            yield bytes(waiting)
        raise InvalidError("the connection ended within the body", hint="GET the upload, and go on there") from None
    if waiting:
        yield bytes(waiting)
