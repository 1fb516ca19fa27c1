"""Around every request: its id, its log line, its counters, headers for safety, and an answer whatever happens."""

from __future__ import annotations

import re
import time
import uuid

from drafter_registry import limits
from drafter_registry.api import problems
from drafter_registry.api.logs import Log
from drafter_registry.api.metrics import Metrics
from drafter_registry.errors import HeadersTooLargeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Key of the `Seen` of a request in its ASGI scope.
SEEN = "drafters.seen"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CODE_HEADER = problems.CODE_HEADER.encode()
#: Nothing here is a page; no browser is to guess that it is.
_SAFETY = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


class Seen:
    """What is known of a request so far, for its log line.

    Attributes:
        request_id: The caller's, if it is well formed, or a new one.
        address: Of the caller.
        route: Template of the route, "" until one was found.
        actor: Name of the token, "" until it was read.
        status: HTTP status of the answer, 0 before that.
        code: Of the problem, "" where all went well.
        received: Bytes of the request's body.
        sent: Bytes of the answer's body.
    """

    __slots__ = ("actor", "address", "code", "received", "request_id", "route", "sent", "status")

    def __init__(self, request_id: str, address: str) -> None:
        self.request_id = request_id
        self.address = address
        self.route = self.actor = self.code = ""
        self.status = self.received = self.sent = 0


class Observing:
    """ASGI middleware.

    Args:
        app: What answers.
        log: Where lines go.
        metrics: What counts.
    """

    def __init__(self, app: ASGIApp, log: Log, metrics: Metrics) -> None:
        self.app = app
        self.log = log
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen = Seen(_request_id(scope), str(scope["client"][0]) if scope.get("client") else "")
        scope[SEEN] = seen
        began = time.perf_counter()
        self.metrics.in_flight.inc()
        try:
            await self._answer(scope, _Counted(seen, receive, send))
        finally:
            self.metrics.in_flight.dec()
            self._tell(scope, seen, time.perf_counter() - began)

    async def _answer(self, scope: Scope, counted: _Counted) -> None:
        seen = counted.seen
        size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > limits.header_max_bytes:
            error = HeadersTooLargeError(
                "address and headers are too long", hint=f"at most {limits.header_max_bytes} bytes"
            )
            await problems.respond(error, seen.request_id)(scope, counted.receive, counted.send)
            return
        try:
            await self.app(scope, counted.receive, counted.send)
        except Exception as error:  # noqa: BLE001 - the last place before the server, which would tell its text
            self.log.failure("request failed", error, request_id=seen.request_id, route=seen.route)
            if seen.status:
                raise _BrokenOffError from None  # what was announced cannot be sent: the connection has to end
            answer = problems.respond(problems.as_registry_error(_Unforeseen()), seen.request_id)
            await answer(scope, counted.receive, counted.send)

    def _tell(self, scope: Scope, seen: Seen, seconds: float) -> None:
        metrics, method = self.metrics, scope["method"]
        metrics.answered(seen.route, method, seen.status, seconds)
        metrics.received.inc(seen.received)
        metrics.sent.inc(seen.sent)
        if seen.code:
            metrics.errors.labels(seen.code).inc()
        self.log.line(
            "error" if seen.status >= 500 else "info",
            "request",
            method=method[:16],
            route=seen.route,
            path=scope["path"][:512],
            status=seen.status,
            code=seen.code,
            ms=round(seconds * 1000, 3),
            received=seen.received,
            sent=seen.sent,
            actor=seen.actor,
            request_id=seen.request_id,
            address=seen.address,
        )


class _BrokenOffError(Exception):
    """An answer that could not be finished; its cause is in the log."""


class _Unforeseen(Exception):  # noqa: N818 - it only stands for whatever was logged
    """An exception that no route expects."""


class _Counted:
    """Receive and send of one request, counted, with this service's headers added."""

    __slots__ = ("_receive", "_send", "seen")

    def __init__(self, seen: Seen, receive: Receive, send: Send) -> None:
        self.seen = seen
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        message = await self._receive()
        self.seen.received += len(message.get("body") or b"")
        return message

    async def send(self, message: Message) -> None:
        seen = self.seen
        if message["type"] == "http.response.start":
            seen.status = message["status"]
            headers = []
            for name, value in message.get("headers", ()):
                if name == _CODE_HEADER:
                    seen.code = value.decode()
                else:
                    headers.append((name, value))
            headers += [(b"x-request-id", seen.request_id.encode()), *_SAFETY]
            message = {**message, "headers": headers}
        else:
            seen.sent += len(message.get("body") or b"")
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's, if it is well formed and can be no token; or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if _REQUEST_ID.fullmatch(text) and "drt_" not in text.lower():
                return str(text)
            break
    return uuid.uuid4().hex
