"""What is asked of the Hugging Face Hub, through `huggingface_hub`: one commit's files, whole files, ranges of files.

The library's own variables hold: HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HUB_OFFLINE. Its errors become ours here.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager

import msgspec

from drafter_cli.client.connect import missing_extra
from drafter_cli.errors import UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Seconds without an answer.
_TIMEOUT = 30
_CHUNK = 64 * 1024


class HubFile(msgspec.Struct, frozen=True):
    """One file of a commit.

    Attributes:
        path: Relative, with "/".
        size: Bytes.
        sha256: Of its bytes, as Git LFS keeps it; "" for a file that lies in Git itself.
    """

    path: str
    size: int
    sha256: str = ""


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids to ask the Hub."""
    with _library():
        from huggingface_hub import constants
    return bool(constants.is_offline_mode())


def files_of(repository: str, revision: str) -> tuple[str, tuple[HubFile, ...]]:
    """The commit that a revision stands for now, and its files.

    Args:
        repository: "ORG/REPO".
        revision: Branch, tag or commit; "" for the default branch.

    Raises:
        UsageError: No such repository or revision, or no access.
        UnreachableError: The Hub does not answer, or not as it should.
    """
    with _library():
        from huggingface_hub import HfApi
    with _translated(repository, revision):
        info = HfApi().model_info(repository, revision=revision or None, files_metadata=True, timeout=_TIMEOUT)
    commit = info.sha or ""
    if not _COMMIT.fullmatch(commit):
        raise UnreachableError(f"the Hub names no commit for {repository}", "is HF_ENDPOINT a Hub?")
    files = []
    for sibling in info.siblings or ():
        size = sibling.lfs.size if sibling.lfs is not None else sibling.size
        sha256 = sibling.lfs.sha256 if sibling.lfs is not None else ""
        if size is None or (sha256 and not _SHA256.fullmatch(sha256)):
            raise UnreachableError(f"the Hub says no size or digest of {sibling.rfilename} in {repository}")
        files.append(HubFile(sibling.rfilename, size, sha256))
    return commit, tuple(sorted(files, key=lambda file: file.path))


def download(repository: str, commit: str, path: str) -> str:
    """A file in this machine's Hub cache, fetched if it is not there; returns its path.

    Raises:
        UsageError: No such file, or no access.
        UnreachableError: The Hub does not answer.
    """
    with _library():
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import disable_progress_bars
    if not sys.stderr.isatty():
        disable_progress_bars()
    with _translated(repository, commit):
        return str(hf_hub_download(repository, path, revision=commit))


def read_range(repository: str, commit: str, path: str, start: int, count: int) -> bytes:
    """Bytes of a file, and no more of it than that, even from a server that ignores ranges.

    Args:
        repository: "ORG/REPO".
        commit: Its commit.
        path: The file.
        start: First byte.
        count: How many.

    Returns:
        `count` bytes, fewer if the file ends before.

    Raises:
        UsageError: No such file, or no access.
        UnreachableError: The Hub does not answer, or with another range.
    """
    with _library():
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status
    if count <= 0:
        return b""
    headers = build_hf_headers() | {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
    with (
        _translated(repository, commit),
        get_session().stream(
            "GET", hf_hub_url(repository, path, revision=commit), headers=headers, timeout=_TIMEOUT
        ) as answer,
    ):
        hf_raise_for_status(answer)
        skip = start
        if answer.status_code == 206:
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise UnreachableError(f"the Hub answered with another range of {path}")
            skip = 0
        taken = bytearray()
        for chunk in answer.iter_raw(_CHUNK):
            taken += chunk
            if len(taken) >= skip + count:
                break
    return bytes(taken[skip : skip + count])


@contextmanager
def _library() -> Iterator[None]:
    """Imports of the library: its absence is told in words, and it counts nobody who did not ask for it."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra("hf://", "hub", error) from None


@contextmanager
def _translated(repository: str, revision: str) -> Iterator[None]:
    """The library's errors as ours. A message of the library may hold a URL with a signature: none is repeated."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    name = f"{repository}@{revision}" if revision else repository
    access = "for a private or gated repository, run: hf auth login"
    try:
        yield
    except errors.GatedRepoError:
        raise UsageError(f"{repository} is gated, and this token has no access", access) from None
    except errors.RepositoryNotFoundError:
        raise UsageError(f"the Hub has no model {repository}, or not for this token", access) from None
    except errors.RevisionNotFoundError:
        raise UsageError(f"{repository} has no revision {revision!r}", "give a branch, a tag or a commit") from None
    except errors.EntryNotFoundError as error:
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _unreachable(name) from None
        raise UsageError(f"a file that the Hub listed is not in {name}", "try again") from None
    except (errors.HFValidationError, errors.HfUriError):
        raise UsageError(f"{name} is no model on the Hub", "write hf://ORG/REPO[@REVISION]") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in {401, 403}:
            raise UsageError(f"the Hub does not let this token read {name} ({status})", access) from None
        raise UnreachableError(f"the Hub answers {status} for {name}", "try again later") from None
    except (HTTPError, errors.OfflineModeIsEnabled, errors.FileMetadataError, ValueError):
        raise _unreachable(name) from None


def _unreachable(name: str) -> UnreachableError:
    return UnreachableError(
        f"the Hub does not answer about {name}", "HF_HUB_OFFLINE=1 takes what is in this machine's Hub cache"
    )
