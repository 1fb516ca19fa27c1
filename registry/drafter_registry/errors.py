"""Every exception that a public function of `drafter_registry` raises.

Each has a stable `code` (the `code` of the problem document over HTTP, see docs/api.md) and the HTTP status that the
API answers with. An error may carry several `faults`: all that is wrong is told at once.
"""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong.

    Attributes:
        pointer: Where: a JSON pointer into the request ("/layout/boundaries"), a file, or a query parameter's name.
        message: One sentence.
        expected: What would have been right.
        actual: What was found.
        source: Where the expectation comes from: a file of the drafter and its key or tensor.
    """

    pointer: str
    message: str
    expected: str = ""
    actual: str = ""
    source: str = ""


class RegistryError(Exception):
    """Base of all errors of this package.

    Args:
        message: One sentence for a person.
        hint: The one thing to do next ("" if the message says it).
        faults: Everything that is wrong, if there is more to say than the message.
        retry_after: Seconds after which trying again is worth it; 0 if it is not a matter of time.
    """

    code = "REGISTRY_ERROR"
    status = 500

    def __init__(self, message: str, *, hint: str = "", faults: tuple[Fault, ...] = (), retry_after: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.faults = faults
        self.retry_after = retry_after


class InternalError(RegistryError):
    """A promise of the registry itself was broken; a bug, never the caller's fault."""

    code = "INTERNAL"


class InvalidError(RegistryError):
    """The request cannot be read, or names something impossible."""

    code = "INVALID"
    status = 400


class NotAuthorisedError(RegistryError):
    """No token, or one that is unknown, expired or revoked."""

    code = "NOT_AUTHORISED"
    status = 401


class NotFoundError(RegistryError):
    """There is no such thing, or the token may not see it: the answer is the same."""

    code = "NOT_FOUND"
    status = 404


class MethodError(RegistryError):
    """The address exists, but does not take this method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class NotAcceptableError(RegistryError):
    """The caller accepts no media type that this registry can answer with."""

    code = "NOT_ACCEPTABLE"
    status = 406


class ConflictError(RegistryError):
    """The name and version are taken by other content, or were deleted."""

    code = "CONFLICT"
    status = 409


class NameTakenError(ConflictError):
    """A name that people would confuse with an existing one."""

    code = "NAME_TOO_SIMILAR"


class FullError(ConflictError):
    """The version has as many of these as a registry keeps for one."""

    code = "LIMIT_REACHED"


class MovedError(RegistryError):
    """A compare-and-swap lost: the alias is not where the caller believes."""

    code = "PRECONDITION_FAILED"
    status = 412


class TooLargeError(RegistryError):
    """More bytes than the registry takes."""

    code = "TOO_LARGE"
    status = 413


class UnsupportedError(RegistryError):
    """A media type or schema version that this registry does not speak."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class RangeError(RegistryError):
    """A chunk that does not continue the upload, or a range outside a file."""

    code = "RANGE_NOT_SATISFIABLE"
    status = 416


class ContradictionError(RegistryError):
    """The manifest claims what the stored bytes contradict; `faults` lists every such claim."""

    code = "MANIFEST_CONTRADICTS_FILES"
    status = 422


class IncompleteError(RegistryError):
    """The manifest lacks what a version must say, or names kinds of files that are not stored."""

    code = "MANIFEST_INCOMPLETE"
    status = 422


class RenderedError(RegistryError):
    """The files are a render of a version, made ready for one engine release; a render is never published."""

    code = "IS_A_RENDER"
    status = 422


class BlobsMissingError(IncompleteError):
    """The manifest is right as far as can be told, and names files that were not uploaded; `faults` lists them."""

    code = "BLOBS_MISSING"


class DigestError(RegistryError):
    """The bytes received do not have the digest that was promised."""

    code = "DIGEST_MISMATCH"
    status = 400


class RefusedError(RegistryError):
    """The drafter cannot be served that way; `verdict` says why.

    Args:
        message: One sentence.
        verdict: The whole verdict.
        hint: The one thing to do next.
    """

    code = "REFUSED"
    status = 422

    def __init__(self, message: str, *, verdict: object, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict


class UnknownError(RefusedError):
    """Whether the drafter can be served that way is not known; `verdict` says what would settle it."""

    code = "UNDECIDED"
    status = 422


class TooManyRequestsError(RegistryError):
    """Too many failed attempts from one address, or too many reports of one engine or token."""

    code = "TOO_MANY_REQUESTS"
    status = 429


class HeadersTooLargeError(RegistryError):
    """Address and headers of a request are longer than the registry reads."""

    code = "HEADERS_TOO_LARGE"
    status = 431


class UnavailableError(RegistryError):
    """The database or the blob store does not answer."""

    code = "UNAVAILABLE"
    status = 503


class StorageFullError(RegistryError):
    """The blob store has no room left."""

    code = "STORAGE_FULL"
    status = 507


class IntegrityError(RegistryError):
    """Stored bytes do not have their digest any more."""

    code = "INTEGRITY"
    status = 500


class SchemaError(RegistryError):
    """The database's schema is older or newer than this release knows."""

    code = "DATABASE_SCHEMA"
    status = 503
