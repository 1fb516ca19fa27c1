"""What would settle a recorded state that could not be told."""

from __future__ import annotations

import torch

from drafter_contracts.layout import describe_taps
from drafter_contracts.values.matching.decide import FEW_ROWS, Decision
from drafter_contracts.values.matching.recorded import Recorded
from drafter_contracts.values.matching.roundoff import UNIT, Arithmetic, factor
from drafter_contracts.values.records import Capture


def settle(decision: Decision, recorded: Recorded) -> str:
    """What to do about an unknown state: one sentence, or "" if the state was found."""
    if decision.found:
        return ""
    if decision.absent:
        return f"a reference that holds {describe_taps(decision.absent)} too"
    if decision.damaged:
        return "record the sample again, or leave these rows out"
    if decision.crowded:
        return _crowded(decision, recorded)
    return _missing(decision, recorded)


def _crowded(decision: Decision, recorded: Recorded) -> str:
    """Finer numbers if these would tell the two apart; nothing if the two are the same."""
    rows = len(decision.best.errors)
    if rows < FEW_ROWS:
        return f"record more tokens: {rows} were compared"
    apart = decision.runner.error if decision.runner else 0.0
    sample, reference = UNIT[recorded.made.stored], UNIT[recorded.reference.made.ran]
    single = UNIT[torch.float32]
    if reference > single and apart > factor(0.5, rows) * max(sample, single):
        return "run the target in float32"
    if sample > single and apart > 0.0:
        return "record the states, and run the target, in float32"
    return "nothing recorded here can: the two states of the target are the same"


def _missing(decision: Decision, recorded: Recorded) -> str:
    """The recording's own dtype, a fuller reference, or the right one."""
    if said := _coarser(decision, recorded):
        return said
    if decision.alone and max(UNIT[recorded.made.ran], UNIT[recorded.reference.made.ran]) > UNIT[torch.float32]:
        return "the states recorded, and the target run, in float32, if this target amplifies what rounding loses"
    absent = recorded.reference.capture.missing()
    if absent:
        more = f" and {len(absent) - 4} more" if len(absent) > 4 else ""
        return (
            f"a reference that holds every state: not in this one: {', '.join(tap.label() for tap in absent[:4])}{more}"
        )
    return "the target, revision and dtype that the sample was recorded with; its states came from another place"


def _coarser(decision: Decision, recorded: Recorded) -> str:
    """Whether a coarser dtype than the numbers show would explain the nearest: states that were cast or mixed since."""
    best = decision.best
    for dtype in (torch.float16, torch.bfloat16):
        if UNIT[dtype] <= UNIT[recorded.made.ran]:
            continue
        tolerance = recorded.tolerance(best, Arithmetic(dtype, dtype))
        if best.error <= tolerance:
            name = str(dtype).removeprefix("torch.")
            return (
                f"states in the dtype in which the target ran: had that been {name}, with these {recorded.made.name} "
                f"numbers computed from its states, {best.error:.2g} would be explained (up to {tolerance:.2g})"
            )
    return ""


def remark(decision: Decision, capture: Capture) -> str:
    """That a state beside the one found is not in the reference, or ""."""
    if not decision.found:
        return ""
    at = decision.best.tap.boundary
    absent = [tap for tap in capture.missing() if abs(tap.boundary - at) <= 1]
    if not absent:
        return ""
    names = ", ".join(tap.label() for tap in absent)
    return f"not compared with {names}: not in the reference; that it is not there follows from its error alone"
