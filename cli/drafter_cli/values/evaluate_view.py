"""What `drafters evaluate` prints: a table of layouts, best first, and the verdict."""

from __future__ import annotations

import sys

from drafter_cli.table import Column, print_table
from drafter_cli.terminal import BOLD, GREEN, RED, YELLOW, Style, colours, printable, wrap, write
from drafter_cli.words import plural
from drafter_contracts.evidence.documents import Evaluation, LayoutScore
from drafter_contracts.layout import FINAL_NORM, RESIDUAL

_COLOURS = {"stated": GREEN, "other": RED, "unknown": YELLOW}
#: More tokens per step than so many get no column each.
_MOST_COLUMNS = 6


def show(document: Evaluation) -> None:
    """Write the document as text to standard output."""
    style = Style(on=colours(sys.stdout))
    steps = len(document.scores[0].steps)
    write(
        f"{printable(document.drafter)}: {document.method}, {plural(steps, 'token')} drafted per step,"
        f" {plural(document.rows, 'row')} of {plural(len(document.samples), 'sample')}"
    )
    write(f"reference: {printable(document.reference.shown())}")
    write("")
    shown = min(steps, _MOST_COLUMNS)
    print_table(_columns(shown), [_row(score, shown) for score in best_first(document)])
    write("")
    verdict = f"verdict: {document.verdict}"
    write(f"{style.paint(verdict, BOLD, _COLOURS[document.verdict])}: {printable(document.reason)}")
    for note in document.notes:
        write(wrap(f"note: {printable(note)}", indent=""))


def best_first(document: Evaluation) -> tuple[LayoutScore, ...]:
    """Every score, that on the samples' own states too, by tokens per step."""
    own = () if document.recorded is None else (document.recorded,)
    return tuple(sorted((*document.scores, *own), key=lambda score: -score.length))


def in_boundaries(score: LayoutScore) -> str:
    """The layout as boundaries: "3, 31, 59"."""
    states = score.states or (RESIDUAL,) * len(score.boundaries)
    parts = [
        "final norm" if state == FINAL_NORM else str(boundary)
        for boundary, state in zip(score.boundaries, states, strict=True)
    ]
    return ", ".join(parts)


def _in_output_ids(score: LayoutScore) -> str:
    states = score.states or (RESIDUAL,) * len(score.boundaries)
    parts = []
    for boundary, state in zip(score.boundaries, states, strict=True):
        name = "embedding" if boundary == 0 else str(boundary - 1)
        parts.append("final norm" if state == FINAL_NORM else name)
    return ", ".join(parts)


def _columns(steps: int) -> tuple[Column, ...]:
    tokens = tuple(Column(f"token {step}", right=True, leaves=max(3 + steps - step, 0)) for step in range(1, steps + 1))
    return (
        Column("layout"),
        Column("boundaries"),
        Column("output ids", leaves=2),
        *tokens,
        Column("per step", right=True),
        Column("served", right=True, leaves=1),
        Column("against stated", right=True),
    )


def _row(score: LayoutScore, steps: int) -> tuple[str, ...]:
    rates = (f"{rate:.1%}" for rate in score.steps[:steps])
    length = f"{score.length:.2f} ± {score.deviation:.2f}"
    compared = score.behind or score.behind_deviation
    behind = f"{score.behind:+.2f} ± {score.behind_deviation:.2f}" if compared else ""
    return (
        score.name,
        in_boundaries(score),
        _in_output_ids(score),
        *rates,
        length,
        f"{score.served:.2f}",
        behind,
    )
