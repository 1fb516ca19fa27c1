"""Media types of the manifest: what is given, what is taken, and what is said when they do not meet."""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import ManifestError
from drafter_contracts.manifest import MEDIA_TYPE, SCHEMA, Manifest, decode
from drafter_registry.api import bodies
from drafter_registry.errors import Fault, InvalidError, NotAcceptableError, UnsupportedError


def check_accept(header: str, given: tuple[str, ...]) -> None:
    """Return if an Accept header allows one of the types that can be given.

    Raises:
        NotAcceptableError: It allows none; names what can be given.
    """
    if not header.strip():
        return
    for one in header.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
        if any(part.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for part in parameters):
            continue
        if kind in given or kind == "*/*" or (kind.endswith("/*") and any(t.startswith(kind[:-1]) for t in given)):
            return
    raise NotAcceptableError(
        f"Accept is {header[:120]!r}", hint="this registry answers with " + " or ".join(given) + f" ({SCHEMA})"
    )


def decode_manifest(data: bytes) -> Manifest:
    """A manifest from a request.

    Raises:
        UnsupportedError: A schema version that this registry does not know.
        InvalidError: Not JSON or not a manifest; `faults` names every field that is wrong.
    """
    try:
        return decode(data, where="")
    except ManifestError as error:
        _check_schema(data)
        bodies.decode(data, Manifest)  # names every fault, where the shape is at fault
        field = error.where.lstrip(": ").replace("[", ".").replace("]", "")
        pointer = "/" + field.replace(".", "/")
        fault = Fault(pointer=pointer, message=error.message, expected=error.expected, actual=error.actual)
        raise InvalidError("the manifest is not possible", faults=(fault,)) from None
    except RecursionError:
        raise InvalidError("the body is nested too deeply", hint="no document here needs it") from None


def _check_schema(data: bytes) -> None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, str) and schema != SCHEMA:
        raise UnsupportedError(
            f"the manifest's schema is {schema[:80]!r}", hint=f"this registry speaks {SCHEMA} ({MEDIA_TYPE})"
        )
