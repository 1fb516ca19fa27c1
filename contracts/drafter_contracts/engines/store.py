"""The profiles that are shipped: one per engine release (see `recipe`), and what a scan cannot see (advisories)."""

from __future__ import annotations

import os
from mmap import ACCESS_READ, mmap

import msgspec

from drafter_contracts.engines import recipe
from drafter_contracts.engines.profile import Advisory, Profile, check_schema
from drafter_contracts.engines.versions import version_key
from drafter_contracts.errors import ProfileError, UnknownReleaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.elsewhere import Asked, OtherRelease

__all__ = [
    "advisories_for",
    "decode",
    "document",
    "elsewhere",
    "load_advisories",
    "load_profile",
    "releases",
    "version_key",
]

#: Folder that holds one store per engine.
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
#: The shared lines, and the folder of recipes, below an engine's folder.
LINES = "lines.txt"
RECIPES = "recipes"
_ADVISORIES = "advisories.json"
#: Decoders are built once: that is most of the cost of reading a profile.
_PROFILE = msgspec.json.Decoder(Profile)


def releases(engine: str, *, data: str = DATA) -> tuple[str, ...]:
    """Releases of an engine that a profile is shipped for, oldest first."""
    try:
        names = os.listdir(os.path.join(data, engine, RECIPES))
    except OSError:
        return ()
    return tuple(sorted((name.removesuffix(".json") for name in names if name.endswith(".json")), key=version_key))


def load_profile(engine: str, release: str, *, data: str = DATA) -> Profile:
    """The shipped profile of a release.

    Args:
        engine: "sglang".
        release: Version as published, e.g. "0.5.12.post1".
        data: Folder that holds one store per engine.

    Raises:
        UnknownReleaseError: None is shipped; the message says which are and how to make one.
        ProfileError: The shipped files are damaged.
    """
    where = _recipe_path(engine, release, data)
    profile = decode(document(engine, release, data=data), where)
    if (profile.engine, profile.release) != (engine, release):
        raise ProfileError(
            "a profile of another release", where=where, expected=f"{engine} {release}", actual=profile.name
        )
    return profile


def document(engine: str, release: str, *, data: str = DATA) -> bytes:
    """The canonical document of a shipped profile, byte for byte as a scan writes it.

    Args:
        engine: "sglang".
        release: Version as published.
        data: Folder that holds one store per engine.

    Raises:
        UnknownReleaseError: None is shipped.
        ProfileError: The shipped files are damaged.
    """
    wanted = _recipe(engine, release, data)
    with _lines(engine, data) as lines:
        return recipe.document(wanted, lines, _recipe_path(engine, release, data))


def elsewhere(engine: str, release: str, asked: Asked, *, data: str = DATA) -> tuple[OtherRelease, ...]:
    """What every other shipped release does with a drafter and target, oldest first.

    Args:
        engine: "sglang".
        release: The release that is left out.
        asked: Which drafter and target.
        data: Folder that holds one store per engine.

    Raises:
        ProfileError: The shipped files are damaged.
    """
    from drafter_contracts.engines.elsewhere import answer

    fields = asked.fields()
    found = []
    with _lines(engine, data) as lines:
        for other in releases(engine, data=data):
            if other == release:
                continue
            where = _recipe_path(engine, other, data)
            excerpt = recipe.document(_recipe(engine, other, data), lines, where, fields)
            found.append(answer(excerpt, asked, where))
    return tuple(found)


def _recipe_path(engine: str, release: str, data: str) -> str:
    return os.path.join(data, os.path.basename(engine), RECIPES, f"{os.path.basename(release)}.json")


def _recipe(engine: str, release: str, data: str) -> recipe.Recipe:
    path = _recipe_path(engine, release, data)
    try:
        with open(path, "rb") as file:
            return recipe.decode(file.read(), path)
    except OSError:
        known = releases(engine, data=data)
        raise UnknownReleaseError(
            f"no profile is shipped for {engine} {release}; `drafters engine scan PATH_OR_WHEEL` derives one from the "
            "release itself",
            expected=f"one of {len(known)} shipped releases from {known[0]} to {known[-1]}" if known else "",
            actual=release,
        ) from None


def _lines(engine: str, data: str) -> mmap:
    """The shared lines, mapped: only the pages that a profile needs are read."""
    path = os.path.join(data, os.path.basename(engine), LINES)
    try:
        with open(path, "rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise ProfileError("the shipped profiles cannot be read", where=path, actual=str(error)) from None


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
    check_schema(profile.schema, profile.scan_version, where)
    return profile


def load_advisories(engine: str) -> tuple[Advisory, ...]:
    """What is known of an engine beyond its profiles.

    Raises:
        ProfileError: The shipped file is damaged.
    """
    path = os.path.join(DATA, os.path.basename(engine), _ADVISORIES)
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
