"""One request on its way through a handler: its parameters, who asks, its body, and the answers to it."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from drafter_registry.api import authentication, bodies, conditions
from drafter_registry.api.endpoint import JSON, Endpoint
from drafter_registry.api.logs import redact
from drafter_registry.api.observing import SEEN, Seen
from drafter_registry.api.state import State
from drafter_registry.errors import Fault, InvalidError, NotAuthorisedError, TooManyRequestsError
from drafter_registry.names import Reference, read_reference
from drafter_registry.service import access, tokens
from drafter_registry.service.context import Actor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NO_STORE = "no-store"
#: Kept by whoever asked, but asked about again each time.
REVALIDATE = "private, no-cache"
#: Named by their digest: these bytes never change.
FOREVER = "private, max-age=31536000, immutable"


class Call:
    """A request to an endpoint.

    Attributes:
        state: What all requests share.
        request: As it came.
        endpoint: What it is to.
        actor: Who asks.
        with_problem: Headers that go with the answer if it is a problem.
    """

    __slots__ = ("actor", "endpoint", "request", "seen", "state", "with_problem")

    def __init__(self, state: State, request: Request, endpoint: Endpoint) -> None:
        self.state = state
        self.request = request
        self.endpoint = endpoint
        self.seen: Seen = request.scope[SEEN]
        self.actor = Actor("")
        self.with_problem: dict[str, str] = {}

    async def authenticate(self) -> None:
        """Find out who asks, before anything else is read of the request.

        Raises:
            NotAuthorisedError: No good token where one is needed.
            TooManyRequestsError: Too many bad ones from there.
        """
        state, seen = self.state, self.seen
        try:
            token = authentication.bearer(self.request)
            if not token:
                self.actor = access.anonymous(state.registry.settings, seen.request_id, seen.address)
                seen.actor = self.actor.name
                if self.endpoint.scope != access.READ or not self.actor.scopes:
                    access.require(self.actor, "admin")  # never granted: says what an anonymous caller is to do
                return
            self.actor = state.recent.get(token) or await self._look_up(token)
        except (NotAuthorisedError, TooManyRequestsError) as error:
            if "authorization" in self.request.headers:
                authentication.count_failure(state.metrics, error)
                if isinstance(error, NotAuthorisedError):
                    state.attempts.failed(seen.address)
            raise
        self.actor = Actor(self.actor.name, self.actor.scopes, seen.request_id, seen.address)
        seen.actor = self.actor.name

    async def _look_up(self, token: str) -> Actor:
        state, asked = self.state, self.state.recent.now()
        state.attempts.check(self.seen.address, token)
        actor = await state.quick(partial(tokens.authenticate, defer=state.later), state.registry, token)
        state.attempts.succeeded(token)
        state.recent.put(token, asked, actor)
        return actor

    def path(self, name: str) -> str:
        """A parameter of the path."""
        return str(self.request.path_params[name])

    def reference(self) -> Reference:
        """The version that the path names, by version, alias or digest."""
        return read_reference(f"{self.path('name')}@{self.path('ref')}")

    def header(self, name: str) -> str:
        """A header, "" if it is absent; several of one name are one list."""
        return ", ".join(self.request.headers.getlist(name))

    @property
    def tool(self) -> str:
        """The program that asks, as it calls itself: at most 255 printable characters."""
        text = redact(self.request.headers.get("user-agent", ""))[:255]
        return "".join(character if character.isprintable() else "?" for character in text)

    def query(self) -> dict[str, str]:
        """The query's parameters.

        Raises:
            InvalidError: One that this route does not know (a misspelt filter would filter nothing), or one given
                twice, or one with a NUL character.
        """
        known = [one.name for one in self.endpoint.parameters if one.place == "query"]
        found: dict[str, str] = {}
        faults: list[Fault] = []
        for name, value in self.request.query_params.multi_items():
            if name not in known:
                expected = "one of " + ", ".join(known) if known else "none"
                faults.append(Fault(pointer=name[:80], message="unknown parameter", expected=expected))
            elif name in found:
                faults.append(Fault(pointer=name, message="given twice", expected="one value"))
            elif "\0" in value:
                faults.append(Fault(pointer=name, message="has a NUL character"))
            found[name] = value
        faults += [
            Fault(pointer=one.name, message="missing", expected=one.text)
            for one in self.endpoint.parameters
            if one.place == "query" and one.required and not found.get(one.name)
        ]
        if faults:
            raise InvalidError("the query cannot be read", faults=tuple(faults))
        return found

    async def body(self, kind: type[T]) -> T:
        """The body as a request struct.

        Raises:
            UnsupportedError: Not JSON by its Content-Type.
            TooLargeError: Longer than the endpoint takes.
            InvalidError: Not such a document.
        """
        return bodies.decode(await self.data(), kind)

    async def data(self) -> bytes:
        """The body's bytes; an empty document for a body that may be absent and is.

        Raises:
            UnsupportedError: Another type by its Content-Type.
            TooLargeError: Longer than the endpoint takes.
            InvalidError: The connection ended within it.
        """
        declared = self.endpoint.body
        if declared is None:
            raise TypeError(f"{self.endpoint.operation} takes no body")
        data = await bodies.read(self.request, declared.limit)
        if not data and not declared.required:
            return b"{}"
        bodies.check_content(self.request, declared.media, optional=True)
        return data

    async def verb(self, function: Callable[..., T], *arguments: object, **keywords: object) -> T:
        """A verb for whoever asks, in a worker thread."""
        call = partial(function, self.state.registry, self.actor, *arguments, **keywords)
        return await self.state.in_thread(call)

    async def look_up(self, function: Callable[..., T], *arguments: object) -> T:
        """A verb that only reads a few rows."""
        return await self.state.quick(function, self.state.registry, self.actor, *arguments)

    def answer(
        self, document: object, *, status: int = 200, etag: str = "", cache: str = NO_STORE, **headers: str
    ) -> Response:
        """A document as the answer; 304 if the caller has it already.

        Args:
            document: Struct to encode.
            status: HTTP status.
            etag: Entity tag, without quotes.
            cache: Cache-Control.
            **headers: More of them, with _ for -.
        """
        return self.raw(msgspec.json.encode(document), JSON, status=status, etag=etag, cache=cache, **headers)

    def raw(
        self, data: bytes, media: str, *, status: int = 200, etag: str = "", cache: str = NO_STORE, **headers: str
    ) -> Response:
        """Bytes as the answer; see `answer`."""
        told = {"cache-control": cache} | {name.replace("_", "-"): value for name, value in headers.items()}
        if etag:
            told["etag"] = f'"{etag}"'
            if self.request.method in ("GET", "HEAD") and conditions.not_modified(self.header("if-none-match"), etag):
                return Response(None, 304, told)
        return Response(data, status, told, media_type=media)

    def empty(self, status: int = 204, *, cache: str = NO_STORE, **headers: str) -> Response:
        """An answer without a body."""
        told = {"cache-control": cache} | {name.replace("_", "-"): value for name, value in headers.items()}
        return Response(None, status, told)
