"""For whoever runs the service: is it alive, is it ready, what does it count, what does it speak."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from starlette.responses import Response

from drafter_contracts.manifest import MEDIA_TYPE, json_schema
from drafter_registry import errors
from drafter_registry.api import examples, media, metrics
from drafter_registry.api.call import NO_STORE, REVALIDATE, Call
from drafter_registry.api.endpoint import JSON, Answer, Endpoint, Parameter
from drafter_registry.api.health import Health, Readiness
from drafter_registry.errors import UnavailableError
from drafter_registry.service import access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.api.endpoint import Handler

SCHEMA_TYPE = "application/schema+json"


_SCHEMA = msgspec.json.encode(json_schema())


async def healthz(call: Call) -> Response:
    """GET /healthz."""
    return call.answer(Health(status="ok", version=call.state.version))


async def readyz(call: Call) -> Response:
    """GET /readyz."""
    readiness = await call.state.readies.look()
    return call.answer(readiness, status=200 if readiness.ready else 503)


async def counters(call: Call) -> Response:
    """GET /metrics."""
    told = {"cache-control": NO_STORE, "content-type": metrics.CONTENT_TYPE}
    text = call.state.metrics.text()
    with suppress(UnavailableError):  # the counters are wanted most where the database does not answer
        text += await _observed(call)
    return Response(text, 200, told)


async def _observed(call: Call) -> bytes:
    """What engines were seen to accept, for whoever may read; names of drafters are nobody else's business."""
    state = call.state
    if "authorization" in call.request.headers:
        await call.authenticate()
    elif state.registry.settings.anonymous_read:
        call.actor = access.anonymous(state.registry.settings)
    if not call.actor.scopes:
        return b""
    return await state.observed.text(lambda verb: state.probe(verb, state.registry, call.actor))


async def manifest_schema(call: Call) -> Response:
    """GET /v1/schema."""
    media.check_accept(call.header("accept"), (SCHEMA_TYPE, JSON))
    return call.raw(_SCHEMA, SCHEMA_TYPE, cache=REVALIDATE, vary="accept")


async def document(call: Call) -> Response:
    """GET /openapi.json."""
    return call.raw(call.state.document, JSON, cache=REVALIDATE)


def _endpoint(path: str, operation: str, summary: str, handler: Handler, answer: Answer) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        operation=operation,
        tag="operations",
        summary=summary,
        handler=handler,
        scope="",
        answers={200: answer},
    )


ENDPOINTS = (
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
    Endpoint(
        method="GET",
        path="/metrics",
        operation="metrics",
        tag="operations",
        summary="Counters in the text format of Prometheus",
        text="With a token, or where everybody may read, also what engines were seen to accept.",
        handler=counters,
        scope="",
        answers={200: Answer(text="The counters.", media="text/plain", schema={"type": "string"})},
        errors=(errors.NotAuthorisedError, errors.TooManyRequestsError),
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
