"""A server's answer that is no success, as the error that the same verb would have raised in this process."""

from __future__ import annotations

import msgspec

from drafter_registry import errors
from drafter_registry.documents import PROBLEM_TYPE, Problem

#: Answers without a code that is known here: those of proxies, and of newer servers.
_BY_STATUS: dict[int, type[errors.RegistryError]] = {
    400: errors.InvalidError,
    401: errors.NotAuthorisedError,
    403: errors.NotAuthorisedError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    412: errors.MovedError,
    413: errors.TooLargeError,
    415: errors.UnsupportedError,
    416: errors.RangeError,
    422: errors.InvalidError,
    429: errors.TooManyRequestsError,
    500: errors.InternalError,
    502: errors.UnavailableError,
    503: errors.UnavailableError,
    504: errors.UnavailableError,
    507: errors.StorageFullError,
}


def error_of(status: int, content_type: str, body: bytes, *, retry_after: int, server: str) -> errors.RegistryError:
    """The error that an answer stands for.

    Args:
        status: HTTP status, 400 or more.
        content_type: As sent.
        body: What came with it.
        retry_after: Seconds the server asks to wait, 0 if it does not.
        server: What to call the server in the message of an answer that is not a registry's.
    """
    problem = _problem(content_type, body)
    if problem is None:
        kind = _BY_STATUS.get(status, errors.InternalError if status >= 500 else errors.InvalidError)
        hint = "is that URL a registry's?" if kind is not errors.NotAuthorisedError else _LOG_IN
        return kind(f"{server} answers HTTP {status}", hint=hint, retry_after=retry_after)
    return _of_problem(problem, retry_after)


_LOG_IN = "set DRAFTERS_TOKEN to a token of that registry"


def _problem(content_type: str, body: bytes) -> Problem | None:
    if content_type.partition(";")[0].strip().lower() != PROBLEM_TYPE:
        return None
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _of_problem(problem: Problem, retry_after: int) -> errors.RegistryError:
    kind = _classes().get(problem.code)
    if kind is None:
        kind = _BY_STATUS.get(problem.status, errors.InternalError if problem.status >= 500 else errors.InvalidError)
    hint = problem.hint or (_LOG_IN if kind is errors.NotAuthorisedError else "")
    if issubclass(kind, errors.RefusedError):
        refused = kind(problem.detail, verdict=problem.verdict, hint=hint)
        refused.faults = problem.errors
        return refused
    return kind(problem.detail, hint=hint, faults=problem.errors, retry_after=retry_after)


def _classes(base: type[errors.RegistryError] = errors.RegistryError) -> dict[str, type[errors.RegistryError]]:
    """Every class below an error by its code; the base of several with one code wins."""
    found = {base.code: base}
    for one in base.__subclasses__():
        for code, kind in _classes(one).items():
            found.setdefault(code, kind)
    return found
