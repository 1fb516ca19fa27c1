"""Check and resolve: the two questions that a launcher asks."""

from __future__ import annotations

from drafter_contracts.verdict import Verdict
from drafter_registry import errors, limits
from drafter_registry.api import bodies, examples
from drafter_registry.api.call import Call
from drafter_registry.api.endpoint import JSON, Answer, Body, Endpoint
from drafter_registry.documents import CheckRequest, Resolution, ResolveRequest
from drafter_registry.errors import RefusedError
from drafter_registry.names import read_reference
from drafter_registry.service import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response


async def check(call: Call) -> Response:
    """POST /v1/check."""
    call.query()
    verdict = await call.verb(judge.check, await call.body(CheckRequest))
    call.state.metrics.verdicts.labels(verdict.decision).inc()
    return call.answer(verdict)


async def resolve(call: Call) -> Response:
    """POST /v1/resolve."""
    call.query()
    decisions = call.state.metrics.resolutions
    data = await call.data()
    request = bodies.decode(data, ResolveRequest)
    try:
        # An answer that was given before is kept and costs one look-up; a new one is worked out beside the event loop.
        resolution = await _kept(call, request) if call.state.asked.again(data) else None
        if resolution is None:
            resolution = await call.verb(judge.resolve, request)
    except RefusedError as refused:
        decisions.labels(getattr(refused.verdict, "decision", "unknown")).inc()
        raise
    decisions.labels("none" if resolution.verdict is None else resolution.verdict.decision).inc()
    return call.answer(resolution)


async def _kept(call: Call, request: ResolveRequest) -> Resolution | None:
    located = await call.state.locate(call.actor, read_reference(request.drafter))
    return None if located is None else judge.resolve_kept(call.actor, request, located)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/v1/resolve",
        operation="resolve",
        tag="judging",
        summary="Flags and files of a drafter for one engine release, or why there are none",
        handler=resolve,
        body=Body(document=ResolveRequest, limit=limits.body_max_bytes, example=examples.RESOLVE),
        answers={200: Answer(text="How to serve it.", document=Resolution, media=JSON, example=examples.RESOLUTION)},
        errors=(errors.RefusedError, errors.UnknownError),
    ),
    Endpoint(
        method="POST",
        path="/v1/check",
        operation="check",
        tag="judging",
        summary="Would this launch feed the drafter the states it was trained on?",
        text="A refusal is an answer here: a verdict with status 200.",
        handler=check,
        body=Body(document=CheckRequest, limit=limits.body_max_bytes, example=examples.CHECK),
        answers={200: Answer(text="The verdict.", document=Verdict, media=JSON, example=examples.VERDICT)},
    ),
)
