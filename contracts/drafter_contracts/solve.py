"""The inverse of an engine's capture rule: the ids that make a release feed a given layout, or why there are none.

Every answer is proved by the forward rule: a candidate counts only if `effective_capture` returns the layout.
The search is complete among id lists as long as the layout (a drafter's `fc` is sized by that length): each id
must then arrive as one tap, so that it is the boundary less one of the rule's shifts (or that value less N, where
the release wraps negative numbers), and of the order only the first id can matter.

Where a release concatenates in another order than the layout's, it can still serve the drafter once the column blocks
of `fc` are put in that order: `any_order` looks for that, too, and the forward rule proves the order like the ids.
"""

from __future__ import annotations

from itertools import product

import msgspec

from drafter_contracts.engines.capture import (
    EffectiveCapture,
    boundary_fate,
    effective_capture,
    read_ids,
    reading_shift,
    requested_boundaries,
)
from drafter_contracts.engines.profile import BROKEN, FITTED, CaptureMethod, GraphReplay, Guard, IdReading
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, STATES, STREAMS, CaptureLayout, Tap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Layouts longer than this are not tried with every choice of wrapped (negative) ids.
_WRAP_LIMIT = 10


class Solution(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ids to write into a drafter's config for one release and target, or why there are none.

    Attributes:
        ids: Ids to write at `key`; None where the key must be left out (`default`) or nothing works.
        key: Dotted config key to write them to.
        default: Leaving every id key out works: what the release captures without ids is the layout.
        graphs_off: Works only while CUDA graphs are off.
        order: The release concatenates in another order than the layout's: its tap at place j is the layout's tap
            `order[j]`, and the drafter serves once the blocks of its `fc` are put in that order. Empty: the same order.
        reason: Why there are none, or what the solution depends on.
    """

    ids: tuple[int, ...] | None = None
    key: str = ""
    default: bool = False
    graphs_off: bool = False
    order: tuple[int, ...] = ()
    reason: str = ""

    @property
    def found(self) -> bool:
        """Whether this release can be made to feed the layout."""
        return self.ids is not None or self.default


def same_taps(wanted: Sequence[Tap], got: Sequence[Tap]) -> bool:
    """Whether captured taps are the wanted ones, in order.

    A wanted residual is satisfied by the mean over a multi-stream target's residual streams, or by the mixture that a
    target with a bank of streams makes of them: such a target has no single residual stream, and producers and engines
    both write that boundary.
    """
    return len(wanted) == len(got) and all(_same(a, b) for a, b in zip(wanted, got, strict=True))


def _same(wanted: Tap, got: Tap) -> bool:
    return wanted.boundary == got.boundary and (
        wanted.state == got.state or (RESIDUAL in {wanted.state, got.state} and {wanted.state, got.state} <= {*STREAMS})
    )


def serves(effect: EffectiveCapture, layout: CaptureLayout) -> bool:
    """Whether both execution modes of a launch feed a layout."""
    modes = (effect.eager,) if effect.replay is None else (effect.eager, effect.replay)
    return not effect.undetermined and all(
        not mode.error and not mode.foreign and same_taps(layout.taps, mode.taps) for mode in modes
    )


def solve(  # noqa: PLR0913 - one value per thing that decides, the last five by name
    rule: CaptureMethod,
    reading: IdReading,
    graphs: GraphReplay | None,
    layout: CaptureLayout,
    n: int,
    graphs_on: bool,
    *,
    prefer: str = "",
    target_model_type: str = "",
    architectures: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
    any_order: bool = False,
) -> Solution:
    """The ids that make a release feed `layout`.

    Args:
        rule: The target class's capture rule.
        reading: How the release finds the ids in the drafter's config.
        graphs: What CUDA-graph replay captures; None if nothing special.
        layout: The layout wanted.
        n: Decoder layers of the target.
        graphs_on: Whether the launch leaves CUDA graphs on.
        prefer: Key to write, if ids written there work; else the first of the release's keys at which they do.
        target_model_type: For releases that move ids for some targets before the setter sees them.
        architectures: The drafter's, for the same reason.
        config: The drafter's config, into which the ids would be written: what it says elsewhere may refuse or
            outrank them. None for an empty one.
        any_order: Where nothing feeds the layout itself, look for what feeds its taps in another order
            (`Solution.order`): in ascending order if that is possible.

    Returns:
        A solution that the forward rule confirms; otherwise one with `reason` set to what stands in the way.
    """
    moved = reading_shift(reading, target_model_type, architectures)
    problem = _Problem(rule, reading, graphs, layout, n, prefer, moved, dict(config or {}))
    found = _in_this_order(problem, graphs_on=graphs_on)
    return found if found.found or not any_order else _in_another_order(problem, found, graphs_on=graphs_on)


class _Problem(msgspec.Struct, frozen=True):
    """What `solve` was asked; `moved` is what the release adds to the ids before the setter sees them."""

    rule: CaptureMethod
    reading: IdReading
    graphs: GraphReplay | None
    layout: CaptureLayout
    n: int
    prefer: str
    moved: int
    config: dict[str, object]

    def works(self, ids: Sequence[int] | None, *, graphs_on: bool) -> bool:
        """Whether the release feeds the layout with these ids, by the forward rule."""
        if ids is not None and not self.rule.shifts:  # a setter that takes none
            return False
        effect = effective_capture(self.rule, self.graphs, self.n, ids, graphs_on=graphs_on)
        return serves(effect, self.layout)


def _in_this_order(p: _Problem, *, graphs_on: bool) -> Solution:
    obstacle = _unread(p.reading) or _obstacle(p.rule, p.layout, p.n)
    return Solution(reason=obstacle) if obstacle else _search(p, graphs_on=graphs_on)


def _in_another_order(p: _Problem, plain: Solution, *, graphs_on: bool) -> Solution:
    """What feeds the layout's taps in another order; `plain` says why nothing feeds them in their own."""
    reason = ""
    for order in _orders(p):
        found = _in_this_order(msgspec.structs.replace(p, layout=in_order(p.layout, order)), graphs_on=graphs_on)
        if found.found:
            return msgspec.structs.replace(found, order=order, reason=found.reason or plain.reason)
        reason = reason or found.reason
    if reason in {"", plain.reason}:
        return plain
    return Solution(reason=f"{reason}, in whatever order the column blocks of fc are put")


def in_order(layout: CaptureLayout, order: Sequence[int]) -> CaptureLayout:
    """A layout with its tap `order[j]` at place j."""
    widths = tuple(layout.widths[place] for place in order) if layout.widths else ()
    return CaptureLayout(tuple(layout.taps[place] for place in order), widths, layout.norm)


def _orders(p: _Problem) -> Iterator[tuple[int, ...]]:
    """Every other order that the release might feed the taps in: ascending first, and alone unless order is given.

    Of ids whose order is kept, guards and shifts see only whether they are sorted, and the first of them.
    """
    found = [_sorted_places(p.layout.boundaries)]
    if p.rule.capture.order != "ascending":
        for ids in _candidates(p.rule, p.layout.boundaries, p.n):
            ordered = _sorted_places(ids)
            found += [ordered, *((first, *(place for place in ordered if place != first)) for first in ordered)]
    own = tuple(range(len(p.layout.taps)))
    yield from (order for order in dict.fromkeys(found) if order != own)


def _sorted_places(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(numbers)), key=numbers.__getitem__))


def _search(p: _Problem, *, graphs_on: bool) -> Solution:
    keys = sorted(p.reading.keys, key=lambda key: key != p.prefer)
    blocked = _replay_stands_in_the_way(p.rule, p.graphs, p.layout, p.n, graphs_on=graphs_on)
    for ids in () if blocked else _candidates(p.rule, p.layout.boundaries, p.n):
        written = tuple(i - p.moved for i in ids)
        key = next((key for key in keys if _reads_back(p, key, written)), "")
        if key and p.works(ids, graphs_on=graphs_on):
            return Solution(written, key)
    without = _without_ids(p, graphs_on=graphs_on)
    if without:
        return Solution(default=True, reason=without)
    if not graphs_on or p.graphs is None or p.graphs.ids == "same":
        return Solution(reason=_no_ids(p))
    eager = _search(p, graphs_on=False)
    if not eager.found:
        return eager
    why = "CUDA-graph replay captures the class's default layers whatever the ids are"
    if p.graphs.ids != "default":
        why = p.graphs.reason or "it cannot be told what CUDA-graph replay captures"
    return Solution(eager.ids, eager.key, eager.default, graphs_off=True, reason=why)


def _without_ids(p: _Problem, *, graphs_on: bool) -> str:
    """Why the layout is fed without any ids in the config, or "" if it is not."""
    if p.reading.missing == "default" and p.rule.default is not None and p.works(None, graphs_on=graphs_on):
        return "the class's own default is this layout"
    if p.reading.missing == "formula":
        ids, _, error = read_ids(msgspec.structs.replace(p.reading, keys=()), p.config, n=p.n)
        if ids is not None and not error and p.works([i + p.moved for i in ids], graphs_on=graphs_on):
            return "the layers that the release spreads over the target's depth are this layout"
    return ""


def _replay_stands_in_the_way(
    rule: CaptureMethod, graphs: GraphReplay | None, layout: CaptureLayout, n: int, *, graphs_on: bool
) -> bool:
    """Whether graph replay captures something else whatever the ids are (a shortcut: the forward rule decides)."""
    if not graphs_on or graphs is None or graphs.ids == "same":
        return False
    effect = effective_capture(rule, graphs, n, None, graphs_on=True)
    return effect.replay is None or not serves(EffectiveCapture(effect.replay), layout)


def _reads_back(p: _Problem, key: str, ids: tuple[int, ...]) -> bool:
    """Whether the release reads exactly these ids when they are written at `key` of the drafter's config."""
    read, _, error = read_ids(p.reading, with_value(p.config, key, list(ids)), n=p.n)
    return read == ids and not error


def with_value(config: Mapping[str, object], dotted: str, value: object) -> dict[str, object]:
    """A config with one dotted key set; nested mappings on the way are copied, anything else there is replaced."""
    first, _, rest = dotted.partition(".")
    child = config.get(first)
    inner = with_value(child if isinstance(child, dict) else {}, rest, value) if rest else value
    return {**config, first: inner}


def _unread(reading: IdReading) -> str:
    if reading.status == FITTED:
        return ""
    return f"how this release reads the capture ids could not be derived: {reading.reason}"


def _obstacle(rule: CaptureMethod, layout: CaptureLayout, n: int) -> str:
    """What makes every id list fail, whatever the numbers are, or ""."""
    if rule.status == BROKEN:
        return f"the target class's capture hook cannot work in this release: {rule.reason}"
    if rule.status != FITTED:
        return f"the target class's capture could not be derived: {rule.reason}"
    state = rule.capture.state
    if state not in STATES:
        return f"this release captures {state}, not the residual stream"
    for tap in layout.taps:
        if not _same(tap, Tap(tap.boundary, state)):
            article = "the final norm" if tap.state == FINAL_NORM else tap.state
            return f"this release captures the {state} state at {tap.label()}, never {article}"
        fate = boundary_fate(rule, tap.boundary, n)
        if fate.action == "drop":
            return f"{tap.label()} is never captured by this target class: it is dropped without a message"
        if fate.action != "capture":
            return f"{tap.label()} cannot be captured by this target class: {fate.error} in its {fate.phase}"
    if rule.capture.duplicates == "once" and len(set(layout.boundaries)) != len(layout.taps):
        return "the layout repeats a boundary, and this release captures each boundary once"
    ordered = sorted(layout.boundaries)
    if rule.capture.order == "ascending" and list(layout.boundaries) != ordered:
        plain = ", ".join(map(str, ordered))
        return (
            f"this release concatenates in ascending layer order ({plain}) whatever the order of the ids; "
            "the columns of fc.weight would have to be permuted"
        )
    return ""


def _candidates(rule: CaptureMethod, boundaries: Sequence[int], n: int) -> Iterator[tuple[int, ...]]:
    """Every id list, as the setter sees it, that could be the answer; plain and sorted ones first."""
    wraps = rule.capture.negative.action == "wrap" and len(boundaries) <= _WRAP_LIMIT
    choices = tuple(product((0, 1), repeat=len(boundaries))) if wraps else ((0,) * len(boundaries),)
    adds = tuple(dict.fromkeys(shift.add for shift in rule.shifts))
    for choice, add in product(choices, adds):
        ids = tuple(b - n * wrapped - add for b, wrapped in zip(boundaries, choice, strict=True))
        yield ids
        if rule.capture.order != "ascending":
            continue
        ordered = sorted(ids)
        for first in ordered:
            rest = list(ordered)
            rest.remove(first)
            yield (first, *rest)


def _no_ids(p: _Problem) -> str:
    """Why no id list works although every boundary alone can be captured."""
    if not p.reading.keys:
        return "this release reads no capture ids from the drafter's config; its default layers are always used"
    tried = []
    for shift in p.rule.shifts:
        ids = tuple(b - shift.add for b in p.layout.boundaries)
        written = [i - p.moved for i in ids]
        tried.append(f"ids {written} would need the rule 'add {shift.add} when {shift.when}'{_why_not(p, ids)}")
    if p.rule.capture.negative.action == "wrap" and len(p.layout.taps) > _WRAP_LIMIT:
        tried.append(f"ids counted from the last layer are not tried for more than {_WRAP_LIMIT} layers")
    return "no ids give these layers: " + "; ".join(dict.fromkeys(tried))


def _why_not(p: _Problem, ids: tuple[int, ...]) -> str:
    """Why these ids, as the setter would see them, are not the answer."""
    low, high = p.reading.range_low, p.reading.range_high
    alone = msgspec.structs.replace(p, config={})
    if not any(_reads_back(alone, key, tuple(i - p.moved for i in ids)) for key in p.reading.keys):
        return f", but ids outside {'any' if low is None else low}..{high or 'any'} are refused"
    asked = requested_boundaries(p.rule, p.n, ids)
    if isinstance(asked, Guard):
        return f", but the setter refuses them: {asked.error} when {asked.when}"
    if sorted(asked) != sorted(p.layout.boundaries):
        return ", which does not apply to them in any order"
    return f", but what else is at {' and '.join(p.reading.keys)} of the drafter's config is read first or refused"
