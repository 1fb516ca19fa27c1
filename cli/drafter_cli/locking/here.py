"""What a lock and a start both say of this machine: the tool, the engine, and what was pulled."""

from __future__ import annotations

from drafter_cli.cache import drafters as cache
from drafter_contracts.engines.local import known
from drafter_contracts.errors import UnknownReleaseError
from drafter_contracts.locking.document import LockedEngine, locked_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.locking.document import Lock


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


def pulled_directory(lock: Lock) -> str:
    """Where the locked version's own files lie in the cache, whole; "" if they were not pulled.

    Raises:
        UsageError: The settings cannot be read.
    """
    return cache.find_pulled(f"{lock.drafter.name}@{lock.drafter.digest}") or ""
