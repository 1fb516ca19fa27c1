"""The application: the declared endpoints on FastAPI, every error a problem document."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from drafter_registry.api import openapi, problems
from drafter_registry.api.call import Call
from drafter_registry.api.endpoint import Endpoint
from drafter_registry.api.logs import Log
from drafter_registry.api.observing import SEEN, Observing
from drafter_registry.api.routes import acceptance, aliases, judging, operations, tokens, uploads, versions
from drafter_registry.api.state import State
from drafter_registry.errors import InternalError, InvalidError, MethodError, NotFoundError
from drafter_registry.service.context import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

#: All of them; the ones asked most are looked for first.
ENDPOINTS = (
    *judging.ENDPOINTS,
    *versions.ENDPOINTS,
    *aliases.ENDPOINTS,
    *acceptance.ENDPOINTS,
    *uploads.ENDPOINTS,
    *tokens.ENDPOINTS,
    *operations.ENDPOINTS,
)
_FILE_PATH = re.compile(r"{path}")


def create_app(registry: Registry, log: Log | None = None) -> FastAPI:
    """The application over an open registry; whoever opened that closes it.

    `app.state.shared` is the `State` of its requests, `app.state.endpoints` what it answers.

    Args:
        registry: What the verbs work with.
        log: Where its lines go; to standard error if it is not given.
    """
    shared = State(registry, log or Log(), _release())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        shared.close()

    app = FastAPI(
        title="drafter-registry",
        version=shared.version,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # served by an endpoint like any other
        redirect_slashes=False,
        lifespan=lifespan,
    )
    shared.document = msgspec.json.encode(openapi.document(ENDPOINTS, shared.version))
    app.openapi = lambda: msgspec.json.decode(shared.document)  # type: ignore[method-assign]
    app.state.shared, app.state.endpoints = shared, ENDPOINTS
    for path, methods in _by_path(ENDPOINTS).items():
        # a plain route: FastAPI's own looks for parameters, and these read the request themselves
        app.add_route(_FILE_PATH.sub("{path:path}", path), _dispatch(shared, path, methods), methods=list(methods))
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_middleware(Observing, log=shared.log, metrics=shared.metrics)
    return app


def _by_path(endpoints: tuple[Endpoint, ...]) -> dict[str, dict[str, Endpoint]]:
    """Path to its methods: one route for each, so that a wrong method is told all the right ones."""
    found: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        for method in endpoint.methods:
            found.setdefault(endpoint.path, {})[method] = endpoint
    return found


def _dispatch(shared: State, path: str, methods: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        seen = request.scope[SEEN]
        seen.route = path
        endpoint = methods[request.method]
        call = Call(shared, request, endpoint)
        try:
            _check_path(request)
            if endpoint.scope:
                await call.authenticate()
            return await endpoint.handler(call)
        except Exception as error:  # noqa: BLE001 - the one place that maps every error to an answer
            told = problems.as_registry_error(error)
            if told.status >= 500 and (told is not error or isinstance(error, InternalError)):
                shared.log.failure("request failed", error, request_id=seen.request_id, route=path)
            elif told.status >= 500:
                shared.log.line(
                    "error", "request failed", code=told.code, message=str(told), request_id=seen.request_id
                )
            response = problems.respond(told, seen.request_id)
            response.headers.update(call.with_problem)
            return response

    return answer


def _check_path(request: Request) -> None:
    """A NUL is in no name, and no database takes it in a text.

    Raises:
        InvalidError: There is one.
    """
    if "\0" in request.scope["path"]:
        raise InvalidError("the address has a NUL character", hint="leave it out")


async def _not_routed(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: no such route, or no such method of it."""
    seen = request.scope[SEEN]
    told = problems.as_registry_error(error)
    headers = getattr(error, "headers", None) or {}
    if isinstance(told, NotFoundError):
        told = NotFoundError("there is no such address", hint="GET /openapi.json lists all of them")
    elif isinstance(told, MethodError):
        told = MethodError(
            f"{request.method[:16]} is no method of this address", hint=f"it takes {headers.get('Allow', '')}"
        )
    response = problems.respond(told, seen.request_id)
    response.headers.update(headers)
    return response


def _release() -> str:
    try:
        return installed("drafter-registry")
    except PackageNotFoundError:
        return "0+unknown"
