"""The remedy for a capture that is not the trained one: exact ids, or why there are none, and who else could."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.capture import effective_capture, read_ids, reading_shift
from drafter_contracts.errors import ProfileError
from drafter_contracts.rules.rule import engine, quoted
from drafter_contracts.solve import Solution, serves, solve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.situation import Situation

OVERRIDE = "--json-model-override-args"


def solution(s: Situation, profile: Profile) -> Solution | None:
    """The ids with which a release feeds the stated layout; None if it has no hook or something is not known."""
    target, stated = s.target, s.stated
    if target is None or target.num_layers is None or stated is None:
        return None
    rule = profile.capture_method(target.architecture, s.method)
    reading = profile.readings.get(s.method)
    if rule is None or reading is None:
        return None
    return solve(
        rule,
        reading,
        profile.graphs.get(s.method),
        stated.layout,
        target.num_layers,
        s.serving.cuda_graphs,
        prefer=s.ids_key,
        target_model_type=target.model_type,
        architectures=s.drafter.architectures if s.drafter is not None else (),
        config=s.draft_config,
    )


def layout_remedy(s: Situation) -> str:
    """What to do so that the drafter is fed the layout it was trained on."""
    if s.profile is None:
        return ""
    found = solution(s, s.profile)
    if found is None:
        here = f"{engine(s)} cannot capture for this target."
    elif not found.found:
        here = f"No ids work on {engine(s)}: {found.reason}."
    else:
        here = _apply(s, found)
    elsewhere = "" if found is not None and found.found and not found.graphs_off else other_releases(s)
    return f"{here} {elsewhere}".strip()


def _apply(s: Situation, found: Solution) -> str:
    steps = []
    switch = _switch(s)
    turn_on = f"set {switch} to true and " if switch else ""
    if found.default:
        steps.append(
            f"{turn_on}leave {s.ids_key or 'the capture ids'} out of the drafter's config.json ({found.reason})"
        )
    elif switch or found.ids != _written_ids(s):
        edit = f"{turn_on or 'set '}{found.key} to {list(found.ids or ())} in the drafter's config.json"
        flag = override_flag(s, found)
        steps.append(f"{edit}, or leave the checkpoint alone and launch with {flag}" if flag else edit)
    if found.graphs_off:
        steps.append(f"add {graphs_off_flag(s)} ({found.reason})")
    text = "; ".join(steps)
    return text[:1].upper() + text[1:] + "."


def _switch(s: Situation) -> str:
    """The key that turns capture on, where the drafter's config has it off."""
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    return reading.switch if reading is not None and s.capture_off else ""


def _written_ids(s: Situation) -> tuple[int, ...] | None:
    """The ids as the drafter's config states them (before this release moves any)."""
    if s.ids is None or s.profile is None or s.drafter is None or s.target is None:
        return None
    reading = s.profile.readings.get(s.method)
    moved = reading_shift(reading, s.target.model_type, s.drafter.architectures) if reading else 0
    return tuple(i - moved for i in s.ids)


def graphs_off_flag(s: Situation) -> str:
    """The flag that turns CUDA graphs off in this release."""
    replay = s.profile.graphs.get(s.method) if s.profile is not None else None
    return replay.disabled_by[0] if replay is not None and replay.disabled_by else "--disable-cuda-graph"


def override_flag(s: Situation, found: Solution) -> str:
    """The complete override option that carries the ids, or "" where overrides cannot say it.

    A nested object is replaced whole, so the drafter's own object is repeated with the ids changed, and overrides
    already in the launch are kept. No use where the target's own config has that key: it would be replaced too.
    """
    profile, target = s.profile, s.target
    if profile is None or target is None or not profile.launch.overrides.drafter or found.ids is None:
        return ""
    top, *rest = found.key.split(".")
    if top in target.config and top not in s.serving.overrides:
        return ""
    value: object = list(found.ids)
    if rest:
        own = s.draft_config.get(top)
        value = {**(own if isinstance(own, dict) else {}), rest[0]: list(found.ids)}
        parent, _, switch = _switch(s).partition(".")
        if parent == top:
            value[switch] = True
    document = {**s.serving.overrides, top: value}
    return f"{OVERRIDE} {quoted(msgspec.json.encode(document).decode())}"


def other_releases(s: Situation) -> str:
    """Which other shipped releases feed the stated layout, and with what: one sentence, or ""."""
    if s.profile is None or s.stated is None:
        return ""
    ways: dict[str, list[str]] = {}
    for profile in reversed(s.other_profiles):
        if profile.release != s.profile.release and _knows_drafter(s, profile):
            way = _way(s, profile)
            if way:
                ways.setdefault(way, []).append(profile.release)
    if not ways:
        return "No other known release feeds this layout." if s.other_profiles else ""
    parts = [f"{', '.join(releases)} {way}" for way, releases in ways.items()]
    return f"Other releases that feed this layout: {s.profile.engine} {'; '.join(parts)}."


def _knows_drafter(s: Situation, profile: Profile) -> bool:
    names = s.drafter.architectures if s.drafter is not None else ()
    return not profile.drafters or any(name in profile.drafters for name in names)


def _way(s: Situation, profile: Profile) -> str:
    """How another release feeds the stated layout, or "" if it cannot."""
    if _as_it_is(s, profile):
        return "with the drafter's config as it is"
    found = solution(s, profile)
    if found is None or not found.found:
        return ""
    how = "without capture ids" if found.default else f"with {found.key} = {list(found.ids or ())}"
    return f"{how} and CUDA graphs off" if found.graphs_off else how


def _as_it_is(s: Situation, profile: Profile) -> bool:
    target, stated = s.target, s.stated
    reading = profile.readings.get(s.method)
    if target is None or target.num_layers is None or stated is None or reading is None or s.drafter is None:
        return False
    rule = profile.capture_method(target.architecture, s.method)
    if rule is None or reading.status != "fitted":
        return False
    n = target.num_layers
    try:
        ids, _, error = read_ids(reading, s.drafter.config, n=n)
        if error:
            return False
        if ids is not None:
            moved = reading_shift(reading, target.model_type, s.drafter.architectures)
            ids = tuple(i + moved for i in ids)
        replay = profile.graphs.get(s.method)
        return serves(effective_capture(rule, replay, n, ids, graphs_on=s.serving.cuda_graphs), stated.layout)
    except ProfileError:
        return False
