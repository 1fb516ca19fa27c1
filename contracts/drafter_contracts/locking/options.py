"""The options of a launch held against those that were locked, both as the release reads them."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.launch import options
from drafter_contracts.locking import codes
from drafter_contracts.locking.drift import AGAIN
from drafter_contracts.serving.read import OVERRIDES
from drafter_contracts.verdict import REFUSE, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.locking.document import Lock
    from drafter_contracts.serving.launch import ServingConfig
    from drafter_contracts.situation import Situation

#: Options of speculation: none but the locked ones may be stated.
_SPECULATIVE = "speculative_"
_MODEL, _CONFIG = "model_path", "config"


def locked_serving(lock: Lock, s: Situation) -> ServingConfig:
    """The launch of the lock, as this release would read it and make it effective for this target and drafter.

    Args:
        lock: The lock.
        s: What is launched now; with a profile.
    """
    profile = _profile(s)
    read = options.read_launch(profile, (*lock.options, *lock.flags), lock.target.name)
    return options.effective(read, profile, s.target, s.drafter)


def option_drift(lock: Lock, s: Situation) -> tuple[Finding, ...]:
    """Every locked option that is not in effect in the launch, and every other option of speculation that is.

    Args:
        lock: The lock.
        s: What is launched now; with a profile.
    """
    profile, now = _profile(s), s.serving
    locked = locked_serving(lock, s)
    found = [
        _finding(lock, s, _shown(profile, dest, locked), _shown(profile, dest, now))
        for dest in _compared(profile, locked)
        if _value(dest, locked) != _value(dest, now)
    ]
    if locked.speculation.stated_draft_path and not now.speculation.stated_draft_path:
        name = options.spelled(profile, options.DRAFT_PATH)
        found.append(_finding(lock, s, f"{name} with the directory of {lock.name}", f"{name} is not given"))
    return tuple(found or _adjusted(lock, s, locked))


def _compared(profile: Profile, locked: ServingConfig) -> list[str]:
    """Dests, in the order of the locked options, then of the release's own table."""
    table = dict.fromkeys(flag_dest(flag) for flag in profile.launch.flags)
    drafting = [dest for dest in table if dest.startswith(_SPECULATIVE) or dest == OVERRIDES]
    wanted = dict.fromkeys([*locked.arguments.given, *drafting])
    return [dest for dest in wanted if dest not in (_MODEL, _CONFIG, options.DRAFT_PATH)]


def _value(dest: str, serving: ServingConfig) -> object:
    return serving.overrides if dest == OVERRIDES else serving.value(dest)


def _adjusted(lock: Lock, s: Situation, locked: ServingConfig) -> list[Finding]:
    """What the release makes of equal options, where another option of the launch changes that."""
    wanted, now = locked.speculation, s.serving.speculation
    if (wanted.algorithm, wanted.effective) == (now.algorithm, now.effective):
        return []
    why = "; ".join(dict.fromkeys(one.why for one in now.adjustments))
    actual = _in_effect(now.algorithm, now.effective)
    return [_finding(lock, s, _in_effect(wanted.algorithm, wanted.effective), f"{actual}: {why}" if why else actual)]


def _in_effect(algorithm: str, triple: tuple[int | None, int | None, int | None]) -> str:
    words = ("steps", "topk", "draft tokens")
    numbers = ", ".join(f"{word} {number}" for word, number in zip(words, triple, strict=True) if number is not None)
    return f"speculation in effect: {algorithm or 'none'} with {numbers or 'numbers of its own'}"


def _finding(lock: Lock, s: Situation, expected: str, actual: str) -> Finding:
    message = f"the launch does not run {lock.name} on {s.engine} as it was locked: {expected.partition(' ')[0]}"
    remedy = f"Take the flags from `drafters resolve --locked`, after all other options. {AGAIN}"
    return Finding(codes.OPTION, REFUSE, message, expected, actual, remedy=remedy)


def _shown(profile: Profile, dest: str, serving: ServingConfig) -> str:
    """An option and its value in effect, as words."""
    name, value = options.spelled(profile, dest), _value(dest, serving)
    if dest not in serving.arguments.given:
        default = "" if value in (None, False, {}) else f" (then {_text(value)})"
        return f"{name} is not given{default}"
    if isinstance(value, bool):
        return name if value else f"{name} is off"
    return f"{name} {_text(value)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _profile(s: Situation) -> Profile:
    if s.profile is None:
        from drafter_contracts.errors import InternalError

        raise InternalError("options were compared without a profile")
    return s.profile
