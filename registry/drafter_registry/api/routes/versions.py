"""Versions: listed, shown, published, withdrawn, compared."""

from __future__ import annotations

from drafter_contracts.manifest import MEDIA_TYPE, Manifest
from drafter_registry import errors, limits
from drafter_registry.api import bodies, conditions, examples, media, streaming
from drafter_registry.api.call import FOREVER, REVALIDATE, Call
from drafter_registry.api.endpoint import BYTES, JSON, Answer, Body, Endpoint, Parameter
from drafter_registry.documents import (
    LIVE,
    Difference,
    Published,
    ReasonRequest,
    VersionDocument,
    VersionPage,
)
from drafter_registry.service import difference, listing, publish, versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

_ETAG = {"ETag": "The manifest's digest in quotes; for a version that is not live, its state follows."}
_FILE_HEADERS = {
    "ETag": "The file's digest in quotes.",
    "Accept-Ranges": "bytes",
    "Cache-Control": "For ever where the address names a digest.",
}
_RANGE = (
    Parameter(name="Range", place="header", text="One range: bytes=0-1023, bytes=1024-, bytes=-16."),
    Parameter(name="If-Range", place="header", text="ETag under which the range is wanted; else the whole is sent."),
)
_IF_NONE_MATCH = Parameter(
    name="If-None-Match", place="header", text="ETags that the caller has: 304 if one of them is still right."
)


async def list_versions(call: Call) -> Response:
    """GET /v1/drafters."""
    return call.answer(await call.look_up(listing.list_versions, call.query()))


async def show(call: Call) -> Response:
    """GET .../versions/{ref}."""
    call.query()
    reference = call.reference()
    if call.header("if-none-match"):
        located = await call.state.locate(call.actor, reference)
        is_live = located is not None and located.state == LIVE
        if located is not None and is_live and conditions.not_modified(call.header("if-none-match"), located.digest):
            return call.raw(b"", JSON, etag=located.digest, cache=REVALIDATE)
    document = await call.look_up(versions.show, reference)
    state = document.summary.state
    tag = document.summary.digest if state == LIVE else f"{document.summary.digest}.{state}"
    return call.answer(document, etag=tag, cache=REVALIDATE)


async def manifest(call: Call) -> Response:
    """GET .../versions/{ref}/manifest."""
    call.query()
    media.check_accept(call.header("accept"), (MEDIA_TYPE, JSON))
    reference = call.reference()
    data, digest = await call.look_up(versions.manifest_bytes, reference)
    cache = FOREVER if reference.digest else REVALIDATE
    return call.raw(data, MEDIA_TYPE, etag=digest, cache=cache, vary="accept")


async def file(call: Call) -> Response:
    """GET .../versions/{ref}/files/{path}."""
    call.query()
    reference, path = call.reference(), call.path("path")
    size, digest = await call.look_up(versions.file, reference, path)

    def opening(start: int, end: int) -> Iterator[bytes]:
        return versions.stream_file(call.state.registry, call.actor, reference, path, start, end)

    return await streaming.send(call, size, digest, opening, FOREVER if reference.digest else REVALIDATE)


async def put_version(call: Call) -> Response:
    """PUT .../versions/{version}."""
    call.query()
    bodies.check_content(call.request, (MEDIA_TYPE, JSON))
    data = await bodies.read(call.request, limits.manifest_max_bytes)
    document = media.decode_manifest(data)
    name, version = call.path("name"), call.path("ref")
    published = await call.verb(publish.publish, name, version, document, tool=call.tool)
    call.state.metrics.publications.labels("created" if published.created else "same").inc()
    return call.answer(
        published,
        status=201 if published.created else 200,
        location=f"/v1/drafters/{published.name}/versions/{published.version}",
        etag=published.digest,
    )


async def yank(call: Call) -> Response:
    """POST .../versions/{version}/yank."""
    return await _yank(call, undo=False)


async def unyank(call: Call) -> Response:
    """DELETE .../versions/{version}/yank."""
    return await _yank(call, undo=True)


async def _yank(call: Call, *, undo: bool) -> Response:
    call.query()
    request = await call.body(ReasonRequest)
    await call.verb(versions.yank, call.path("name"), call.path("ref"), why=request.why, undo=undo)
    return call.empty()


async def delete(call: Call) -> Response:
    """DELETE .../versions/{version}."""
    call.query()
    request = await call.body(ReasonRequest)
    await call.verb(versions.delete, call.path("name"), call.path("ref"), why=request.why)
    return call.empty()


async def diff(call: Call) -> Response:
    """GET /v1/drafters/{name}/diff."""
    query = call.query()
    return call.answer(await call.look_up(difference.diff, call.path("name"), query["from"], query["to"]))


_FILTERS = (
    Parameter(name="name", text="Part of the drafter's name."),
    Parameter(name="target", text="The target's name, as recorded."),
    Parameter(name="architecture", text="The target's class."),
    Parameter(name="method", text="EAGLE3, DFLASH, ..."),
    Parameter(name="alias", text="Versions that this alias points to now."),
    Parameter(name="boundary", text="A captured boundary; 0 is the embedding's output.", schema={"type": "integer"}),
    Parameter(name="fingerprint", text="Versions with this contract."),
    Parameter(name="state", text="live (the default), yanked, deleted, or all.", schema={"type": "string"}),
    Parameter(name="cursor", text="`next` of the page before."),
    Parameter(
        name="limit",
        text=f"Most items of the page; {limits.page_items} if it is not given.",
        schema={"type": "integer", "minimum": 1, "maximum": limits.page_max_items},
    ),
)
_REASON = Body(
    document=ReasonRequest,
    limit=limits.body_max_bytes,
    required=False,
    example={"why": "trained on mislabelled layers"},
)
_VERSION = "/v1/drafters/{name}/versions/{ref}"

ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_VERSION,
        operation="show_version",
        tag="versions",
        summary="One version in full",
        text="`ref` is a version, an alias, or the manifest's digest.",
        handler=show,
        parameters=(_IF_NONE_MATCH,),
        answers={
            200: Answer(
                text="The version.", document=VersionDocument, media=JSON, headers=_ETAG, example=examples.VERSION
            ),
            304: Answer(text="The caller has it.", headers=_ETAG),
        },
    ),
    Endpoint(
        method="GET",
        path="/v1/drafters",
        operation="list_versions",
        tag="versions",
        summary="Versions, searched and in pages",
        handler=list_versions,
        parameters=_FILTERS,
        answers={200: Answer(text="A page.", document=VersionPage, media=JSON, example=examples.PAGE)},
    ),
    Endpoint(
        method="GET",
        path=_VERSION + "/manifest",
        operation="get_manifest",
        tag="versions",
        summary="The manifest's exact bytes, whose sha256 is the version's digest",
        handler=manifest,
        parameters=(
            _IF_NONE_MATCH,
            Parameter(name="Accept", place="header", text=f"Has to allow {MEDIA_TYPE} or {JSON}."),
        ),
        answers={
            200: Answer(
                text="The manifest.",
                document=Manifest,
                media=MEDIA_TYPE,
                headers={"ETag": "Its digest in quotes."},
                example=examples.MANIFEST,
            ),
            304: Answer(text="The caller has it."),
        },
        errors=(errors.NotAcceptableError,),
    ),
    Endpoint(
        method="GET",
        path=_VERSION + "/files/{path}",
        operation="get_file",
        tag="versions",
        summary="A file of the version, whole or a range",
        handler=file,
        parameters=(*_RANGE, _IF_NONE_MATCH),
        answers={
            200: Answer(text="The file.", media=BYTES, schema={}, headers=_FILE_HEADERS),
            206: Answer(
                text="The range.",
                media=BYTES,
                schema={},
                headers={**_FILE_HEADERS, "Content-Range": "bytes START-END/SIZE"},
            ),
            304: Answer(text="The caller has it."),
        },
        errors=(errors.RangeError, errors.IntegrityError),
    ),
    Endpoint(
        method="PUT",
        path=_VERSION,
        operation="publish_version",
        tag="versions",
        summary="Publish a version of blobs that are stored",
        text="`ref` is a version here. The registry reads every header and config of the blobs again and refuses a "
        "manifest that contradicts them.",
        handler=put_version,
        scope="publish",
        body=Body(
            document=Manifest, media=(MEDIA_TYPE, JSON), limit=limits.manifest_max_bytes, example=examples.MANIFEST
        ),
        answers={
            201: Answer(
                text="Published.",
                document=Published,
                media=JSON,
                headers={"Location": "Its address.", **_ETAG},
                example=examples.PUBLISHED,
            ),
            200: Answer(text="The same content was there already.", document=Published, media=JSON, headers=_ETAG),
        },
        errors=(
            errors.ConflictError,
            errors.NameTakenError,
            errors.ContradictionError,
            errors.IncompleteError,
            errors.BlobsMissingError,
            errors.RenderedError,
            errors.IntegrityError,
            errors.StorageFullError,
        ),
    ),
    Endpoint(
        method="POST",
        path=_VERSION + "/yank",
        operation="yank_version",
        tag="versions",
        summary="Stop resolving a version, but by its exact name",
        handler=yank,
        scope="publish",
        body=_REASON,
        answers={204: Answer(text="Done, also if it was yanked already.")},
        errors=(errors.ConflictError,),
    ),
    Endpoint(
        method="DELETE",
        path=_VERSION + "/yank",
        operation="unyank_version",
        tag="versions",
        summary="Take a yank back",
        handler=unyank,
        scope="publish",
        body=_REASON,
        answers={204: Answer(text="Done, also if it was not yanked.")},
        errors=(errors.ConflictError,),
    ),
    Endpoint(
        method="DELETE",
        path=_VERSION,
        operation="delete_version",
        tag="versions",
        summary="Delete a version for ever; its name is not free again",
        handler=delete,
        scope="admin",
        body=_REASON,
        answers={204: Answer(text="Deleted.")},
        errors=(errors.ConflictError,),
    ),
    Endpoint(
        method="GET",
        path="/v1/drafters/{name}/diff",
        operation="diff_versions",
        tag="versions",
        summary="What changed between two versions, in words",
        handler=diff,
        parameters=(
            Parameter(name="from", text="Version, alias or digest.", required=True, example="1.0.0"),
            Parameter(name="to", text="Version, alias or digest.", required=True, example="1.1.0"),
        ),
        answers={200: Answer(text="The difference.", document=Difference, media=JSON, example=examples.DIFFERENCE)},
    ),
)
