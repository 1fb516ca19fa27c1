"""Fit of how a release reads capture ids: from what a probe saw to `IdReading`, `GraphReplay` and `Overrides`.

The probe (`probes.readings`) executes the release's own code; here its observations become data. A fit counts
only if the profile's interpreter (`capture.read_ids`) reproduces every run of the probe's battery; what it does
not reproduce is recorded as opaque, with the first run that differs.
"""

from __future__ import annotations

import msgspec

from drafter_contracts import limits
from drafter_contracts.engines.capture import capture_switched_off, even_ids, read_ids, unmet_requirement
from drafter_contracts.engines.launch_rules import Overrides, Source
from drafter_contracts.engines.profile import FITTED, OPAQUE, GraphReplay, IdReading, ReadingShift
from drafter_contracts.engines.scan.graphs import derive_graphs, find_orders
from drafter_contracts.engines.scan.sandbox import run_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.tree import SourceTree

#: What the probe may see of the release.
SOURCES = ("",)
#: Runs of the battery for each method, and how far the even spread is compared.
PAYLOAD: dict[str, object] = {"runs": 400, "layers": 128, "draft_layers": 8}


class ReadingsPart(msgspec.Struct, frozen=True):
    """This part of a profile.

    Attributes:
        readings: Method to how its ids are read.
        graphs: Method to what graph replay captures.
        overrides: How `--json-model-override-args` reaches the configs.
    """

    readings: dict[str, IdReading]
    graphs: dict[str, GraphReplay]
    overrides: Overrides


class Seen(msgspec.Struct):
    """One run of the release's code.

    Attributes:
        called: Setter called, or "".
        ids: Its argument, if it is a list of ints or None.
        raw: It was called with something else.
        error: Exception raised, or "".
    """

    called: str
    ids: list[int] | None
    raw: bool
    error: str


class Run(msgspec.Struct):
    """One run of the battery: the drafter's config, the target's depth, what happened."""

    config: dict[str, object]
    n: int
    outcome: Seen


class KeySeen(msgspec.Struct):
    """What the probe saw of one key; see `probes.readings.Explorer`."""

    null_stops: bool
    accepted: dict[str, list[int]]
    wrong: list[Seen]
    texts: Seen
    empty: Seen
    out_of_range: Seen
    shifts: list[ReadingShift]


class Place(msgspec.Struct):
    """A place in the release."""

    file: str
    function: str = ""
    line: int = 0


class Hooks(msgspec.Struct):
    """Setters in order of preference, and the exception if the target has none."""

    order: list[str]
    none: str


class MethodSeen(msgspec.Struct):
    """What the probe saw of one method; see `probes.readings`."""

    absent: str = ""
    keys: list[str] = []
    requires: list[str] = []
    missing: Seen | None = None
    hooks: Hooks | None = None
    switches: list[str] = []
    checks_all: bool = False
    per_key: dict[str, KeySeen] = {}
    battery: list[Run] = []
    places: list[Place] = []
    setter_places: list[Place] = []


class OverridesSeen(msgspec.Struct):
    """What the probe saw of overrides; see `probes.overrides`."""

    target: bool
    drafter: bool
    kinds: dict[str, str]
    places: list[Place]
    failure: str


class Observations(msgspec.Struct):
    """The probe's answer."""

    methods: dict[str, MethodSeen]
    spread: list[tuple[int, int, list[int] | str]]
    overrides: OverridesSeen
    files: list[str] = []


def derive(tree: SourceTree, *, allow_unconfined: bool = False) -> tuple[ReadingsPart, set[str]]:
    """Derive this part of a profile.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Returns:
        The part, and the files of the release that it rests on.

    Raises:
        ScanError: The probe could not run.
    """
    answer = run_probe("readings", tree.sources(SOURCES), PAYLOAD, allow_unconfined=allow_unconfined)
    seen = msgspec.convert(answer, Observations)
    orders = find_orders(tree, allow_unconfined=allow_unconfined)
    files = set(seen.files)
    readings, graphs = {}, {}
    for method, one in seen.methods.items():
        if one.absent:
            if "has no algorithm" not in one.absent:
                readings[method] = IdReading(status=OPAQUE, reason=one.absent)
            continue
        readings[method] = fit_reading(one, even=spread_is_even(seen.spread))
        graphs[method], used = derive_graphs(orders, method, reads_ids=bool(one.keys))
        files |= used | {place.file for place in (*one.places, *one.setter_places)}
    files |= {place.file for place in seen.overrides.places}
    return ReadingsPart(readings, graphs, fit_overrides(seen.overrides)), files


def spread_is_even(table: list[tuple[int, int, list[int] | str]]) -> bool:
    """Whether the release spreads ids over a target exactly as `capture.even_ids` does, with the same refusals."""
    for layers, draft, ids in table:
        if max(layers, draft) > limits.target_max_layers:
            return False
        possible = draft == 1 or layers >= 4
        if isinstance(ids, str) if possible else not isinstance(ids, str):
            return False
        if possible and tuple(ids) != even_ids(layers, draft):
            return False
    return bool(table)


def fit_reading(seen: MethodSeen, *, even: bool) -> IdReading:
    """The reading that reproduces what the probe saw, or an opaque one that says what does not fit.

    Args:
        seen: The probe's observations of one method.
        even: The release's own spread is `capture.even_ids`.
    """
    places = seen.places or seen.setter_places
    source = Source(places[0].file, places[0].function, places[0].line) if places else None
    try:
        reading = _fitted(seen, source, even=even)
    except _UnfitError as error:
        return IdReading(status=OPAQUE, reason=str(error), source=source)
    for run in seen.battery:
        expected = _predict(reading, run)
        if expected != _observed(run.outcome):
            reason = f"for config {run.config} and {run.n} layers the release gives {_observed(run.outcome)}"
            return msgspec.structs.replace(reading, status=OPAQUE, reason=f"{reason}, the fit {expected}")
    return reading


class _UnfitError(Exception):
    """What was seen is not in the rule language."""


def _fitted(seen: MethodSeen, source: Source | None, *, even: bool) -> IdReading:
    missing = seen.missing
    if missing is None or seen.hooks is None or not seen.hooks.order:
        raise _UnfitError("no setter is called, whatever the config says")
    if missing.error:
        absent = "error"
    elif missing.ids is None:
        absent = "default"
    elif even:
        absent = "formula"
    else:
        raise _UnfitError("without ids the release spreads them in a way of its own")
    if len(seen.switches) > 1:
        raise _UnfitError(f"several keys turn capture off: {', '.join(seen.switches)}")
    low, high, unchecked = _range(seen)
    broken, coerces, empty, error = _wrong(seen)
    return IdReading(
        keys=tuple(seen.keys),
        switch=seen.switches[0] if seen.switches else "",
        missing=absent,
        broken=broken,
        error=missing.error or error,
        range_low=low,
        range_high=high,
        shifts=_shifts(seen, unchecked),
        requires=tuple(seen.requires),
        hooks=tuple(seen.hooks.order),
        source=source,
        status=FITTED,
        null_stops=tuple(key for key in seen.keys if seen.per_key[key].null_stops),
        unchecked=unchecked if high or low is not None else (),
        checks_all=seen.checks_all,
        coerces=coerces,
        empty=empty,
        no_hook=seen.hooks.none,
    )


def _range(seen: MethodSeen) -> tuple[int | None, str, tuple[str, ...]]:
    """Lowest id accepted, expression of the highest, and the keys for which nobody looks."""
    found: set[tuple[int | None, str]] = set()
    unchecked = []
    for key in seen.keys:
        bounds = set()
        for text, accepted in seen.per_key[key].accepted.items():
            n = int(text)
            if not accepted:
                raise _UnfitError(f"{key} accepts no single id")
            low = None if min(accepted) < -2 else min(accepted)
            top = max(accepted)
            high = "" if top > n + 1 else {n - 1: "N-1", n: "N", n + 1: "N+1", n - 2: "N-2"}.get(top, "?")
            bounds.add((low, high))
        if len(bounds) != 1 or "?" in {high for _, high in bounds}:
            raise _UnfitError(f"the range of ids accepted at {key} follows no expression")
        bound = bounds.pop()
        if bound == (None, ""):
            unchecked.append(key)
        else:
            found.add(bound)
    if len(found) > 1:
        raise _UnfitError("keys have different ranges")
    low, high = found.pop() if found else (None, "")
    return low, high, tuple(unchecked)


def _wrong(seen: MethodSeen) -> tuple[str, bool, str, str]:
    """What wrong values lead to, whether ids are coerced, what an empty list leads to, and the exception."""
    broken, coerces, empty = set(), set(), set()
    errors = []
    for one in seen.per_key.values():
        broken |= {"error" if w.error else "setter" if w.raw else "default" for w in one.wrong}
        coerces.add(not one.texts.error and not one.texts.raw)
        empty.add("error" if one.empty.error else "setter")
        errors += [w.error for w in (*one.wrong, one.empty) if w.error]
    if broken == {"error", "setter"}:  # some are refused at once, the others a moment later
        broken = {"error"}
    if len(broken) > 1 or len(coerces) > 1 or len(empty) > 1:
        raise _UnfitError("keys treat wrong values differently")
    common = max(errors, key=lambda e: (errors.count(e), e)) if errors else ""
    return (
        broken.pop() if broken else "default",
        coerces.pop() if coerces else False,
        empty.pop() if empty else "setter",
        common,
    )


def _shifts(seen: MethodSeen, unchecked: tuple[str, ...]) -> tuple[ReadingShift, ...]:
    """Moves of ids; all keys but the unchecked ones (which other code reads later) must agree."""
    checked = [key for key in seen.keys if key not in unchecked] or seen.keys
    found = [tuple(seen.per_key[key].shifts) for key in checked]
    if any(one != found[0] for one in found):
        raise _UnfitError("keys are moved differently")
    return found[0] if found else ()


def _predict(reading: IdReading, run: Run) -> tuple[str, list[int] | None]:
    """What the profile's interpreter says of a run: ("off" | "error" | "ids", ids)."""
    if reading.requires and unmet_requirement(reading, run.config):
        return "error", None
    ids, _, error = read_ids(reading, run.config, n=run.n)
    if capture_switched_off(reading, run.config):
        return "off", None
    if error:
        return "error", None
    return "ids", None if ids is None else list(ids)


def _observed(outcome: Seen) -> tuple[str, list[int] | None]:
    if outcome.error or outcome.raw:
        return "error", None
    return ("ids", outcome.ids) if outcome.called else ("off", None)


def fit_overrides(seen: OverridesSeen) -> Overrides:
    """How overrides reach the configs; `merge` is "unknown" where that could not be executed."""
    place = seen.places[-1] if seen.places else None
    source = Source(place.file, place.function, place.line) if place else None
    replaced = {kind for key, kind in seen.kinds.items() if key in ("eagle_config", "dflash_config", "number", "new")}
    merged = tuple(sorted(key for key, kind in seen.kinds.items() if kind == "merge"))
    merge = "replace" if replaced == {"replace"} and not seen.failure else "unknown"
    return Overrides(target=seen.target, drafter=seen.drafter, merge=merge, source=source, merged=merged)
