"""The profiles that are shipped: one JSON document per engine release, and what a scan cannot see (advisories)."""

from __future__ import annotations

import os

import msgspec

from drafter_contracts.engines.profile import SCAN_VERSION, SCHEMA, Advisory, Profile
from drafter_contracts.errors import ProfileError, UnknownReleaseError

_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
_ADVISORIES = "advisories.json"
#: Decoders are built once: that is most of the cost of reading a profile.
_PROFILE = msgspec.json.Decoder(Profile)


def version_key(release: str) -> tuple[tuple[int, ...], int, int, str]:
    """Order of releases: numbers, then release candidates before and post-releases after the plain one."""
    plain, _, post = release.partition(".post")
    plain, _, candidate = plain.partition("rc")
    numbers = tuple(int(part) if part.isdigit() else 0 for part in plain.split("."))
    before = int(candidate) - 1_000_000 if candidate.isdigit() else 0
    return numbers, before, int(post) if post.isdigit() else 0, release


def releases(engine: str) -> tuple[str, ...]:
    """Releases of an engine that a profile is shipped for, oldest first."""
    try:
        names = os.listdir(os.path.join(_DATA, engine))
    except OSError:
        return ()
    found = (name.removesuffix(".json") for name in names if name.endswith(".json") and name != _ADVISORIES)
    return tuple(sorted(found, key=version_key))


def load_profile(engine: str, release: str) -> Profile:
    """The shipped profile of a release.

    Args:
        engine: "sglang".
        release: Version as published, e.g. "0.5.12.post1".

    Raises:
        UnknownReleaseError: None is shipped; the message says which are and how to make one.
        ProfileError: The shipped file is damaged.
    """
    name = os.path.basename(release)
    path = os.path.join(_DATA, os.path.basename(engine), f"{name}.json")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        raise UnknownReleaseError(
            f"no profile is shipped for {engine} {release}; `drafters engine scan PATH_OR_WHEEL` derives one from the "
            "release itself",
            expected=", ".join(releases(engine)) or "a shipped release",
            actual=release,
        ) from None
    return decode(data, path)


def decode(data: bytes, where: str) -> Profile:
    """A profile document.

    Args:
        data: The JSON document.
        where: Where it came from, for messages.

    Raises:
        ProfileError: It is not a profile, or one of another schema.
    """
    try:
        profile = _PROFILE.decode(data)
    except msgspec.MsgspecError as error:
        raise ProfileError("not an engine profile", where=where, actual=str(error)) from None
    if profile.schema != SCHEMA:
        raise ProfileError("a profile of another schema", where=where, expected=SCHEMA, actual=profile.schema)
    if profile.scan_version > SCAN_VERSION:
        raise ProfileError(
            "a profile in a newer rule language than this version reads",
            where=where,
            expected=f"scan_version {SCAN_VERSION} at most",
            actual=str(profile.scan_version),
        )
    return profile


def load_advisories(engine: str) -> tuple[Advisory, ...]:
    """What is known of an engine beyond its profiles.

    Raises:
        ProfileError: The shipped file is damaged.
    """
    path = os.path.join(_DATA, os.path.basename(engine), _ADVISORIES)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=tuple[Advisory, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise ProfileError("not an advisories file", where=path, actual=str(error)) from None


def advisories_for(advisories: tuple[Advisory, ...], release: str) -> tuple[Advisory, ...]:
    """Those of `advisories` whose range of releases contains `release`."""
    key = version_key(release)
    return tuple(
        advisory
        for advisory in advisories
        if (not advisory.first or version_key(advisory.first) <= key)
        and (not advisory.last or key <= version_key(advisory.last))
    )
