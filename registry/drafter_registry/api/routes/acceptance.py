"""What a version is promised to be accepted, and what engines were seen to accept of it."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from drafter_contracts.manifest_records import Acceptance
from drafter_registry import errors, limits
from drafter_registry.acceptance_documents import (
    AcceptanceList,
    AddedAcceptance,
    ObservationPage,
    ObservationsRequest,
    ObservationsTaken,
)
from drafter_registry.api import examples, pages
from drafter_registry.api.call import REVALIDATE, Call
from drafter_registry.api.endpoint import JSON, Answer, Body, Endpoint, Parameter
from drafter_registry.service import acceptances, observations
from drafter_registry.service.access import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response


async def listing(call: Call) -> Response:
    """GET .../acceptance."""
    call.query()
    data = msgspec.json.encode(await call.look_up(acceptances.listing, call.reference()))
    return call.raw(data, JSON, etag=sha256(data).hexdigest(), cache=REVALIDATE)


async def add(call: Call) -> Response:
    """POST .../acceptance."""
    call.query()
    added = await call.verb(acceptances.add, call.reference(), await call.body(Acceptance))
    return call.answer(added, status=201 if added.created else 200)


async def remove(call: Call) -> Response:
    """DELETE .../acceptance/{digest}."""
    call.query()
    await call.verb(acceptances.remove, call.reference(), call.path("digest"))
    return call.empty()


async def history(call: Call) -> Response:
    """GET .../observations."""
    query = call.query()
    given = {name: query.get(name, "") for name in ("since", "until", "cursor")}
    page = await call.verb(observations.history, call.reference(), limit=pages.size(query), **given)
    return call.answer(page)


async def report(call: Call) -> Response:
    """POST .../observations."""
    call.query()
    reference = call.reference()
    require(call.actor, "observe", reference.name, str(reference))  # who may not observe takes nothing of the limits
    request = await call.body(ObservationsRequest)
    call.state.reports.take(call.actor.name, {one.instance for one in request.observations})
    return call.answer(await call.verb(observations.report, reference, request.run, request.observations))


_VERSION = "/v1/drafters/{name}/versions/{ref}"
_ANY = "An alias means the version that it points to now; the answer says which. A yanked version is found by all."

ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_VERSION + "/acceptance",
        operation="list_acceptances",
        tag="acceptance",
        summary="The promises: those of the manifest, and those attached later",
        text=_ANY,
        handler=listing,
        parameters=(Parameter(name="If-None-Match", place="header", text="The ETag that the caller has."),),
        answers={
            200: Answer(
                text="All of them.",
                document=AcceptanceList,
                media=JSON,
                headers={"ETag": "Changes with the list."},
                example=examples.ACCEPTANCES,
            ),
            304: Answer(text="The caller has it."),
        },
        errors=(errors.IntegrityError,),
    ),
    Endpoint(
        method="POST",
        path=_VERSION + "/acceptance",
        operation="add_acceptance",
        tag="acceptance",
        summary="Attach a measured acceptance to a version, which stays as it is",
        text=f"The same acceptance again changes nothing. {_ANY}",
        handler=add,
        scope="publish",
        body=Body(document=Acceptance, limit=limits.body_max_bytes, example=examples.ACCEPTANCE),
        answers={
            201: Answer(text="Attached.", document=AddedAcceptance, media=JSON, example=examples.ADDED),
            200: Answer(text="It was there already.", document=AddedAcceptance, media=JSON),
        },
        errors=(errors.FullError, errors.IntegrityError),
    ),
    Endpoint(
        method="DELETE",
        path=_VERSION + "/acceptance/{digest}",
        operation="remove_acceptance",
        tag="acceptance",
        summary="Take an attached acceptance away; one of the manifest stays",
        handler=remove,
        scope="admin",
        answers={204: Answer(text="Removed.")},
    ),
    Endpoint(
        method="GET",
        path=_VERSION + "/observations",
        operation="list_observations",
        tag="acceptance",
        summary="What engines were seen to accept, hour by hour, newest first",
        text=_ANY,
        handler=history,
        parameters=(
            Parameter(name="since", text="Hours that begin then or later.", example="2026-03-01T00:00:00Z"),
            Parameter(name="until", text="Hours that begin before then.", example="2026-03-02T00:00:00Z"),
            *pages.PARAMETERS,
        ),
        answers={200: Answer(text="A page.", document=ObservationPage, media=JSON, example=examples.SEEN)},
    ),
    Endpoint(
        method="POST",
        path=_VERSION + "/observations",
        operation="report_observations",
        tag="acceptance",
        summary="Report what an engine was seen to accept",
        text="Each observation is all that `run` saw in its hour so far: one with more readings replaces what the run "
        f"reported before, and anything else changes nothing, so that a report may be repeated. {_ANY}",
        handler=report,
        scope="observe",
        body=Body(document=ObservationsRequest, limit=limits.observations_max_bytes, example=examples.OBSERVATIONS),
        answers={200: Answer(text="Kept.", document=ObservationsTaken, media=JSON, example=examples.TAKEN)},
        errors=(errors.FullError,),
    ),
)
