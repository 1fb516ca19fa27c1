"""What an observation found: one document, and the same for people."""

from __future__ import annotations

import msgspec

from drafter_cli.observing.posting import Posted
from drafter_cli.observing.watch import RankSeen, Seen, Window
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import BOLD, GREEN, RED, YELLOW, Style, colours, printable, wrap, write
from drafter_cli.words import plural
from drafter_contracts.acceptance.records import AS_PROMISED, COLLAPSED, DEGRADED, Conditions, Judgement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_COLOURS = {AS_PROMISED: GREEN, DEGRADED: RED, COLLAPSED: RED}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An observation.

    Attributes:
        engine: The engine's URL, or the log's name.
        source: "metrics", "log" or "server info".
        limits: What that source cannot tell, one sentence each.
        conditions: Under what the drafter was seen, as far as it is known.
        promised_by: Where the promises are from; "" for none.
        begun: When, ISO 8601, UTC.
        ended: Likewise.
        first: Time of the first reading; None if there was none.
        last: Of the last.
        judgement: The verdict: of the present window, or of the latest that had one.
        ranks: Each data-parallel rank by itself, in the present window; empty for an engine with one.
        windows: The windows before.
        notes: What happened meanwhile.
        posted: What became of the reports to a registry; None where none were asked for.
        exit_code: The command's.
    """

    engine: str
    source: str
    limits: tuple[str, ...]
    conditions: Conditions
    promised_by: str
    begun: str
    ended: str
    first: str | None
    last: str | None
    judgement: Judgement
    ranks: tuple[RankSeen, ...]
    windows: tuple[Window, ...]
    notes: tuple[str, ...]
    posted: Posted | None
    exit_code: int


def short(seen: Seen, clock: str) -> str:
    """What is seen now, in one line.

    Args:
        seen: What is seen.
        clock: Time of day.
    """
    found = seen.judgement
    parts = [clock, figures(found)]
    if found.promised is not None:
        parts.append(f"of {found.promised:.2f} promised")
    parts += [counted(found), word(found)]
    if seen.ranks:
        lengths = " ".join(f"{one.rank or '-'}:{one.judgement.seen or 0:.2f}" for one in seen.ranks)
        parts.append(f"[ranks {lengths}]")
    return "  ".join(parts)


def figures(found: Judgement) -> str:
    """Length and bounds: "length 2.87 (2.71 to 3.02)"."""
    if found.seen is None:
        return "length ?"
    bounds = f" ({found.low:.2f} to {found.high:.2f})" if found.low is not None and found.high is not None else ""
    return f"length {found.seen:.2f}{bounds}"


def counted(found: Judgement) -> str:
    """How much was seen: "12 readings, 4800 steps"."""
    told = plural(found.readings, "reading")
    return told if found.verify_steps is None else f"{told}, {plural(found.verify_steps, 'step')}"


def word(found: Judgement) -> str:
    """The verdict's word, and that nothing is ever accepted where that is so."""
    return f"{found.word}, never accepted" if found.never_accepted else found.word


def print_report(report: Report) -> None:
    """The report for people, on standard output."""
    found = report.judgement
    style = Style(on=colours_of_output())
    if report.ranks:
        columns = (Column("RANK"), Column("LENGTH"), Column("SEEN"), Column("VERDICT"))
        print_table(columns, [_row(one) for one in report.ranks])
        write("")
    write(f"{style.paint(word(found), BOLD, _COLOURS.get(found.word, YELLOW))}: {printable(figures(found))}")
    for line in _lines(report):
        write(wrap(printable(line), indent="  "))


def colours_of_output() -> bool:
    """Whether standard output is coloured."""
    import sys

    stream: TextIO | None = sys.stdout
    return colours(stream)


def _row(one: RankSeen) -> tuple[str, ...]:
    found = one.judgement
    return one.rank or "-", figures(found).removeprefix("length "), counted(found), word(found)


def _lines(report: Report) -> list[str]:
    found = report.judgement
    when = f", the first at {report.first}, the last at {report.last}" if report.first else ""
    seen = f"seen: {counted(found)}{when}, by {_SOURCES[report.source]}"
    lines = [found.reason] if found.reason else []
    lines.append(seen)
    if found.low is not None:
        lines.append(f"bounds: right at every moment with a chance of {1 - found.alpha:.2%} or more")
    if found.promised is not None:
        by = f", by {report.promised_by}" if report.promised_by else ""
        lines.append(f"promised: {found.promised:.2f}{by}{f' ({found.promise})' if found.promise else ''}")
    lines += [f"differs: {one}" for one in found.differs]
    lines += [f"limit: {one}" for one in report.limits]
    if report.posted is not None:
        lines.append(_posted(report.posted))
    return [*lines, f"next: {found.settle}"] if found.settle else lines


_SOURCES = {"metrics": "its counters (/metrics)", "log": "its log", "server info": "its own mean (/server_info)"}


def _posted(posted: Posted) -> str:
    left = f", {posted.unsent} unsent" if posted.unsent else ""
    dropped = f", {posted.dropped} given up" if posted.dropped else ""
    why = f": {posted.error}" if posted.error else ""
    return f"reported: {plural(posted.stored, 'hour')} of {posted.reference}{left}{dropped}{why}"
