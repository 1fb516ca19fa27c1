"""The vLLM profiles that are shipped: one plain document per release."""

from __future__ import annotations

import os
from functools import lru_cache

import msgspec

from drafter_contracts.engines.versions import version_key
from drafter_contracts.engines.vllm.profile import ENGINE, SCHEMA, VllmProfile
from drafter_contracts.errors import ProfileError, UnknownReleaseError

#: Folder of the documents.
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", ENGINE)
_SUFFIX = ".json"


def releases() -> tuple[str, ...]:
    """Releases that a profile is shipped for, oldest first."""
    try:
        names = os.listdir(DATA)
    except OSError:
        return ()
    return tuple(sorted((n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX)), key=version_key))


def document(release: str) -> bytes:
    """The document of a release, byte for byte as a scan writes it.

    Raises:
        UnknownReleaseError: None is shipped.
    """
    try:
        with open(_path(release), "rb") as file:
            return file.read()
    except OSError:
        raise UnknownReleaseError(
            f"no profile is shipped for {ENGINE} {release}; `drafters engine scan WHEEL` derives one, and a path to it "
            "may stand in place of the release",
            expected=", ".join(releases()),
            actual=release,
        ) from None


@lru_cache(maxsize=16)
def load_profile(release: str) -> VllmProfile:
    """The shipped profile of a release.

    Raises:
        UnknownReleaseError: None is shipped.
        ProfileError: The shipped file is damaged.
    """
    return decode(document(release), _path(release))


def _path(release: str) -> str:
    return os.path.join(DATA, os.path.basename(release) + _SUFFIX)


def decode(data: bytes, where: str) -> VllmProfile:
    """A profile document.

    Raises:
        ProfileError: It is none, or one of another schema.
    """
    try:
        profile = msgspec.json.decode(data, type=VllmProfile)
    except msgspec.MsgspecError as error:
        raise ProfileError("not a vLLM profile", where=where, actual=str(error)) from None
    if profile.schema != SCHEMA:
        raise ProfileError("a profile of another schema", where=where, expected=SCHEMA, actual=profile.schema)
    return profile
