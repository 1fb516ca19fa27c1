"""What a rule is, and the words that all rules share."""

from __future__ import annotations

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from drafter_contracts.engines.elsewhere import OtherRelease
    from drafter_contracts.situation import Situation
    from drafter_contracts.verdict import Finding

    #: None: the rule has nothing to decide here. Empty: it looked and found nothing wrong.
    Outcome = tuple[Finding, ...] | None


class Rule(msgspec.Struct, frozen=True):
    """One check: one function, one code, one page of documentation.

    Attributes:
        code: Stable code of its findings.
        title: What it checks, a few words.
        what_goes_wrong: What happens without it.
        reference: Public report or file of a release where that was seen.
        catalogue: Entries of the catalogue of field failures (R01 ...) that it answers.
        check: The function. Returns None where it has nothing to decide (then it does not count as checked).
    """

    code: str
    title: str
    what_goes_wrong: str
    reference: str
    catalogue: tuple[str, ...]
    check: Callable[[Situation], Outcome]


def drafter(s: Situation) -> str:
    """The drafter's name for a sentence."""
    return s.drafter_name or (s.drafter.path if s.drafter is not None else "") or "the drafter"


def engine(s: Situation) -> str:
    """The engine and release for a sentence."""
    return s.profile.name if s.profile is not None else s.engine or "this engine"


def on_record(s: Situation) -> bool:
    """Whether of the target only what a manifest records is known, and not its config."""
    return s.target is not None and not s.target.config


def target_class(s: Situation) -> str:
    """The target's class for a sentence."""
    return (s.target.architecture if s.target is not None else "") or "the target"


def release_names(s: Situation, found: Iterable[OtherRelease]) -> str:
    """Other releases as ranges of those known, e.g. "sglang 0.5.2 to 0.5.4, from 0.5.9 on"; "" for none."""
    from drafter_contracts.engines.ranges import span_text
    from drafter_contracts.engines.versions import version_key

    releases = [other.release for other in found]
    known = {other.release for other in s.elsewhere}
    if s.profile is not None:
        known.add(s.profile.release)
    names = span_text(sorted(known, key=version_key), releases)
    return f"{s.elsewhere[0].engine} {names}" if names else ""


def option(s: Situation, *dests: str) -> object:
    """Value of the first of these options that the release has and that is not None."""
    for dest in dests:
        value = s.serving.value(dest)
        if value is not None:
            return value
    return None


def whole(value: object) -> int | None:
    """The value as an integer, or None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def given(s: Situation, *dests: str) -> bool:
    """Whether the launch itself sets one of these options."""
    return any(dest in s.serving.arguments.given for dest in dests)


def ways(s: Situation, *found: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Those ways to remedy something by launch options of which this release knows every option."""
    known = {name for flag in s.profile.launch.flags for name in flag.names} if s.profile is not None else set()
    return tuple(way for way in found if known.issuperset(word for word in way if word.startswith("--")))


def switched_on(config: dict[str, object], keys: Sequence[str], *, either: bool = False) -> bool:
    """Whether the first of these dotted keys that is present is true; or any of them, where either will do."""
    from drafter_contracts.engines.capture import find

    for key in keys:
        present, value = find(config, key)
        if present and value is not None and (value or not either):
            return bool(value)
    return False


def quoted(value: str) -> str:
    """A shell word in single quotes."""
    return "'" + value.replace("'", "'\\''") + "'"
