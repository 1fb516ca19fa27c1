"""A diagnosis as text for a person who was woken by it."""

from __future__ import annotations

from drafter_cli.terminal import BLUE, BOLD, DIM, GREEN, RED, YELLOW, Style, printable, wrap
from drafter_contracts.acceptance.causes import FOUND, NOTHING, PROVED, SEEN, UNTOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.acceptance.causes import Cause, Diagnosis, Open
    from drafter_contracts.acceptance.records import Judgement

_COLOURS = {NOTHING: GREEN, FOUND: RED, UNTOLD: BLUE}
_LABEL = 10


def render(found: Diagnosis, style: Style) -> str:
    """The diagnosis as text: what it comes to, the causes, what was looked at, and what could not be."""
    named = [f"drafter {found.drafter}" if found.drafter else "", found.engine, f"at {found.source}"]
    if found.target:
        named.append(f"target {found.target}")
    head = style.paint(found.word.upper(), BOLD, _COLOURS[found.word])
    lines = [f"{head}  {printable(', '.join(filter(None, named)))}", *_acceptance(found.acceptance)]
    for number, cause in enumerate(found.causes, 1):
        lines += ["", *_cause(number, cause, style)]
    if found.checked:
        lines += ["", *_paragraph("checked: ", "; ".join(found.checked), style)]
    if found.open:
        lines += ["", style.paint("could not be looked at", DIM)]
        for one in found.open:
            lines += _open(one, style)
    if found.context:
        lines += ["", style.paint("taken from", DIM)]
        width = max(map(len, found.context)) + 2
        for key, value in found.context.items():
            body = wrap(printable(value), indent=" " * (width + 2)).lstrip(" ")
            lines.append(f"  {style.paint(f'{key:<{width}}', DIM)}{body}")
    return "\n".join(lines)


def _acceptance(judgement: Judgement | None) -> list[str]:
    if judgement is None:
        return []
    told = judgement.reason or judgement.word
    if judgement.never_accepted and "never" not in told:
        told = f"never accepted: {told}"
    return [wrap(printable(f"acceptance: {told}"), indent="  ")]


def _cause(number: int, cause: Cause, style: Style) -> list[str]:
    colour = {PROVED: RED, SEEN: YELLOW}.get(cause.confidence, DIM)
    lines = [
        f"  {number}. {style.paint(cause.code, BOLD)}  {style.paint(cause.confidence, colour)}",
        wrap(printable(cause.message), indent="     "),
    ]
    for text in cause.evidence:
        label, colon, rest = text.partition(": ")
        short = colon and len(label) <= _LABEL and " " not in label
        lines.append(_labelled(label if short else "seen", rest if short else text, style, DIM))
    if cause.next:
        lines.append(_labelled("next", cause.next, style, BOLD))
    return lines


def _labelled(label: str, text: str, style: Style, code: str) -> str:
    body = wrap(printable(text), indent=" " * (_LABEL + 5)).lstrip(" ")
    return f"     {style.paint(f'{label:<{_LABEL}}', code)}{body}"


def _open(one: Open, style: Style) -> list[str]:
    lines = [wrap(printable(f"{one.what}: {one.why}"), indent="  ")]
    if one.settle:
        lines.append(
            "    " + style.paint("settled by  ", DIM) + wrap(printable(one.settle), indent=" " * 16).lstrip(" ")
        )
    return lines


def _paragraph(label: str, text: str, style: Style) -> list[str]:
    return [style.paint(label, DIM) + wrap(printable(text), indent=" " * len(label)).lstrip(" ")]
