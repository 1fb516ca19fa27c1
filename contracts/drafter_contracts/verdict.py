"""Findings and verdicts: what a check answers. Pure values, rendered elsewhere."""

from __future__ import annotations

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Worth saying, changes nothing.
NOTE = "note"
#: The launch will run and be worse than it could, or something was taken on word.
WARN = "warn"
#: Something that decides is not known; the finding says what would settle it.
UNKNOWN = "unknown"
#: The launch would be wrong: crash, or silently never accept.
REFUSE = "refuse"
SEVERITIES = (NOTE, WARN, UNKNOWN, REFUSE)

ALLOW = "allow"
DECISIONS = (ALLOW, WARN, REFUSE, UNKNOWN)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a rule has to say.

    Attributes:
        code: The rule's stable code, e.g. "CAPTURE_LAYERS"; `drafters explain CODE` tells more.
        severity: One of `SEVERITIES`.
        message: One sentence that names the drafter, the engine and version, and the fault.
        expected: What the drafter was trained on, or what would be right.
        actual: What the engine would do with this launch.
        source: Where the facts come from: file and key of the drafter, file, function and line of the engine.
        remedy: The one thing to do next, ready to paste where possible.
        flags: Where launch options alone would remedy it: each way a list of arguments, the first to be preferred.
    """

    code: str
    severity: str
    message: str
    expected: str = ""
    actual: str = ""
    source: str = ""
    remedy: str = ""
    flags: tuple[tuple[str, ...], ...] = ()


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a check.

    Attributes:
        decision: "allow", "warn", "refuse" or "unknown".
        findings: Everything that the rules had to say, worst first; never only the first mismatch.
        checked: Codes of the rules that ran and could decide. Empty means the decision is "unknown".
        context: What was compared: drafter, target, engine, where the layout was taken from, ... for printing.
    """

    decision: str
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    context: dict[str, str] = msgspec.field(default_factory=dict)


def conclude(findings: Iterable[Finding], checked: Iterable[str], context: dict[str, str] | None = None) -> Verdict:
    """The verdict that follows from findings: the worst severity decides; no checks at all is "unknown".

    `refuse` beats `unknown`: a launch that is wrong in one respect is wrong, whatever else is open.
    """
    ordered = tuple(sorted(findings, key=lambda f: -SEVERITIES.index(f.severity)))
    ran = tuple(checked)
    worst = ordered[0].severity if ordered else NOTE
    decision = {NOTE: ALLOW, WARN: WARN, UNKNOWN: UNKNOWN, REFUSE: REFUSE}[worst]
    if not ran and decision != REFUSE:
        decision = UNKNOWN
    return Verdict(decision, ordered, ran, dict(context or {}))
