"""What a profile predicts for a list of ids beside what the running engine did."""

from __future__ import annotations

from plan import LAYERS

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.profile import BROKEN, FITTED, CaptureMethod

#: A returned state is a boundary if it is that much nearer to it than to every other one (root mean square).
CLEARLY = 0.2


def predicted(rule: CaptureMethod | None, ids: list[int] | None) -> dict:
    """Boundaries, or the exception and its phase, or that the class has no hook."""
    if rule is None:
        return {"phase": "start", "error": "no hook"}
    if rule.status not in {FITTED, BROKEN}:
        return {"phase": "opaque", "error": rule.reason}
    # A rule without shifts is that of a setter that takes no ids.
    capture = capture_once(rule, LAYERS, ids if rule.shifts else None)
    if capture.error:
        return {"phase": capture.phase, "error": capture.error}
    return {"boundaries": [tap.boundary for tap in capture.taps], "dropped": len(capture.dropped)}


def identified(answer: dict) -> dict:
    """Which boundaries the returned parts are, the greatest distance to these, and the smallest to any other.

    Told by what transformers computes; where the engine's own arithmetic on a CPU differs too much from that, by what
    the engine's own decoder layers were given, and the answer says so. A part that is clearly nearest to none is -1;
    the state after the final norm counts as boundary N + 1.
    """
    found = nearest(answer["parts"])
    if -1 in found["boundaries"] and answer.get("own"):
        own = nearest(answer["own"])
        if -1 not in own["boundaries"]:
            return own | {"against": "own layers"}
    return found


def nearest(parts: list[dict]) -> dict:
    """The nearest boundary of every part."""
    found, right, wrong = [], [], []
    for part in parts:
        order = sorted(range(len(part["square"])), key=part["square"].__getitem__)
        first, second = order[:2]
        clear = part["square"][first] <= CLEARLY * part["square"][second]
        found.append(first if clear else -1)
        right.append(part["most"][first])
        wrong.append(min(part["most"][i] for i in order[1:]))
    return {"boundaries": found, "right": short(max(right, default=0.0)), "wrong": short(min(wrong, default=0.0))}


def short(value: float) -> float:
    """Two digits: more would differ from machine to machine."""
    return float(f"{value:.1e}")


def cannot_run(seen: dict) -> bool:
    """Whether a launch failed for want of something that a CPU has not: an error outside the models' own files."""
    return bool(seen.get("error")) and not seen.get("where", "").startswith("srt/models/")


def agrees(expected: dict, seen: dict) -> bool:
    """Whether the engine did what was predicted."""
    if expected.get("error") == "broken":
        return bool(seen.get("error")) and not cannot_run(seen)
    if expected.get("error") == "no hook":
        return seen.get("phase") == "start" and "set_eagle3_layers_to_capture" in seen.get("text", "")
    if expected.get("error"):
        return (seen.get("phase"), seen.get("error")) == (expected["phase"], expected["error"])
    return not seen.get("error") and seen.get("boundaries") == expected["boundaries"]


#: Why a prediction and what was seen differ, where that is understood. An entry that no longer occurs must go.
OPEN = {
    "embedding overwritten": (
        "Boundary 0 was captured without a copy, and the fused add-and-norm of the first layer writes into it: what "
        "arrives is boundary N. An advisory of that release and class says so (SGLANG-EMBEDDING-ALIAS); the rule alone "
        "does not."
    ),
}


def difference(expected: dict, seen: dict) -> str:
    """Which of `OPEN` a difference is, or ""."""
    wanted, found = expected.get("boundaries"), seen.get("boundaries")
    if wanted and found and 0 in wanted and found == [LAYERS if b == 0 else b for b in wanted]:
        return "embedding overwritten"
    return ""
