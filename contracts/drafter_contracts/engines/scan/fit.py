"""From experiments to a rule: the first rule of the language that reproduces every outcome, or none.

The search is over the rule language of `engines.profile`, simplest first, and what decides is the interpreter that
the gate itself uses (`engines.capture.capture_once`): a rule is accepted only if it gives the observed outcome for
every list of ids at every depth. Nothing is accepted that explains most of them.
"""

from __future__ import annotations

import builtins
from itertools import product

import msgspec

from drafter_contracts.engines.capture import Capture, capture_once
from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import (
    BROKEN,
    FITTED,
    OPAQUE,
    CaptureMethod,
    CaptureRule,
    Guard,
    Region,
    Shift,
)
from drafter_contracts.errors import ProfileError
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.layout import RESIDUAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Regions below 0, at 0, at N, above N, and below -N.
_Regions = tuple[Region, Region, Region, Region, "Region | None"]


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One experiment.

    Attributes:
        n: Depth.
        ids: What the setter was given.
        taps: What arrived: boundary and, if it is not the residual stream there, what it is.
        phase: Where the release raised, with `error` its exception and `text` that exception in words.
        unclear: Why the experiment does not say what was captured.
        delivered: How many states arrived, where it is unclear which.
    """

    n: int
    ids: list[int] | None
    taps: list[tuple[int, str]] = []
    phase: str = ""
    error: str = ""
    text: str = ""
    unclear: str = ""
    delivered: int = 0

    def words(self) -> str:
        """The case and its outcome, for a reason."""
        outcome = self.text or self.unclear or ("captures " + (", ".join(str(b) for b, _ in self.taps) or "nothing"))
        return f"ids {'none' if self.ids is None else self.ids} at depth {self.n}: {outcome}"


class Study(msgspec.Struct, forbid_unknown_fields=True):
    """What a probe says about one class and method.

    Attributes:
        setter: Place of the setter.
        forward: Place of the forward pass that captures.
        cases: The experiments.
        unclear: Why there are none.
        defect: Why there can be none: the class cannot work in this release.
        depth: Config key that the setter takes the depth from.
        sticky: A second call of the setter adds to the first.
        last_rank_only: The setter does nothing before the last pipeline stage.
    """

    setter: dict[str, str | int] = {}
    forward: dict[str, str | int] = {}
    cases: list[Case] = []
    unclear: str = ""
    defect: str = ""
    depth: str = "num_hidden_layers"
    sticky: bool = False
    last_rank_only: bool = False


#: Expressions for a default list, simplest first.
_EXPRESSIONS = (
    *(str(i) for i in range(9)),
    *("N//2", "N//2-1", "N//2+1", "N//2-2", "N//2+2", "N//3", "N//4"),
    *(f"N-{i}" for i in range(1, 9)),
    "N",
)

_CONDITIONS = (
    *(f"first=={c}" for c in (1, 0, 2)),
    *("max==N", "max==N-1", "max>=N"),
    *("min>=1", "min>=0", "min==0", "min==-1"),
)

#: Refusals by a setter, in the order in which they are looked for.
_GUARDS = ("empty", "duplicate", "unsorted", "id<0", "id<1", "id>N", "id>=N", "id==N-1", "max==N-1")


def fit(study: Study) -> CaptureMethod:
    """The rule that reproduces a study, or why there is none."""
    about = CaptureMethod(
        status=OPAQUE,
        source=place(study.setter),
        forward=place(study.forward),
        depth=study.depth,
        sticky=study.sticky,
        last_rank_only=study.last_rank_only,
    )
    if study.defect:
        return msgspec.structs.replace(about, status=BROKEN, reason=study.defect)
    if study.unclear or not study.cases:
        return msgspec.structs.replace(about, reason=study.unclear or "no experiment")
    broken = _defect(study.cases)
    if broken and _lacking(broken):
        return msgspec.structs.replace(about, reason=broken)
    if broken:
        return msgspec.structs.replace(about, status=BROKEN, reason=broken, sticky=False)
    unclear = next((case.words() for case in study.cases if case.unclear), "")
    if unclear:
        return msgspec.structs.replace(about, reason=unclear)
    nearest: Case | None = None
    most = -1
    for candidate in _candidates(about, study.cases):
        agreed, failing = _reproduces(candidate, study.cases)
        if failing is None:
            return candidate
        if agreed > most:
            most, nearest = agreed, failing
    missed = nearest.words() if nearest is not None else "no shift explains the ids"
    return msgspec.structs.replace(about, reason=f"no rule reproduces it; the nearest misses: {missed}")


def place(found: dict[str, str | int]) -> Source | None:
    """A place in the release as a probe says it; None for none."""
    return msgspec.convert(found, Source) if found else None


def _defect(cases: Sequence[Case]) -> str:
    """Why a hook cannot deliver at all; "" if it delivers something for some ids."""
    if any(case.taps or case.delivered for case in cases):
        return ""
    failing = next((case for case in cases if case.error and (case.ids or case.ids is None)), None)
    ordinary = [case for case in cases if case.ids and all(0 < i < case.n - 2 for i in case.ids)]
    if all(case.error for case in ordinary) and (failing or ordinary):
        first = ordinary[0] if ordinary else failing
        return f"every list of ids fails: {first.text}" if first is not None else ""
    return "nothing is captured, whatever the ids: the forward pass does not hand over what the setter asks for"


def _lacking(reason: str) -> bool:
    """Whether what failed is Python's own, which the sandbox does not have: then the release is not at fault."""
    name = reason.partition("NameError: name '")[2].partition("'")[0]
    return bool(name) and hasattr(builtins, name)


def _candidates(about: CaptureMethod, cases: Sequence[Case]) -> Iterator[CaptureMethod]:
    """Rules worth testing, simplest first."""
    states = sorted({state for case in cases for _, state in case.taps if state})
    state = states[0] if states else RESIDUAL
    default = _default(cases)
    refusals = _guards(cases)
    raised = ["", *dict.fromkeys(case.error for case in cases if case.phase == "forward")]
    for shifts in _shifts(cases):
        for guards in dict.fromkeys((refusals, ())):
            for regions in _regions(shifts, guards, cases):
                for order, duplicates, short, none in product(
                    ("ascending", "given"), ("once", "repeat"), raised, raised
                ):
                    rule = _rule(state, regions, order, duplicates, (short, none))
                    yield msgspec.structs.replace(
                        about, status=FITTED, default=default, shifts=shifts, guards=guards, capture=rule
                    )


def _rule(state: str, regions: _Regions, order: str, duplicates: str, raised: tuple[str, str]) -> CaptureRule:
    """A capture rule from its parts."""
    negative, zero, last, above, below = regions
    short, none = raised
    return CaptureRule(state, negative, zero, last, above, order, duplicates, short, none, below)


def _default(cases: Sequence[Case]) -> tuple[str, ...] | None:
    """Expressions of the default list that hold at every depth; None if ids are required."""
    seen = {case.n: [b for b, _ in case.taps] for case in cases if case.ids is None and not case.error}
    if not seen:
        return None
    count = max(len(found) for found in seen.values())
    result = []
    for position in range(count):
        for text in _EXPRESSIONS:
            if all(
                position < len(found) and evaluate_expression(text, n) == found[position] for n, found in seen.items()
            ):
                result.append(text)
                break
        else:
            return None
    return tuple(result)


def _shifts(cases: Sequence[Case]) -> Iterator[tuple[Shift, ...]]:
    """Ways in which ids may become boundaries; none where the setter takes no ids."""
    if all(case.ids is None for case in cases):
        yield ()
        return
    for add in (1, 0, 2, -1):
        yield (Shift(add),)
    for condition in _CONDITIONS:
        for first, other in ((1, 0), (0, 1)):
            yield (Shift(first, condition), Shift(other))


def _guards(cases: Sequence[Case]) -> tuple[Guard, ...]:
    """Refusals that hold without exception: whenever the condition holds, the setter raises that error.

    An IndexError is no refusal but a boundary that there is no layer for: `Region` says that.
    """
    found = []
    for condition in _GUARDS:
        hit = [case for case in cases if case.ids is not None and _holds(condition, case.ids, case.n)]
        errors = {case.error for case in hit if case.phase == "setter"}
        if hit and len(errors) == 1 and "IndexError" not in errors and all(case.phase == "setter" for case in hit):
            found.append(Guard(condition, errors.pop()))
    return _irredundant(tuple(found), cases)


def _irredundant(guards: tuple[Guard, ...], cases: Sequence[Case]) -> tuple[Guard, ...]:
    """The guards without those that say nothing beyond the others."""
    kept = list(guards)
    for guard in reversed(guards):
        others = [g for g in kept if g is not guard]
        refused = [case for case in cases if case.ids is not None and _holds(guard.when, case.ids, case.n)]
        if all(any(_holds(g.when, case.ids or [], case.n) for g in others) for case in refused):
            kept = others
    return tuple(kept)


def _holds(condition: str, ids: Sequence[int], n: int) -> bool:
    probe = CaptureMethod(FITTED, guards=(Guard(condition, "Hit"),), shifts=(Shift(0),))
    return capture_once(probe, n, ids).error == "Hit"


def _regions(shifts: tuple[Shift, ...], guards: tuple[Guard, ...], cases: Sequence[Case]) -> Iterator[_Regions]:
    """What may happen below 0, at 0, at N, above N and below -N, as the experiments with one id suggest."""
    probe = CaptureMethod(FITTED, shifts=shifts, guards=guards)
    suggested: list[dict[Region, None]] = [{}, {}, {}, {}, {}]
    for case in cases:
        for boundary in _requested(probe, case):
            if 0 < boundary < case.n:
                continue
            place = 4 if boundary < -case.n else 0 if boundary < 0 else 1 if boundary == 0 else 2
            if boundary > case.n:
                place = 3
            for region in _explanations(case, boundary):
                suggested[place][region] = None
    usual = (Region("drop"), Region(), Region("drop"), Region("drop"))
    lists = [list(found) or [default] for found, default in zip(suggested[:4], usual, strict=True)]
    for negative, zero, last, above in product(*lists):
        for below in [None, *(region for region in suggested[4] if region != negative)]:
            yield negative, zero, last, above, below


def _requested(probe: CaptureMethod, case: Case) -> tuple[int, ...]:
    """The boundary asked for in an experiment with one distinct id; nothing for others, or where ids are refused."""
    if case.ids is None or len(set(case.ids)) != 1 or not probe.shifts:
        return ()
    if any(_holds(guard.when, case.ids, case.n) for guard in probe.guards):
        return ()
    return capture_once(probe, case.n, case.ids).requested[:1]


def _explanations(case: Case, boundary: int) -> Iterator[Region]:
    """Regions under which one boundary has this outcome."""
    if case.error:
        yield Region("error", case.error, case.phase)
        if boundary < 0:
            yield Region("wrap")
        yield Region("drop")
        return
    captured = [b for b, _ in case.taps]
    if not captured:
        yield Region("drop")
    elif captured[0] == boundary:
        yield Region()
    elif boundary < 0 and captured[0] == boundary + case.n:
        yield Region("wrap")


def _reproduces(method: CaptureMethod, cases: Sequence[Case]) -> tuple[int, Case | None]:
    """How many experiments a rule gives before it fails, and the one where it fails."""
    for agreed, case in enumerate(cases):
        try:
            capture = capture_once(method, case.n, case.ids)
        except ProfileError:
            return agreed, case
        if not same(capture, case, needs_ids=method.default is None):
            return agreed, case
    return len(cases), None


def same(capture: Capture, case: Case, *, needs_ids: bool = False) -> bool:
    """Whether a predicted capture is the observed outcome."""
    if case.error:
        if needs_ids and case.ids is None:  # that it is refused is the rule; how is the setter's own affair
            return bool(capture.error)
        return (capture.error, capture.phase) == (case.error, case.phase)
    if capture.error or len(capture.taps) != len(case.taps):
        return False
    return all(
        (tap.boundary, capture.foreign or tap.state) == _tap(found, capture.foreign)
        for tap, found in zip(capture.taps, case.taps, strict=True)
    )


def _tap(found: tuple[int, str], foreign: str) -> tuple[int, str]:
    """A captured state; the embedding, before which there is no layer, counts as any foreign state."""
    boundary, state = found
    return boundary, (foreign if not boundary and foreign else "") or state or RESIDUAL
