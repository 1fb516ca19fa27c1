"""Arguments that the commands about profiles share: a release or a scanned profile, a class, a method, a depth."""

from __future__ import annotations

from drafter_cli.commandline import Option
from drafter_cli.errors import UsageError
from drafter_cli.gate_options import is_path, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from drafter_contracts.engines.profile import Profile

ENGINE = "sglang"
METHOD = Option(
    "--method",
    "one method only; default: all that the class captures for",
    "EAGLE3|DFLASH|DSPARK",
    choices=("EAGLE3", "DFLASH", "DSPARK"),
)


def load(text: str) -> Profile:
    """A shipped or added profile by release, a scanned one by its file, or that of what lies at a path.

    Raises:
        UsageError: The file cannot be read, or what lies at the path has no profile.
        ProfileError: It is no profile, or no such release is known.
    """
    from drafter_contracts import limits
    from drafter_contracts.checkpoint.regular import read_capped
    from drafter_contracts.engines.local import known
    from drafter_contracts.engines.store import decode
    from drafter_contracts.errors import CheckpointError

    if not is_path(text):
        return known.load(ENGINE, release(text)).profile
    if not text.endswith(".json"):
        from drafter_cli.launched_engine import engine_at_path

        found = engine_at_path(text)
        if found.profile is None:
            raise UsageError(found.problem, found.remedy)
        return found.profile
    try:
        return decode(read_capped(text, limits.profile_max_bytes), text)
    except CheckpointError as error:
        why = ": ".join(filter(None, (error.message, error.expected, error.actual)))
        raise UsageError(f"{text} cannot be read as a profile: {why}") from None


def known_releases() -> list[str]:
    """Every release that is shipped, or was added and is current, oldest first."""
    from drafter_contracts.engines.local import known

    return [release for release, source in known.releases(ENGINE).items() if source != known.STALE]


def every() -> tuple[Profile, ...]:
    """The profile of every known release, oldest first."""
    return tuple(load(one) for one in known_releases())


def between(before: Profile, after: Profile) -> tuple[Profile, ...]:
    """The known releases between two, oldest first; none where the two are in no such order."""
    from drafter_contracts.engines.versions import version_key

    low, high = version_key(before.release), version_key(after.release)
    return tuple(load(one) for one in known_releases() if low < version_key(one) < high)


def check_class(profiles: Iterable[Profile], architecture: str, *, drafters: bool = False) -> None:
    """A class that one of these releases knows.

    Args:
        profiles: The releases.
        architecture: Name of the class.
        drafters: Whether a drafter class will do, too.

    Raises:
        UsageError: None of them does; names the nearest.
    """
    known = {name for profile in profiles for name in (*profile.targets, *(profile.drafters if drafters else ()))}
    if architecture in known:
        return
    from drafter_cli.nearest import nearest

    close = nearest(architecture, sorted(known))
    raise UsageError(
        f"no such release registers a class {architecture}",
        f"did you mean {close}?" if close else "see drafters engine show RELEASE",
    )


def layers(name: str, text: str) -> int | None:
    """A number of decoder layers, None for "".

    Raises:
        UsageError: It is none, or more than any target has.
    """
    if not text:
        return None
    from drafter_contracts import limits

    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 0 < value <= limits.target_max_layers:
        raise UsageError(f"{name} is {text!r}", f"write a number of decoder layers: {name} 61")
    return value
