"""A blob store from its URL."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from urllib.parse import unquote, urlsplit

from drafter_registry.errors import InvalidError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.blobs.store import BlobStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OBJECTS = ("s3", "gs", "az")
_TRUE = {"1", "true", "yes", "on"}
#: A gateway that is gone must be noticed in seconds; the longest request carries one part.
_CONNECT, _READ, _REQUEST = timedelta(seconds=3), timedelta(seconds=20), timedelta(seconds=120)
_RETRIES, _RETRY_FOR = 3, timedelta(seconds=15)


def open_store(url: str) -> BlobStore:
    """The store that a URL names. Nothing is contacted or made yet.

    Args:
        url: Path of a directory, "file:///...", "s3://bucket/prefix", "gs://...", "az://container/prefix". Credentials,
            region and endpoint of a bucket come from the usual environment variables (AWS_*, GOOGLE_*, AZURE_*);
            plain http is spoken only if AWS_ALLOW_HTTP says so.

    Raises:
        InvalidError: No such kind of store, no directory or bucket in it, or credentials where they would be logged.
    """
    match = _SCHEME.match(url)
    if match is None:
        return _directory(url)
    scheme = match[1].lower()
    if scheme == "file":
        return _directory(_file_path(url))
    if scheme in _OBJECTS:
        return _bucket(url, scheme)
    raise InvalidError(
        f"a registry does not keep its blobs in {scheme}", hint="write a directory, s3://, gs:// or az://BUCKET/PREFIX"
    )


def _directory(path: str) -> BlobStore:
    from drafter_registry.blobs.local import LocalStore

    if not path or "\0" in path:
        raise InvalidError("the blob store's directory has no name", hint="set DRAFTERS_STORAGE or DRAFTERS_DATA")
    return LocalStore(path)


def _file_path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        raise InvalidError("a file:// URL names a directory of this machine", hint="write file:///PATH")
    return unquote(parts.path)


def _bucket(url: str, scheme: str) -> BlobStore:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidError(
            f"the {scheme}:// URL holds more than a bucket and a prefix",
            hint="credentials and options belong in the environment (AWS_*, GOOGLE_*, AZURE_*)",
        )
    if not parts.netloc or any(part in {".", ".."} for part in parts.path.split("/")):
        raise InvalidError(f"the {scheme}:// URL names no bucket and prefix", hint=f"write {scheme}://BUCKET/PREFIX")
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    from drafter_registry.blobs.objects import ObjectsStore

    try:
        store = from_url(
            f"{scheme}://{parts.netloc}/{parts.path.strip('/')}",
            client_options={
                "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").strip().lower() in _TRUE,
                "connect_timeout": _CONNECT,
                "read_timeout": _READ,
                "timeout": _REQUEST,
            },
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": _RETRY_FOR,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=2),
                    "base": 2,
                },
            },
        )
    except (BaseError, ValueError):
        # Not `from error`: its text may hold what the environment says.
        raise InvalidError(
            f"the {scheme}:// store cannot be set up", hint="see the environment (AWS_*, GOOGLE_*, AZURE_*)"
        ) from None
    return ObjectsStore(store, url)
