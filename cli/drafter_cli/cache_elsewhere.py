"""Files of a version that the registry does not keep: fetched from where its manifest says, verified like others."""

from __future__ import annotations

import re

from drafter_cli.errors import UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HUB = re.compile(r"hf://([A-Za-z0-9._-]+/[A-Za-z0-9._-]+)@([0-9a-f]{40})/([A-Za-z0-9_][A-Za-z0-9._+/-]*)")
_READ_BYTES = 1024 * 1024


def stream(elsewhere: str, start: int) -> Iterator[bytes]:
    """Bytes of a file that is elsewhere, from `start`.

    Args:
        elsewhere: "hf://ORG/REPO@COMMIT/PATH".
        start: Where to begin.

    Raises:
        UsageError: A place that is not known, or the Hub's library is not installed.
        UnreachableError: The Hub does not have it, or cannot be reached.
    """
    match = _HUB.fullmatch(elsewhere)
    if match is None or ".." in elsewhere:
        raise UsageError(f"{elsewhere!r} is no place that files are fetched from", "known is hf://ORG/REPO@COMMIT/PATH")
    with open(_from_hub(*match.groups()), "rb", buffering=0) as file:
        file.seek(start)
        while data := file.read(_READ_BYTES):
            yield data


def _from_hub(repository: str, commit: str, path: str) -> str:
    """The file in the Hub's cache, downloaded if need be."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        from drafter_cli.connect import missing_extra

        raise missing_extra(f"{path}, which stays on the Hugging Face Hub,", "hub", error) from None
    try:
        return str(hf_hub_download(repository, path, revision=commit))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreachableError(f"{path} of {repository} at {commit[:12]} cannot be had from the Hub: {said}") from None
