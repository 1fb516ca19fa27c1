"""One writing of a document, so that its digest is its identity: keys sorted, defaults left out, no white space."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TypeVar

import msgspec

from drafter_registry.errors import InvalidError

T = TypeVar("T", bound=msgspec.Struct)


def canonical(document: msgspec.Struct) -> bytes:
    """The document as canonical JSON, UTF-8; as `drafter_contracts.manifest.canonical` writes a manifest."""
    plain = msgspec.to_builtins(document)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def as_sent(document: T) -> T:
    """The document as it would be after a way over HTTP: numbers of its types, every bound kept.

    Raises:
        InvalidError: It is none such.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(document), type=type(document))
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise InvalidError(f"no {type(document).__name__}: {error}") from None


def digest_of(data: bytes) -> str:
    """Digest of canonical bytes, "sha256:...", as `names.check_digest` takes it."""
    return "sha256:" + sha256(data).hexdigest()
