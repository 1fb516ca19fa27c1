"""A lock made from an answered question."""

from __future__ import annotations

import msgspec

from drafter_cli.cache import drafters as cache
from drafter_cli.errors import UsageError
from drafter_cli.launched_engine import ENGINE
from drafter_cli.locking.directory import digests
from drafter_contracts.engines.local import known
from drafter_contracts.errors import InternalError, UnknownReleaseError
from drafter_contracts.launch.options import DRAFT_PATH, spelled
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER
from drafter_contracts.locking.document import (
    SCHEMA,
    Lock,
    LockedDrafter,
    LockedEngine,
    LockedRender,
    LockedTarget,
    config_digest,
    locked_engine,
    locked_verdict,
    sealed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.locking.question import Asking
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import Manifest
    from drafter_registry.documents import Resolution


class Made(msgspec.Struct, frozen=True):
    """A lock, and where the directory that it speaks of lies on this machine."""

    lock: Lock
    directory: str


def tool() -> str:
    """This program and its version."""
    from drafter_cli.main import version

    return f"drafter-registry {version()}"


def engine_of(profile: Profile) -> LockedEngine:
    """The engine of a profile: as published, if its release's own profile is that very one."""
    try:
        published = known.load(profile.engine, profile.release).profile == profile
    except UnknownReleaseError:
        published = False
    return locked_engine(profile, published=published)


def make(asking: Asking, resolution: Resolution) -> Made:
    """The lock of a resolution whose flags name the drafter's directory.

    Args:
        asking: The question.
        resolution: The answer, computed here.

    Raises:
        UsageError: An engine that no start can be held against, or files that cannot be read.
        ContractsError: The target's config cannot be read.
    """
    profile = asking.asked.engine.profile
    if profile is None or resolution.manifest is None or resolution.verdict is None:
        raise InternalError("a launch was resolved for an engine of which nothing is known", where=resolution.engine)
    if profile.engine != ENGINE:
        raise UsageError(f"starts of {resolution.engine} are not guarded", f"a lock is for {ENGINE}")
    directory = _directory(resolution.flags, profile)
    changed = resolution.config is not None or resolution.weights.any
    render = LockedRender(changes=resolution.config_changes, order=resolution.weights.order) if changed else None
    lock = Lock(
        schema=SCHEMA,
        tool=tool(),
        asked=asking.question,
        drafter=LockedDrafter(
            name=resolution.name,
            version=resolution.version,
            digest=resolution.digest,
            fingerprint=resolution.fingerprint,
            files=digests(directory),
        ),
        render=render,
        engine=engine_of(profile),
        target=_target(asking, resolution.manifest),
        flags=tuple(PATH_PLACEHOLDER if flag == directory else flag for flag in resolution.flags),
        options=asking.options,
        verdict=locked_verdict(resolution.verdict),
    )
    return Made(sealed(lock), directory)


def _directory(flags: tuple[str, ...], profile: Profile) -> str:
    name = spelled(profile, DRAFT_PATH)
    at = flags.index(name) + 1 if name in flags else len(flags)
    if at >= len(flags):
        raise UsageError("the flags name no directory of the drafter's files", "only what is fetched can be locked")
    return flags[at]


def _target(asking: Asking, manifest: Manifest) -> LockedTarget:
    """The target's digests, as far as its config is on this machine."""
    asked = asking.asked
    facts = asked.target_here(manifest)
    name = asked.target or manifest.target.model
    if facts is None:
        return LockedTarget(name=name)
    wanted = bool(manifest.target.tokenizer_sha256)
    tokenizer = facts.tokenizer_sha256 if wanted else ""
    return LockedTarget(name=name, config_sha256=config_digest(facts.config), tokenizer_sha256=tokenizer)


def pulled_directory(lock: Lock) -> str:
    """Where the locked version's own files lie in the cache, whole; "" if they were not pulled.

    Raises:
        UsageError: The settings cannot be read.
    """
    return cache.find_pulled(f"{lock.drafter.name}@{lock.drafter.digest}") or ""
