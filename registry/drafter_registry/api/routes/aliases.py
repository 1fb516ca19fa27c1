"""Aliases: where they point, their moves by compare-and-swap, and all moves there were."""

from __future__ import annotations

from drafter_registry import errors, limits
from drafter_registry.api import conditions, examples
from drafter_registry.api.call import REVALIDATE, Call
from drafter_registry.api.endpoint import JSON, Answer, Body, Endpoint, Parameter
from drafter_registry.documents import AliasHistory, AliasRequest, AliasState, ReasonRequest
from drafter_registry.service import aliases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response


async def show(call: Call) -> Response:
    """GET .../aliases/{alias}."""
    call.query()
    state = await call.look_up(aliases.state, call.path("name"), call.path("alias"))
    return call.answer(state, etag=str(state.revision), cache=REVALIDATE)


async def move(call: Call) -> Response:
    """PUT .../aliases/{alias}."""
    call.query()
    request = await call.body(AliasRequest)
    name, alias = call.path("name"), call.path("alias")
    state = await call.verb(aliases.move, name, alias, request.version, expected=_expected(call), why=request.why)
    return call.answer(state, etag=str(state.revision))


async def remove(call: Call) -> Response:
    """DELETE .../aliases/{alias}."""
    call.query()
    request = await call.body(ReasonRequest)
    name, alias = call.path("name"), call.path("alias")
    await call.verb(aliases.remove, name, alias, expected=_expected(call), why=request.why)
    return call.empty()


async def history(call: Call) -> Response:
    """GET .../aliases/{alias}/history."""
    call.query()
    return call.answer(await call.look_up(aliases.history, call.path("name"), call.path("alias")))


def _expected(call: Call) -> int | None:
    return conditions.expected_revision(call.header("if-match"), call.header("if-none-match"))


_ALIAS = "/v1/drafters/{name}/aliases/{alias}"
_ETAG = {"ETag": "The revision in quotes."}
_IF_MATCH = Parameter(
    name="If-Match", place="header", text='The revision that the alias must have: "3".', example='"3"'
)

ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_ALIAS,
        operation="show_alias",
        tag="aliases",
        summary="Where an alias points",
        handler=show,
        parameters=(Parameter(name="If-None-Match", place="header", text="The revision that the caller has."),),
        answers={
            200: Answer(text="The alias.", document=AliasState, media=JSON, headers=_ETAG, example=examples.ALIAS),
            304: Answer(text="It has not moved."),
        },
    ),
    Endpoint(
        method="PUT",
        path=_ALIAS,
        operation="move_alias",
        tag="aliases",
        summary="Move an alias to a version",
        handler=move,
        scope="alias",
        parameters=(
            _IF_MATCH,
            Parameter(name="If-None-Match", place="header", text="`*`: only if there is no such alias.", example="*"),
        ),
        body=Body(
            document=AliasRequest,
            limit=limits.body_max_bytes,
            example={"version": "1.1.0", "why": "acceptance 3.1 on the canary"},
        ),
        answers={200: Answer(text="Moved.", document=AliasState, media=JSON, headers=_ETAG, example=examples.ALIAS)},
        errors=(errors.MovedError, errors.ConflictError),
    ),
    Endpoint(
        method="DELETE",
        path=_ALIAS,
        operation="remove_alias",
        tag="aliases",
        summary="Remove an alias; its history stays",
        handler=remove,
        scope="alias",
        parameters=(_IF_MATCH,),
        body=Body(document=ReasonRequest, limit=limits.body_max_bytes, required=False, example={"why": "retired"}),
        answers={204: Answer(text="Removed.")},
        errors=(errors.MovedError,),
    ),
    Endpoint(
        method="GET",
        path=_ALIAS + "/history",
        operation="alias_history",
        tag="aliases",
        summary="Every move, newest first",
        handler=history,
        answers={200: Answer(text="The moves.", document=AliasHistory, media=JSON, example=examples.HISTORY)},
    ),
)
