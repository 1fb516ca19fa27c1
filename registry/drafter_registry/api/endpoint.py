"""How a route is declared: what it takes, what it answers with, what may go wrong. OpenAPI is made of it."""

from __future__ import annotations

import msgspec

from drafter_registry.errors import RegistryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from starlette.responses import Response

    from drafter_registry.api.call import Call

    Handler = Callable[["Call"], Awaitable["Response"]]

JSON = "application/json"
BYTES = "application/octet-stream"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter.

    Attributes:
        name: Its name.
        place: "query", "path" or "header".
        text: What it means.
        schema: Its JSON Schema; None for any text.
        example: A value that works.
        required: Whether it must be there.
    """

    name: str
    place: str = "query"
    text: str = ""
    schema: dict[str, object] | None = None
    example: object = None
    required: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a route succeeds.

    Attributes:
        text: When.
        document: Its struct; None for no body or plain bytes.
        media: Media type of the body; "" for no body.
        schema: JSON Schema of a body that is no struct.
        headers: Name to meaning.
        example: The whole body.
    """

    text: str
    document: Any = None
    media: str = ""
    schema: dict[str, object] | None = None
    headers: dict[str, str] = {}
    example: object = None


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The body that a route takes.

    Attributes:
        document: Its struct; None for plain bytes.
        media: Media types that are taken, the first for a body without one.
        limit: Most bytes; 0 for a stream that the blob limit bounds.
        required: Whether there must be one.
        example: The whole body.
    """

    document: Any = None
    media: tuple[str, ...] = (JSON,)
    limit: int = 0
    required: bool = True
    example: object = None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one address.

    Attributes:
        method: "GET", ...; a GET answers HEAD too.
        path: Template, "/v1/drafters/{name}/versions/{ref}".
        operation: Stable id for generated clients.
        tag: Group in the document.
        summary: One line.
        text: More, if there is more to say.
        handler: Answers.
        scope: "read", "publish", "alias", "observe" or "admin"; "" for everybody.
        parameters: Of query and headers; those of the path are known by name.
        body: What is taken, or None.
        answers: HTTP status to answer.
        errors: What may go wrong, besides what may always.
    """

    method: str
    path: str
    operation: str
    tag: str
    summary: str
    handler: Handler
    text: str = ""
    scope: str = "read"
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: dict[int, Answer]
    errors: tuple[type[RegistryError], ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it answers."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)
