"""The profile of a release by its name: the shipped one, else the one added here. Never that of a neighbour."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines import store
from drafter_contracts.engines.local import kept
from drafter_contracts.engines.local.folder import profiles_folder
from drafter_contracts.engines.versions import version_key
from drafter_contracts.errors import UnknownReleaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile

SHIPPED, ADDED = "shipped", "added"
#: Added by another version of the scanner, or damaged: not used.
STALE = "stale"


class Known(msgspec.Struct, frozen=True):
    """The profile of a release.

    Attributes:
        profile: The profile.
        source: `SHIPPED` or `ADDED`.
        origin: For an added one: the path that was scanned.
    """

    profile: Profile
    source: str
    origin: str = ""


def advice(release: str) -> str:
    """The one thing to do about a release that is not known."""
    return f"Run `drafters engine update {release}`, which derives its profile from the release itself."


def releases(engine: str) -> dict[str, str]:
    """Every release that is shipped or was added, oldest first, to `SHIPPED`, `ADDED` or `STALE`."""
    folder = profiles_folder()
    found = dict.fromkeys(store.releases(engine), SHIPPED)
    for release in kept.added_releases(folder, engine):
        if release not in found:
            added = kept.read_added(folder, engine, release)
            found[release] = ADDED if added is not None and added.current else STALE
    return {release: found[release] for release in sorted(found, key=version_key)}


def load(engine: str, release: str) -> Known:
    """The profile of a release.

    Args:
        engine: "sglang".
        release: Version as published.

    Raises:
        UnknownReleaseError: It is neither shipped nor added; the message says how to add it.
        ProfileError: The shipped file is damaged.
    """
    try:
        return Known(store.load_profile(engine, release), SHIPPED)
    except UnknownReleaseError as error:
        found = kept.read_added(profiles_folder(), engine, release)
        if found is not None and found.current:
            return Known(found.profile, ADDED, found.origin)
        expected = error.expected
    stale = "; the one added here was made by another version of drafters" if found is not None else ""
    raise UnknownReleaseError(
        f"no profile of {engine} {release} is shipped{stale}; run `drafters engine update {release}`",
        expected=expected,
        actual=release,
    )
