"""Every error as a problem document (RFC 9457), and the codes that one may carry."""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from drafter_contracts.errors import InputError
from drafter_contracts.verdict import Verdict
from drafter_registry import errors
from drafter_registry.documents import PROBLEM_TYPE, Problem
from drafter_registry.errors import Fault, InvalidError, RegistryError

#: Prefix of a problem's `type`; what follows is the code in small letters, with - for _.
TYPE_PREFIX = "urn:drafters:problem:"
#: Where an error leaves its code for the log and the counters.
CODE_HEADER = "x-problem-code"

_TITLES = {
    "INTERNAL": "The registry failed",
    "INVALID": "The request cannot be read",
    "NOT_AUTHORISED": "No valid token",
    "NOT_FOUND": "There is no such thing",
    "METHOD_NOT_ALLOWED": "The address does not take this method",
    "NOT_ACCEPTABLE": "No acceptable media type",
    "CONFLICT": "The version is taken",
    "NAME_TOO_SIMILAR": "The name is too similar to another one",
    "LIMIT_REACHED": "The version has as many of these as are kept",
    "PRECONDITION_FAILED": "Somebody else was here first",
    "TOO_LARGE": "Too large",
    "UNSUPPORTED_MEDIA_TYPE": "Media type or schema version not spoken",
    "RANGE_NOT_SATISFIABLE": "The range does not fit",
    "MANIFEST_CONTRADICTS_FILES": "The manifest contradicts the stored bytes",
    "MANIFEST_INCOMPLETE": "The manifest is incomplete",
    "IS_A_RENDER": "A render is no version",
    "BLOBS_MISSING": "Files of the manifest are not uploaded",
    "DIGEST_MISMATCH": "The bytes have another digest",
    "REFUSED": "The drafter cannot be served that way",
    "UNDECIDED": "Whether the drafter can be served that way is not known",
    "TOO_MANY_REQUESTS": "Too many attempts",
    "HEADERS_TOO_LARGE": "Address and headers are too long",
    "UNAVAILABLE": "The database or the blob store does not answer",
    "STORAGE_FULL": "No room left",
    "INTEGRITY": "Stored bytes are damaged",
    "DATABASE_SCHEMA": "The database has another schema",
}

#: Errors that only say that the framework found no handler.
_OF_STATUS: dict[int, type[RegistryError]] = {
    404: errors.NotFoundError,
    405: errors.MethodError,
    413: errors.TooLargeError,
    415: errors.UnsupportedError,
}


def every_error() -> dict[str, type[RegistryError]]:
    """Code to class, of every error that an answer may carry."""
    found: dict[str, type[RegistryError]] = {}
    pending: list[type[RegistryError]] = list(RegistryError.__subclasses__())
    while pending:
        kind = pending.pop(0)
        found.setdefault(kind.code, kind)
        pending += kind.__subclasses__()
    return found


def title(code: str) -> str:
    """A code in words."""
    return _TITLES.get(code, code.replace("_", " ").capitalize())


def summary(kind: type[RegistryError]) -> str:
    """What an error means, one sentence: its class says it."""
    return (kind.__doc__ or "").strip().partition("\n\n")[0].replace("\n    ", " ").partition("; `")[0].rstrip(
        "."
    ) + "."


def type_of(code: str) -> str:
    """The URI that identifies a code."""
    return TYPE_PREFIX + code.lower().replace("_", "-")


def as_registry_error(error: Exception) -> RegistryError:
    """Any exception as one of the closed set; one that nobody foresaw is `INTERNAL` and tells nothing."""
    if isinstance(error, RegistryError):
        return error
    if isinstance(error, InputError):
        fault = Fault(pointer=error.where, message=error.message, expected=error.expected, actual=error.actual)
        return InvalidError(error.message, faults=(fault,))
    if isinstance(error, HTTPException):
        kind = _OF_STATUS.get(error.status_code, InvalidError if error.status_code < 500 else errors.InternalError)
        return kind(str(error.detail))
    return errors.InternalError("the registry failed; its log has the details under this request's id")


def respond(error: RegistryError, request_id: str = "") -> Response:
    """The answer to a request that failed."""
    verdict = getattr(error, "verdict", None)
    problem = Problem(
        type=type_of(error.code),
        title=title(error.code),
        status=error.status,
        detail=error.message,
        instance=f"urn:request:{request_id}" if request_id else "",
        code=error.code,
        hint=error.hint,
        errors=error.faults,
        verdict=verdict if isinstance(verdict, Verdict) else None,
    )
    headers = {"cache-control": "no-store", CODE_HEADER: error.code}
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, errors.NotAuthorisedError):
        headers["www-authenticate"] = 'Bearer realm="drafters"'
    return Response(msgspec.json.encode(problem), error.status, headers, media_type=PROBLEM_TYPE)
