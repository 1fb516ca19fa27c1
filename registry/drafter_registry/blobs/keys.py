"""Where things lie in a store, the same in a directory and in a bucket; what is no digest or upload id gets no place.

Blobs: `blobs/sha256/ab/ab12...`; what is staged of an upload: `uploads/ID`.
"""

from __future__ import annotations

import re

from drafter_registry.errors import DigestError, InvalidError, RangeError
from drafter_registry.names import check_digest, shown

BLOBS = ("blobs", "sha256")
UPLOADS = "uploads"

_UPLOAD = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(r"[0-9a-f]{64}")


def blob_place(digest: str) -> tuple[str, str]:
    """Folder below `BLOBS` and file of a blob.

    Raises:
        InvalidError: No digest.
    """
    hexadecimal = check_digest(digest).removeprefix("sha256:")
    return hexadecimal[:2], hexadecimal


def digest_at(folder: str, name: str) -> str | None:
    """The digest of the blob in that place, or None if no blob belongs there."""
    return f"sha256:{name}" if _HEX.fullmatch(name) and name[:2] == folder else None


def is_upload(upload: str) -> bool:
    """Whether that is an upload id: 32 small hex digits."""
    return _UPLOAD.fullmatch(upload) is not None


def check_upload(upload: str) -> str:
    """The upload id, if it is one.

    Raises:
        InvalidError: It is none.
    """
    if not is_upload(upload):
        raise InvalidError(f"{shown(upload)} is no upload", hint="start one with POST /v1/uploads")
    return upload


def too_few(staged: int, size: int) -> DigestError:
    """The error for an upload of which fewer bytes are staged than are to be committed."""
    return DigestError(f"{staged} bytes are staged, not {size}", hint="start a new upload and send all bytes again")


def other_digest(expected: str, actual: str) -> DigestError:
    """The error for bytes that have another digest than was promised."""
    return DigestError(
        f"the bytes are {actual}, not {expected}",
        hint="they changed on the way, or while they were read: send them again",
    )


def gap(staged: int, offset: int) -> RangeError:
    """The error for bytes that do not continue what is staged."""
    return RangeError(
        f"{staged} bytes are staged, the chunk begins at {offset}", hint="start a new upload: staged bytes were lost"
    )
