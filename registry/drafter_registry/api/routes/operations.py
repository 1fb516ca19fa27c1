"""For whoever runs the service: is it alive, is it ready, what does it count, what does it speak."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from drafter_contracts.manifest import MEDIA_TYPE, json_schema
from drafter_registry import errors
from drafter_registry.api import examples, media, metrics
from drafter_registry.api.call import NO_STORE, REVALIDATE, Call
from drafter_registry.api.endpoint import JSON, Answer, Endpoint, Parameter
from drafter_registry.api.health import Health, Readies, Readiness
from drafter_registry.api.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA_TYPE = "application/schema+json"


def endpoints(state: State, version: str, openapi: Callable[[], bytes]) -> tuple[Endpoint, ...]:
    """The routes of one application.

    Args:
        state: Shared by its requests.
        version: Of this distribution.
        openapi: Gives the OpenAPI document's bytes.
    """
    readies = Readies(state)
    schema = msgspec.json.encode(json_schema())

    async def healthz(call: Call) -> Response:
        return call.answer(Health(status="ok", version=version))

    async def readyz(call: Call) -> Response:
        readiness = await readies.look()
        return call.answer(readiness, status=200 if readiness.ready else 503)

    async def counters(_: Call) -> Response:
        return Response(state.metrics.text(), 200, {"cache-control": NO_STORE, "content-type": metrics.CONTENT_TYPE})

    async def manifest_schema(call: Call) -> Response:
        media.check_accept(call.header("accept"), (SCHEMA_TYPE, JSON))
        return call.raw(schema, SCHEMA_TYPE, cache=REVALIDATE, vary="accept")

    async def document(call: Call) -> Response:
        return call.raw(openapi(), JSON, cache=REVALIDATE)

    return (
        _endpoint(
            "/healthz",
            "health",
            "The process is alive",
            healthz,
            Answer(text="It is.", document=Health, media=JSON, example=examples.HEALTH),
        ),
        Endpoint(
            method="GET",
            path="/readyz",
            operation="readiness",
            tag="operations",
            summary="Database, schema and blob store do their part",
            text="Looks at most every 2 s.",
            handler=readyz,
            scope="",
            answers={
                200: Answer(text="Ready.", document=Readiness, media=JSON, example=examples.READY),
                503: Answer(text="Not ready; `checks` says why.", document=Readiness, media=JSON),
            },
        ),
        _endpoint(
            "/metrics",
            "metrics",
            "Counters in the text format of Prometheus",
            counters,
            Answer(text="The counters.", media="text/plain", schema={"type": "string"}),
        ),
        Endpoint(
            method="GET",
            path="/v1/schema",
            operation="manifest_schema",
            tag="versions",
            summary=f"JSON Schema of the manifest ({MEDIA_TYPE})",
            handler=manifest_schema,
            scope="",
            parameters=(Parameter(name="Accept", place="header", text=f"Has to allow {SCHEMA_TYPE} or {JSON}."),),
            answers={200: Answer(text="The schema.", media=SCHEMA_TYPE, schema={"type": "object"})},
            errors=(errors.NotAcceptableError,),
        ),
        _endpoint(
            "/openapi.json",
            "openapi",
            "This document",
            document,
            Answer(text="The document.", media=JSON, schema={"type": "object"}),
        ),
    )


def _endpoint(path: str, operation: str, summary: str, handler: object, answer: Answer) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        operation=operation,
        tag="operations",
        summary=summary,
        handler=handler,  # type: ignore[arg-type]
        scope="",
        answers={200: answer},
    )
