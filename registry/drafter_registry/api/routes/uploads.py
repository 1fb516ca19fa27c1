"""Blobs and the uploads that they are made by, after the OCI distribution protocol."""

from __future__ import annotations

from drafter_registry import errors
from drafter_registry.api import examples, streaming
from drafter_registry.api.call import FOREVER, Call
from drafter_registry.api.endpoint import BYTES, JSON, Answer, Body, Endpoint, Parameter
from drafter_registry.documents import BlobState, UploadState
from drafter_registry.service import uploads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response


async def blob(call: Call) -> Response:
    """HEAD and GET /v1/blobs/{digest}."""
    call.query()
    state = await call.verb(uploads.stat, call.path("digest"))
    blobs = call.state.registry.blobs

    return await streaming.send(
        call, state.size, state.digest, lambda start, end: blobs.stream(state.digest, start, end), FOREVER
    )


async def start(call: Call) -> Response:
    """POST /v1/uploads."""
    call.query()
    return _progress(call, await call.verb(uploads.start))


async def progress(call: Call) -> Response:
    """GET /v1/uploads/{id}."""
    call.query()
    return _progress(call, await call.verb(uploads.state, call.path("id")), status=200)


async def append(call: Call) -> Response:
    """PATCH /v1/uploads/{id}."""
    call.query()
    await streaming.receive(call, call.path("id"))
    return _progress(call, await call.verb(uploads.state, call.path("id")))


async def finish(call: Call) -> Response:
    """PUT /v1/uploads/{id}?digest=."""
    digest = call.query()["digest"]
    if call.header("content-length") not in ("", "0") or call.header("transfer-encoding"):
        await streaming.receive(call, call.path("id"))
    state = await call.verb(uploads.finish, call.path("id"), digest)
    return call.answer(state, status=201, location=f"/v1/blobs/{state.digest}", etag=state.digest)


async def cancel(call: Call) -> Response:
    """DELETE /v1/uploads/{id}."""
    call.query()
    await call.verb(uploads.cancel, call.path("id"))
    return call.empty()


def _progress(call: Call, state: UploadState, status: int = 202) -> Response:
    told = {"location": f"/v1/uploads/{state.id}", "upload_offset": str(state.offset)}
    if state.offset:
        told["range"] = f"0-{state.offset - 1}"
    return call.answer(state, status=status, **told)


_HEADERS = {
    "Location": "Where the upload goes on.",
    "Range": "Bytes that are stored, 0-LAST, both inclusive; absent while there are none.",
    "Upload-Offset": "How many bytes are stored: the next chunk begins there.",
}
_CONTENT_RANGE = Parameter(
    name="Content-Range",
    place="header",
    text="Where the body belongs: START-END, both inclusive. Without it, it is what comes next.",
    example="0-1048575",
)
_BYTES = Body(media=(BYTES,), required=False)
_UPLOAD = "/v1/uploads/{id}"


def _state(text: str) -> Answer:
    return Answer(text=text, document=UploadState, media=JSON, headers=_HEADERS, example=examples.UPLOAD)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/blobs/{digest}",
        operation="get_blob",
        tag="blobs",
        summary="A blob; HEAD tells whether it is stored, and keeps it from being collected for a while",
        handler=blob,
        parameters=(
            Parameter(name="Range", place="header", text="One range of bytes."),
            Parameter(name="If-Range", place="header", text="ETag under which the range is wanted."),
            Parameter(name="If-None-Match", place="header", text="ETags that the caller has."),
        ),
        answers={
            200: Answer(text="The blob.", media=BYTES, schema={}, headers={"ETag": "The digest in quotes."}),
            206: Answer(text="The range.", media=BYTES, schema={}, headers={"Content-Range": "bytes START-END/SIZE"}),
            304: Answer(text="The caller has it."),
        },
        errors=(errors.RangeError, errors.IntegrityError),
    ),
    Endpoint(
        method="POST",
        path="/v1/uploads",
        operation="start_upload",
        tag="blobs",
        summary="Begin an upload",
        handler=start,
        scope="publish",
        answers={202: _state("Begun.")},
        errors=(errors.StorageFullError,),
    ),
    Endpoint(
        method="GET",
        path=_UPLOAD,
        operation="show_upload",
        tag="blobs",
        summary="How far an upload is",
        handler=progress,
        scope="publish",
        answers={200: _state("So far.")},
    ),
    Endpoint(
        method="PATCH",
        path=_UPLOAD,
        operation="append_upload",
        tag="blobs",
        summary="Send the next bytes",
        text="What arrived before a cut connection is kept: GET tells where to go on.",
        handler=append,
        scope="publish",
        parameters=(_CONTENT_RANGE,),
        body=_BYTES,
        answers={202: _state("Stored.")},
        errors=(errors.RangeError, errors.TooLargeError, errors.StorageFullError, errors.ConflictError),
    ),
    Endpoint(
        method="PUT",
        path=_UPLOAD,
        operation="finish_upload",
        tag="blobs",
        summary="Make the upload a blob; the body may be its last or all of its bytes",
        handler=finish,
        scope="publish",
        parameters=(
            Parameter(
                name="digest",
                text="The blob's digest, sha256:...",
                required=True,
                schema={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                example=examples.DIGEST,
            ),
            _CONTENT_RANGE,
        ),
        body=_BYTES,
        answers={
            201: Answer(
                text="Stored.",
                document=BlobState,
                media=JSON,
                headers={"Location": "The blob's address.", "ETag": "Its digest in quotes."},
                example=examples.BLOB,
            )
        },
        errors=(
            errors.DigestError,
            errors.RangeError,
            errors.TooLargeError,
            errors.StorageFullError,
            errors.ConflictError,
        ),
    ),
    Endpoint(
        method="DELETE",
        path=_UPLOAD,
        operation="cancel_upload",
        tag="blobs",
        summary="Forget an upload",
        handler=cancel,
        scope="publish",
        answers={204: Answer(text="Forgotten.")},
    ),
)
