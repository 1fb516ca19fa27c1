"""The engine releases that the registry knows: by name alone, never by what is installed on its machine."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from drafter_contracts import check
from drafter_contracts.engines.local import known
from drafter_contracts.engines.profile import Advisory, Profile
from drafter_contracts.engines.store import advisories_for, load_advisories
from drafter_contracts.engines.vllm import profile as vllm_profiles
from drafter_contracts.errors import UnknownReleaseError
from drafter_contracts.serving.launch import Invocation, ServingConfig
from drafter_contracts.verdict import Verdict
from drafter_registry.errors import InvalidError
from drafter_registry.names import shown

ENGINE = "sglang"
#: An engine that is resolved for, and whose launches nobody judges.
VLLM = vllm_profiles.ENGINE
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


def read_resolved(text: str) -> str:
    """What to resolve for: the release in "sglang==0.5.23", or the whole of "vllm==0.33.0".

    Raises:
        InvalidError: It is none.
    """
    engine, _, release = text.partition("==")
    if engine == VLLM and _RELEASE.fullmatch(release):
        return text
    if engine != ENGINE or not _RELEASE.fullmatch(release):
        raise InvalidError(f"{shown(text)} names no engine release", hint=f"write {ENGINE}==VERSION or {VLLM}==VERSION")
    return release


def vllm_release(key: str) -> str:
    """The release of vLLM in what `read_resolved` gave; "" for one of another engine."""
    engine, found, release = key.partition("==")
    return release if found and engine == VLLM else ""


def find_vllm(release: str) -> vllm_profiles.VllmProfile | None:
    """A release of vLLM by its version; None if nothing is known of it.

    Raises:
        ProfileError: The shipped file is damaged.
    """
    from drafter_contracts.engines.vllm import store

    try:
        return store.load_profile(release)
    except UnknownReleaseError:
        return None


def find_resolved(key: str) -> Known | vllm_profiles.VllmProfile | None:
    """The release of what `read_resolved` gave; None if nothing is known of it.

    Raises:
        ProfileError: The shipped files are damaged.
    """
    other = vllm_release(key)
    return find_vllm(other) if other else find(key)


def newest() -> Profile:
    """The newest shipped release, by whose rules a config for another engine stays right for this one."""
    from drafter_contracts.engines.store import releases

    return _shipped(releases(ENGINE)[-1]).profile


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
    """What is said of a release that nothing is known of.

    Args:
        release: As `read_resolved` gives it.
        drafter: What to call the drafter.
    """
    other = vllm_release(release)
    situation = check.assemble(
        serving=ServingConfig(Invocation(())),
        engine=f"{VLLM} {other}" if other else f"{ENGINE} {release}",
        engine_problem="no profile of that release is shipped or was added here",
        engine_remedy=f"Known of {VLLM}: {', '.join(_vllm_releases())}." if other else known.advice(release),
        drafter_name=drafter,
    )
    return check.run(situation)


def _vllm_releases() -> tuple[str, ...]:
    from drafter_contracts.engines.vllm.store import releases

    return releases()
