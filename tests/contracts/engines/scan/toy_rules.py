"""The capture rules of a small release, and what they capture."""

from __future__ import annotations

from scan_toy import release

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.scan.targets import derive

N = 20


def rule_of(text, name="ToyForCausalLM", method="EAGLE3", **more):
    """The rule of a target class of the release with that model file."""
    captured, _ = derive(release(text, **more))
    return captured.rules[captured.targets[name][method]]


def taps(rule, ids, n=N):
    """Boundaries that are captured, or the error's class."""
    capture = capture_once(rule, n, ids)
    return [tap.boundary for tap in capture.taps] if not capture.error else capture.error
