"""The remedy for a capture that is not the trained one: exact ids, or why there are none, and who else could."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.capture import effective_capture, find, read_ids, reading_shift
from drafter_contracts.errors import ProfileError
from drafter_contracts.rules.rule import engine, quoted, release_names
from drafter_contracts.serving.target import text_config
from drafter_contracts.solve import Solution, in_order, serves, solve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.elsewhere import OtherRelease
    from drafter_contracts.engines.profile import CaptureMethod, GraphReplay, IdReading
    from drafter_contracts.layout import CaptureLayout
    from drafter_contracts.situation import Situation

    #: What decides how a release feeds a layout, without the places where the release does it.
    Behaviour = tuple[CaptureMethod, IdReading, GraphReplay | None]

OVERRIDE = "--json-model-override-args"
#: From so many releases on, the nearest of them are named.
_MANY = 3


def solution(
    s: Situation, rule: CaptureMethod | None, reading: IdReading | None, replay: GraphReplay | None
) -> Solution | None:
    """The ids with which a release feeds the stated layout, in another order (`Solution.order`) where it must be.

    None if it has no hook or something is not known.

    Args:
        s: The drafter, target and layout.
        rule: How the release captures of the target, or None.
        reading: How it reads the ids, or None.
        replay: What its graph replay captures, or None.
    """
    target, stated = s.target, s.stated
    if target is None or target.num_layers is None or stated is None or rule is None or reading is None:
        return None
    found = solve(
        rule,
        reading,
        replay,
        stated.layout,
        target.num_layers,
        s.serving.cuda_graphs,
        prefer=s.ids_key,
        target_model_type=target.model_type,
        architectures=s.drafter.architectures if s.drafter is not None else (),
        config=s.draft_config,
        any_order=True,
    )
    return found if not found.order or s.drafter is None else _if_weights_allow(found, s.drafter, stated.layout)


def _if_weights_allow(found: Solution, drafter: DrafterFacts, layout: CaptureLayout) -> Solution:
    """A solution in another order, unless the drafter's tensors cannot be put in it."""
    from drafter_contracts.rendering.blocks import order_faults

    faults = order_faults(drafter.tensors, found.order, layout.widths) if drafter.tensors else ()
    if not faults:
        return found
    fed = ", ".join(map(str, in_order(layout, found.order).boundaries))
    return Solution(
        reason=f"this release feeds these layers in the order {fed} alone, and the drafter's weights cannot be put in "
        f"it: {'; '.join(faults)}"
    )


def own_solution(s: Situation) -> Solution | None:
    """The ids with which the launch's own release feeds the stated layout; None as in `solution`."""
    if s.profile is None:
        return None
    rule = s.profile.capture_method(s.target.architecture, s.method) if s.target is not None else None
    return solution(s, rule, s.profile.readings.get(s.method), s.profile.graphs.get(s.method))


def layout_remedy(s: Situation) -> str:
    """What to do so that the drafter is fed the layout it was trained on."""
    if s.profile is None:
        return ""
    found = own_solution(s)
    if found is None:
        here = f"{engine(s)} cannot capture for this target."
    elif not found.found:
        here = f"No ids work on {engine(s)}: {found.reason}."
    elif found.order:
        here = _render(s, found)
    else:
        here = _apply(s, found)
    elsewhere = "" if found is not None and found.found and not found.graphs_off else other_releases(s)
    return f"{here} {elsewhere}".strip()


def _render(s: Situation, found: Solution) -> str:
    """What to do where only the order of the taps stands in the way: a render, its `fc` in the release's order."""
    if s.stated is None:
        return ""
    fed = in_order(s.stated.layout, found.order)
    kind = "the ascending order" if fed.ascending else "the order"
    release = s.profile.release if s.profile is not None else "V"
    graphs = f", together with {graphs_off_flag(s)}" if found.graphs_off else ""
    return (
        f"No ids give {engine(s)} this order, only {kind} {', '.join(map(str, fed.boundaries))}. It serves the drafter "
        f"with fc's column blocks permuted by a render: {_pull(s, release)}{graphs}."
    )


def _pull(s: Situation, release: str = "V") -> str:
    """The command that writes a render for a release."""
    return f"drafters pull REF --for {s.profile.engine if s.profile is not None else 'ENGINE'}=={release}"


def _apply(s: Situation, found: Solution) -> str:
    steps = []
    switch = capture_switch(s)
    turn_on = f"set {switch} to true and " if switch else ""
    if found.default:
        steps.append(f"{turn_on}leave {_id_keys(s)} out of the drafter's config.json ({found.reason})")
    elif switch or found.ids != _written_ids(s):
        edit = f"{turn_on or 'set '}{found.key} to {list(found.ids or ())} in the drafter's config.json"
        flag = override_flag(s, found)
        steps.append(f"{edit}, or leave the checkpoint alone and launch with {flag}" if flag else edit)
    if found.graphs_off:
        steps.append(f"add {graphs_off_flag(s)} ({found.reason})")
    text = "; ".join(steps)
    return text[:1].upper() + text[1:] + "."


def _id_keys(s: Situation) -> str:
    """The keys of the drafter's config that the release looks for ids at."""
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    present = [key for key in reading.keys if find(s.draft_config, key)[0]] if reading is not None else []
    return " and ".join(present) or "the capture ids"


def capture_switch(s: Situation) -> str:
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
    """The complete override option that carries the ids, or "" where overrides cannot say it."""
    document = override_document(s, found)
    return "" if document is None else f"{OVERRIDE} {quoted(msgspec.json.encode(document).decode())}"


def override_document(s: Situation, found: Solution) -> dict[str, object] | None:
    """The overrides that carry the ids, or None where overrides cannot say it.

    A nested object is replaced whole, so the drafter's own object is repeated with the ids changed, and overrides
    already in the launch are kept. No use where the target's own config has that key: it would be replaced too.
    """
    profile, target = s.profile, s.target
    if profile is None or target is None or not profile.launch.overrides.drafter or found.ids is None:
        return None
    top, *rest = found.key.split(".")
    if top not in s.serving.overrides and has_key(target.config, top):
        return None
    value: object = list(found.ids)
    if rest:
        own = s.draft_config.get(top)
        value = {**(own if isinstance(own, dict) else {}), rest[0]: list(found.ids)}
        parent, _, switch = capture_switch(s).partition(".")
        if parent == top:
            value[switch] = True
    return {**s.serving.overrides, top: value}


def has_key(config: Mapping[str, object], key: str) -> bool:
    """Whether a model's config, or that of its language model, has a key: an override of it would change that, too."""
    return key in config or key in text_config(dict(config))[0]


class _Way(msgspec.Struct, frozen=True):
    """How releases feed the stated layout.

    Attributes:
        asks: What it asks for: 0 at most other ids, 1 CUDA graphs off, 2 other weights, 3 both.
        text: In words.
    """

    asks: int
    text: str


def other_releases(s: Situation) -> str:
    """Which other shipped releases feed the stated layout, with what, and the nearest of them; "" if nobody looked."""
    if s.stated is None or not s.elsewhere:
        return ""
    ways = _ways(s)
    if not ways:
        return "No other known release feeds this layout."
    parts = [f"{release_names(s, others)} {way.text}" for way, others in ways.items()]
    return f"Other releases that feed this layout: {'; '.join(parts)}.{_nearest(s, ways)}"


def _ways(s: Situation) -> dict[_Way, list[OtherRelease]]:
    """Ways to feed the stated layout and the releases of each: what asks least first, then the newest."""
    known: dict[Behaviour, _Way | None] = {}
    ways: dict[_Way, list[OtherRelease]] = {}
    for other in reversed(s.elsewhere):
        behaviour = _behaviour(other)
        if behaviour is None or other.draft_class is None:
            continue
        if behaviour not in known:
            known[behaviour] = _way(s, *behaviour)
        way = known[behaviour]
        if way is not None:
            ways.setdefault(way, []).append(other)
    return dict(sorted(ways.items(), key=lambda item: item[0].asks))


def _nearest(s: Situation, ways: dict[_Way, list[OtherRelease]]) -> str:
    """The nearest older and newer of the releases that ask least, as a sentence, where there is a choice."""
    from drafter_contracts.engines.versions import version_key

    if s.profile is None or sum(map(len, ways.values())) < _MANY:
        return ""
    least = min(way.asks for way in ways)
    able = (other.release for way, others in ways.items() if way.asks == least for other in others)
    releases = sorted(able, key=version_key)
    own = version_key(s.profile.release)
    older = [f"{release} (older)" for release in releases if version_key(release) < own][-1:]
    newer = [f"{release} (newer)" for release in releases if version_key(release) > own][:1]
    which = "The nearest" if len({way.asks for way in ways}) == 1 else "The nearest of those that ask least"
    return f" {which}: {', '.join((*older, *newer))}."


def _behaviour(other: OtherRelease) -> Behaviour | None:
    """What is worked out once for all releases that have it in common; None without a hook or a reading."""
    if other.rule is None or other.reading is None:
        return None
    replay = other.replay
    return (
        msgspec.structs.replace(other.rule, source=None, forward=None),
        msgspec.structs.replace(other.reading, source=None),
        None if replay is None else msgspec.structs.replace(replay, source=None),
    )


def _way(s: Situation, rule: CaptureMethod, reading: IdReading, replay: GraphReplay | None) -> _Way | None:
    """How a release that does this feeds the stated layout, or None if it cannot."""
    if _as_it_is(s, rule, reading, replay):
        return _Way(0, "with the drafter's config as it is")
    found = solution(s, rule, reading, replay)
    if found is None or not found.found:
        return None
    how = "without capture ids" if found.default else f"with {found.key} = {list(found.ids or ())}"
    if found.graphs_off:
        how += " and CUDA graphs off"
    if found.order:
        how += f", fc's column blocks permuted by a render: {_pull(s)}"
    return _Way(found.graphs_off + 2 * bool(found.order), how)


def _as_it_is(s: Situation, rule: CaptureMethod, reading: IdReading, replay: GraphReplay | None) -> bool:
    target, stated = s.target, s.stated
    if target is None or target.num_layers is None or stated is None or s.drafter is None:
        return False
    if reading.status != "fitted":
        return False
    n = target.num_layers
    try:
        ids, _, error = read_ids(reading, s.drafter.config, n=n)
        if error:
            return False
        if ids is not None:
            moved = reading_shift(reading, target.model_type, s.drafter.architectures)
            ids = tuple(i + moved for i in ids)
        return serves(effective_capture(rule, replay, n, ids, graphs_on=s.serving.cuda_graphs), stated.layout)
    except ProfileError:
        return False
