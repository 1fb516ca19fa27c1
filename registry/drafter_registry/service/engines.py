"""The engine releases that the registry knows: by name alone, never by what is installed on its machine."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from drafter_contracts import check
from drafter_contracts.engines.local import known
from drafter_contracts.engines.profile import Advisory, Profile
from drafter_contracts.engines.store import advisories_for, load_advisories
from drafter_contracts.errors import UnknownReleaseError
from drafter_contracts.serving.launch import Invocation, ServingConfig
from drafter_contracts.verdict import Verdict
from drafter_registry.errors import InvalidError
from drafter_registry.names import shown

ENGINE = "sglang"
_RELEASE = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,63}")
#: Most profiles kept decoded in this process. One has about 1 MB.
_PROFILES = 16


class Known(msgspec.Struct, frozen=True):
    """A release, what is known of it beyond its profile, and whether that can change while this process runs."""

    profile: Profile
    advisories: tuple[Advisory, ...]
    fixed: bool = True


def read_engine(text: str) -> str:
    """The release in "sglang==0.5.23".

    Raises:
        InvalidError: It is none.
    """
    engine, _, release = text.partition("==")
    if engine != ENGINE or not _RELEASE.fullmatch(release):
        raise InvalidError(f"{shown(text)} names no engine release", hint=f"write {ENGINE}==VERSION")
    return release


def find(release: str) -> Known | None:
    """A release by its version; None if nothing is known of it.

    Raises:
        ProfileError: The shipped files are damaged.
    """
    try:
        return _shipped(release)
    except UnknownReleaseError:
        pass
    try:
        added = known.load(ENGINE, release)
    except UnknownReleaseError:
        return None
    return Known(added.profile, advisories_for(load_advisories(ENGINE), release), fixed=False)


@lru_cache(maxsize=_PROFILES)
def _shipped(release: str) -> Known:
    """Shipped profiles never change while a process runs; those that were added may."""
    from drafter_contracts.engines.store import load_profile

    return Known(load_profile(ENGINE, release), advisories_for(load_advisories(ENGINE), release))


def unknown_release(release: str, drafter: str) -> Verdict:
    """What is said of a release that nothing is known of."""
    situation = check.assemble(
        serving=ServingConfig(Invocation(())),
        engine=f"{ENGINE} {release}",
        engine_problem="no profile of that release is shipped or was added here",
        engine_remedy=known.advice(release),
        drafter_name=drafter,
    )
    return check.run(situation)
