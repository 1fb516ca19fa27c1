"""A verdict as text for a person and as a document for a program."""

from __future__ import annotations

from drafter_cli.errors import exit_code_of_decision
from drafter_cli.terminal import BLUE, BOLD, DIM, GREEN, RED, YELLOW, Style, printable, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.verdict import Finding, Verdict

_COLOURS = {"allow": GREEN, "warn": YELLOW, "refuse": RED, "unknown": BLUE, "note": DIM}
_LABEL_WIDTH = 10


def document(verdict: Verdict) -> dict[str, object]:
    """The verdict for `--json`: every key is always there; described in docs/gate.md."""
    return {
        "schema": "drafters.verdict.v1",
        "decision": verdict.decision,
        "exit_code": exit_code_of_decision(verdict.decision),
        "findings": [_finding_document(finding) for finding in verdict.findings],
        "checked": list(verdict.checked),
        "context": verdict.context,
    }


def _finding_document(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "expected": finding.expected,
        "actual": finding.actual,
        "source": finding.source,
        "remedy": finding.remedy,
        "flags": [list(way) for way in finding.flags],
    }


def render(verdict: Verdict, style: Style) -> str:
    """The verdict as text: the decision, each finding worst first, and where every fact was taken from."""
    lines = [_headline(verdict, style)]
    for finding in verdict.findings:
        lines += ["", *_finding_lines(finding, style)]
    taken = _context_lines(verdict, style)
    if taken:
        lines += ["", *taken]
    return "\n".join(lines)


#: Keys of the context that the headline names.
_NAMED = ("drafter", "engine", "target")


def _headline(verdict: Verdict, style: Style) -> str:
    word = style.paint(verdict.decision.upper(), BOLD, _COLOURS.get(verdict.decision, RED))
    named = [f"{key} {printable(verdict.context[key])}" for key in _NAMED if verdict.context.get(key)]
    return f"{word}  {', '.join(named)}" if named else word


def _finding_lines(finding: Finding, style: Style) -> list[str]:
    severity = style.paint(finding.severity, _COLOURS.get(finding.severity, RED))
    lines = [f"  {severity} {style.paint(finding.code, BOLD)}", wrap(printable(finding.message), indent="    ")]
    for label, text in (
        ("expected", finding.expected),
        ("would be", finding.actual),
        ("source", finding.source),
        ("remedy", finding.remedy),
    ):
        if text:
            shown = style.paint(f"{label:<{_LABEL_WIDTH}}", DIM if label == "source" else BOLD)
            body = wrap(printable(text), indent=" " * (_LABEL_WIDTH + 4)).lstrip(" ")
            lines.append(f"    {shown}{body}")
    return lines


def _context_lines(verdict: Verdict, style: Style) -> list[str]:
    rest = {key: value for key, value in verdict.context.items() if value and key not in _NAMED}
    if not rest:
        return []
    width = max(len(key) for key in rest) + 2
    lines = [style.paint("  taken from", DIM)]
    for key, value in rest.items():
        body = wrap(printable(value), indent=" " * (width + 4)).lstrip(" ")
        lines.append(f"    {style.paint(f'{key:<{width}}', DIM)}{body}")
    return lines
