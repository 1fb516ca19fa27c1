"""The interpreter of a profile's capture rules: config ids to the states that reach the drafter's `fc`.

The only place that knows what the rule language means. Pure: profile data and numbers in, a `Capture` out.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from drafter_contracts.engines.profile import BROKEN, FITTED, CaptureMethod, GraphReplay, Guard, IdReading, Region
from drafter_contracts.errors import ProfileError
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, STATES, Tap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Capture(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one execution mode captures.

    Attributes:
        taps: The states that reach `fc`, in concatenation order. Empty if `error` is set.
        requested: Boundaries that the setter asked for, before the forward pass.
        dropped: Requested boundaries (or duplicates) that silently did not arrive.
        error: Name of the exception that the release raises instead, or "".
        phase: "setter" (at start-up) or "forward" (at the first batch), if `error` is set.
        foreign: Description of the captured state if it is no residual stream at all, else "".
    """

    taps: tuple[Tap, ...] = ()
    requested: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    error: str = ""
    phase: str = ""
    foreign: str = ""


class EffectiveCapture(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a launch captures: eager execution (prefill) and CUDA-graph replay (verify) are two answers.

    Attributes:
        eager: What eager execution captures.
        replay: What graph replay captures; None where graphs are off or replay is the same as eager execution.
        defaulted: The class's default list was used because no ids were read.
        undetermined: Why graph replay cannot be told from the profile (then `replay` says nothing), or "".
    """

    eager: Capture
    replay: Capture | None = None
    defaulted: bool = False
    undetermined: str = ""


def even_ids(n: int, draft_layers: int) -> tuple[int, ...]:
    """Layer ids spread evenly over a target of `n` layers: SGLang's fallback for DFLASH drafters without ids.

    One id per draft layer, from 1 to n - 3; `speculative/dflash_utils.py: build_target_layer_ids`.
    """
    if draft_layers == 1:
        return (n // 2,)
    return tuple(round(1 + i * (n - 4) / (draft_layers - 1)) for i in range(draft_layers))


def _holds(when: str, ids: Sequence[int], n: int) -> bool:
    """Whether a condition of the rule language holds for a list of ids."""
    if when == "always":
        return True
    if when == "unsorted":
        return any(a > b for a, b in pairwise(ids))
    if when == "duplicate":
        return len(set(ids)) != len(ids)
    if when == "empty":
        return not ids
    for operator in ("==", ">=", "<=", "<", ">"):
        name, found, right = when.partition(operator)
        if found:
            break
    else:
        raise ProfileError("not a condition of the rule language", actual=when)
    bound = evaluate_expression(right, n)
    if not ids:
        return False
    values: Sequence[int] = {"first": ids[:1], "max": (max(ids),), "min": (min(ids),), "id": ids}.get(name, ())
    if not values:
        raise ProfileError("not a condition of the rule language", actual=when)
    tests = {
        "==": lambda v: v == bound,
        ">=": lambda v: v >= bound,
        "<=": lambda v: v <= bound,
        "<": lambda v: v < bound,
        ">": lambda v: v > bound,
    }
    return any(tests[operator](value) for value in values)


def requested_boundaries(method: CaptureMethod, n: int, ids: Sequence[int] | None) -> tuple[int, ...] | Guard:
    """Boundaries that the setter asks for, or the guard that refuses the ids."""
    if ids is None:
        if method.default is None:
            return Guard("no ids", "ValueError")
        return tuple(evaluate_expression(expression, n) for expression in method.default)
    for guard in method.guards:
        if _holds(guard.when, ids, n):
            return guard
    for shift in method.shifts:
        if _holds(shift.when, ids, n):
            return tuple(i + shift.add for i in ids)
    raise ProfileError("no shift applies: a profile's last shift is 'always'", actual=str(method.source))


def _region(method: CaptureMethod, boundary: int, n: int) -> Region:
    rule = method.capture
    if boundary < -n and rule.below is not None:
        return rule.below
    if boundary < 0:
        return rule.negative
    if boundary == 0:
        return rule.zero
    if boundary < n:
        return Region()
    return rule.last if boundary == n else rule.above


def _resolve(method: CaptureMethod, boundary: int, n: int) -> tuple[int, Region]:
    """The boundary that is really meant, and what happens to it."""
    region = _region(method, boundary, n)
    if region.action == "wrap":
        boundary += n
        region = _region(method, boundary, n)
        if region.action == "wrap":
            region = Region("error", "IndexError", "setter")
    return boundary, region


def boundary_fate(method: CaptureMethod, boundary: int, n: int) -> Region:
    """What becomes of one requested boundary on its own: captured, dropped, or an error (wraps are resolved)."""
    return _resolve(method, boundary, n)[1]


def capture_boundaries(method: CaptureMethod, n: int, requested: Sequence[int]) -> Capture:
    """What the forward pass does with the boundaries that the setter asked for."""
    rule = method.capture
    wanted = tuple(requested)
    resolved = [_resolve(method, boundary, n) for boundary in wanted]
    errors = [region for _, region in resolved if region.action == "error"]
    for phase in ("setter", "forward"):
        for region in errors:
            if region.phase == phase:
                return Capture(requested=wanted, error=region.error, phase=phase)
    kept = [boundary for boundary, region in resolved if region.action == "capture"]
    dropped = [boundary for boundary, region in resolved if region.action == "drop"]
    if rule.duplicates == "once":
        unique = list(dict.fromkeys(kept))
        dropped += [b for b in unique for _ in range(kept.count(b) - 1)]
        kept = unique
    if rule.order == "ascending":
        kept.sort()
    error = rule.short if 0 < len(kept) < len(wanted) else "" if kept else rule.none
    if error:
        return Capture(requested=wanted, dropped=tuple(dropped), error=error, phase="forward")
    state = rule.state if rule.state in STATES else RESIDUAL
    foreign = "" if rule.state in STATES else rule.state
    return Capture(tuple(Tap(b, state) for b in kept), wanted, tuple(dropped), foreign=foreign)


def capture_once(method: CaptureMethod, n: int, ids: Sequence[int] | None) -> Capture:
    """One call of the setter with `ids` (None: no ids) and one forward pass.

    Args:
        method: A fitted or broken rule.
        n: Decoder layers of the target (times loops, for loop models).
        ids: Ids as they reach the setter, or None.

    Raises:
        ProfileError: The rule is opaque, so that there is nothing to evaluate.
    """
    if method.status == BROKEN:
        return Capture(error="broken", phase="forward", foreign=method.reason)
    if method.status != FITTED:
        raise ProfileError("an opaque rule cannot be evaluated", actual=method.reason)
    requested = requested_boundaries(method, n, ids)
    if isinstance(requested, Guard):
        return Capture(error=requested.error, phase="setter", requested=tuple(ids or ()))
    return capture_boundaries(method, n, requested)


def effective_capture(
    method: CaptureMethod, graphs: GraphReplay | None, n: int, ids: Sequence[int] | None, *, graphs_on: bool
) -> EffectiveCapture:
    """What a launch captures in eager execution and in CUDA-graph replay.

    Args:
        method: The target class's rule.
        graphs: What graph replay does in this release; None if nothing special.
        n: Decoder layers of the target.
        ids: Ids as they reach the setter, or None.
        graphs_on: Whether the launch leaves CUDA graphs on.
    """
    eager = capture_once(method, n, ids)
    defaulted = ids is None
    if not graphs_on or graphs is None or graphs.ids == "same":
        return EffectiveCapture(eager, None, defaulted)
    if graphs.ids != "default":
        return EffectiveCapture(eager, None, defaulted, graphs.reason or "graph replay is not known")
    replay = capture_once(method, n, None)
    if method.sticky and not eager.error and not replay.error:
        union = tuple(sorted({*replay.requested, *eager.requested}))
        eager = capture_boundaries(method, n, union)
    return EffectiveCapture(eager, replay, defaulted)


def read_ids(reading: IdReading, config: dict[str, object], *, n: int) -> tuple[tuple[int, ...] | None, str, str]:
    """Capture ids that a release finds in a drafter's config.

    Args:
        reading: The release's reading of the method, fitted (see `IdReading.status`).
        config: The drafter's config as the engine sees it (overrides applied).
        n: Decoder layers of the target, for the release's own range check and formula.

    Returns:
        ids (None: none found, the class's default applies), the dotted key they were read from (or "formula",
        or "" for none), and the name of the exception that the release raises instead (or "").
    """
    error = reading.error or "ValueError"
    for key in reading.keys:
        present, value = find(config, key)
        if value is None:
            if present and key in reading.null_stops:
                break
            continue
        ids = _ids_of(value, coerces=reading.coerces)
        if ids is None:
            return None, key, {"error": error, "setter": "TypeError"}.get(reading.broken, "")
        if not ids and reading.empty == "error":
            return None, key, error
        if key in reading.unchecked:
            return (None, key, error) if reading.checks_all and _others_refused(reading, config, n) else (ids, key, "")
        if not _in_range(reading, ids, n):
            return None, key, error
        return ids, key, ""
    if reading.missing == "error":
        return None, "", error
    if reading.missing == "formula":
        layers = config.get("num_hidden_layers")
        usable = isinstance(layers, int) and not isinstance(layers, bool) and layers > 0 and n > 0
        if usable and (layers == 1 or n >= 4):
            return even_ids(n, int(layers)), "formula", ""  # type: ignore[call-overload]
        return None, "formula", error
    return None, "", ""


def reading_shift(reading: IdReading, target_model_type: str, architectures: Sequence[str]) -> int:
    """What this release adds to the ids of such a drafter before the target's setter sees them."""
    return sum(
        shift.add
        for shift in reading.shifts
        if shift.target_model_type in {"", target_model_type}
        and (not shift.drafter_architectures or any(name in shift.drafter_architectures for name in architectures))
    )


def capture_switched_off(reading: IdReading, config: dict[str, object]) -> bool:
    """Whether the drafter's config turns the capture of aux hidden states off (`IdReading.switch`)."""
    if not reading.switch:
        return False
    present, value = find(config, reading.switch)
    return present and not value


def unmet_requirement(reading: IdReading, config: dict[str, object]) -> str:
    """The first key of `IdReading.requires` that must be positive and is not; "" if the requirement is met."""
    for key in reading.requires:
        value = lookup(config, key)
        if value is None:
            continue
        return "" if isinstance(value, (int, float)) and value > 0 else key
    return reading.requires[0] if reading.requires else ""


def _others_refused(reading: IdReading, config: dict[str, object], n: int) -> bool:
    """Whether the release refuses what it finds at the keys that do not win."""
    others = tuple(key for key in reading.keys if key not in reading.unchecked)
    return bool(read_ids(msgspec.structs.replace(reading, keys=others), config, n=n)[2])


def _in_range(reading: IdReading, ids: Sequence[int], n: int) -> bool:
    low = reading.range_low
    high = evaluate_expression(reading.range_high, n) if reading.range_high else None
    return not any((low is not None and i < low) or (high is not None and i > high) for i in ids)


def _ids_of(value: object, *, coerces: bool) -> tuple[int, ...] | None:
    """Ids of a config value, or None if it is no list of ids to this release."""
    if not isinstance(value, (list, tuple)):
        return None
    if not coerces and not all(isinstance(i, int) and not isinstance(i, bool) for i in value):
        return None
    try:
        return tuple(int(i) for i in value)
    except (TypeError, ValueError):
        return None


def find(config: object, dotted: str) -> tuple[bool, object]:
    """Whether a dotted key of nested mappings is present, and its value (None where it is not)."""
    value = config
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


def lookup(config: object, dotted: str) -> object:
    """Value at a dotted key of nested mappings, or None where any part is missing."""
    return find(config, dotted)[1]


def final_state(n: int) -> tuple[Tap, ...]:
    """What a drafter without aux taps is given: the target's final normed state."""
    return (Tap(n, FINAL_NORM),)
