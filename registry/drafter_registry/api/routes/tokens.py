"""Tokens and the audit log."""

from __future__ import annotations

from drafter_registry import limits
from drafter_registry.api import examples, pages
from drafter_registry.api.call import Call
from drafter_registry.api.endpoint import JSON, Answer, Body, Endpoint, Parameter
from drafter_registry.documents import AuditPage, NewToken, TokenList, TokenRequest
from drafter_registry.service import audit, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response


async def create(call: Call) -> Response:
    """POST /v1/tokens."""
    call.query()
    new = await call.verb(tokens.create, await call.body(TokenRequest))
    return call.answer(new, status=201)


async def listing(call: Call) -> Response:
    """GET /v1/tokens."""
    call.query()
    return call.answer(await call.verb(tokens.listing))


async def revoke(call: Call) -> Response:
    """DELETE /v1/tokens/{id}."""
    call.query()
    await call.verb(tokens.revoke, call.path("id"))
    call.state.recent.clear()
    return call.empty()


async def log(call: Call) -> Response:
    """GET /v1/audit."""
    query = call.query()
    cursor, subject = query.get("cursor", ""), query.get("subject", "")
    return call.answer(await call.verb(audit.entries, cursor=cursor, limit=pages.size(query), subject=subject))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/v1/tokens",
        operation="create_token",
        tag="tokens",
        summary="Make a token; the answer is the only time that it is shown",
        handler=create,
        scope="admin",
        body=Body(
            document=TokenRequest,
            limit=limits.body_max_bytes,
            example={"name": "trainer", "scopes": ["publish:kimi-*"], "expires_in_days": 90},
        ),
        answers={201: Answer(text="Made.", document=NewToken, media=JSON, example=examples.NEW_TOKEN)},
    ),
    Endpoint(
        method="GET",
        path="/v1/tokens",
        operation="list_tokens",
        tag="tokens",
        summary="The tokens, without their secrets",
        handler=listing,
        scope="admin",
        answers={200: Answer(text="The tokens.", document=TokenList, media=JSON, example=examples.TOKENS)},
    ),
    Endpoint(
        method="DELETE",
        path="/v1/tokens/{id}",
        operation="revoke_token",
        tag="tokens",
        summary="End a token, at once",
        handler=revoke,
        scope="admin",
        answers={204: Answer(text="Ended, also if it was already.")},
    ),
    Endpoint(
        method="GET",
        path="/v1/audit",
        operation="list_audit",
        tag="tokens",
        summary="Every write: who, what, when",
        handler=log,
        scope="admin",
        parameters=(
            *pages.PARAMETERS,
            Parameter(name="subject", text="Only writes to this: kimi-eagle3@1.0.0, an alias, a token."),
        ),
        answers={200: Answer(text="A page.", document=AuditPage, media=JSON, example=examples.AUDIT)},
    ),
)
