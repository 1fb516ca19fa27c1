"""What an object store's errors mean, in words that hold no address, signature or credential."""

from __future__ import annotations

import re
from contextlib import contextmanager

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from drafter_registry.errors import RangeError, RegistryError, StorageFullError, UnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS = re.compile(r"status code: (\d{3})")
_FULL = re.compile(r"InsufficientStorage|StorageFull|QuotaExceeded|no space left", re.IGNORECASE)
_SLOW = re.compile(r"kind: Timeout|TimedOut|timed out")
_SCHEME = re.compile(r"BadScheme")
_UNREACHABLE = re.compile(r"kind: Connect|ConnectError|ConnectionRefused|refused|dns error")


class NoBucketError(UnavailableError):
    """There is no such bucket."""


@contextmanager
def translated() -> Iterator[None]:
    """Errors of an object store as the registry's own. Where an object may be missing, the caller asks inside.

    Raises:
        StorageFullError: It says that it is full.
        RangeError: A range that begins behind the object's end.
        NoBucketError: The bucket is missing.
        UnavailableError: Anything else.
    """
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError):
        raise _refused() from None
    except FileNotFoundError:
        raise _no_bucket() from None
    except BaseError as error:
        # Not `from error`: its text holds the request's address, which may be signed.
        raise _meaning(str(error)) from None


def _no_bucket() -> NoBucketError:
    return NoBucketError("the object store has no such bucket", hint="make it, or correct DRAFTERS_STORAGE")


def _refused() -> UnavailableError:
    return UnavailableError(
        "the object store refuses the registry's credentials",
        hint="see what the registry's environment gives it (AWS_*, GOOGLE_*, AZURE_*), and what the bucket allows",
    )


def _meaning(text: str) -> RegistryError:
    status = _STATUS.search(text)
    if (status and status[1] == "507") or _FULL.search(text):
        return StorageFullError("the object store has no room left", hint="free some, or run drafters gc")
    if "NoSuchBucket" in text:
        return _no_bucket()
    if status and status[1] == "416":
        return RangeError("the range begins behind the object's end")
    if _SCHEME.search(text):
        return UnavailableError(
            "the object store's address is plain http, which is not allowed", hint="set AWS_ALLOW_HTTP=true"
        )
    if status and status[1] in {"401", "403"}:
        return _refused()
    if status:
        return UnavailableError(f"the object store answers with HTTP {status[1]}", retry_after=5)
    if _UNREACHABLE.search(text):
        return UnavailableError("the object store cannot be reached", retry_after=5)
    if _SLOW.search(text):
        return UnavailableError("the object store does not answer in time", retry_after=5)
    return UnavailableError("the object store cannot be used", retry_after=5)
