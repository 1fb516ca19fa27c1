"""How `drafters show` tells what was promised later, and draws what engines were seen to accept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from drafter_cli.sheet import Sheet
from drafter_cli.terminal import RED, Style, printable
from drafter_cli.words import moment, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drafter_contracts.acceptance.records import Observation
    from drafter_registry.acceptance_documents import KnownAcceptance, SeenHour

_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN = "_.-~=+*#"
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
#: A longer time is drawn by days.
_MOST_HOURS = timedelta(hours=72)
_INDENT = 4
#: Space for the figures behind a curve.
_FIGURES = 34
#: A mean below it is coloured: see `acceptance.judge.NEVER_SEEN`, which judges with more care.
_NEVER = 1.1
_DIGITS = 12


class Curve(msgspec.Struct, frozen=True):
    """What was seen of one engine release with one target revision.

    Attributes:
        title: Which.
        cells: Mean length by hour or day, oldest first; None where nothing was seen.
        instances: How many engines.
    """

    title: str
    cells: tuple[float | None, ...]
    instances: int


def render(
    attached: Sequence[KnownAcceptance], seen: Sequence[SeenHour], *, style: Style, width: int, unicode: bool
) -> str:
    """What was attached and what was seen, as text; "" if nothing was.

    Args:
        attached: The version's acceptances; those of its manifest are left out.
        seen: Its history, in any order.
        style: Colours.
        width: Columns of the terminal.
        unicode: Whether block signs can be written.
    """
    sheet = Sheet(style, width)
    _attached(sheet, [one for one in attached if one.source == "attached"])
    if seen:
        _seen(sheet, [one.observation for one in seen], unicode=unicode)
    return sheet.text()


def _attached(sheet: Sheet, attached: Sequence[KnownAcceptance]) -> None:
    if not attached:
        return
    sheet.section("Measured since")
    for one in attached:
        told = one.acceptance
        where = ", ".join(filter(None, (told.dataset, told.engine, told.measured, told.notes)))
        sheet.field(
            "accepted",
            f"{told.length:g} tokens per step{f' ({where})' if where else ''}; attached {moment(one.at)} by {one.by}",
        )


def _seen(sheet: Sheet, observations: Sequence[Observation], *, unicode: bool) -> None:
    most = max(sheet.width - _INDENT - _FIGURES, 8)
    begins, unit, found = curves(observations, most)
    lengths = [length for curve in found for length in curve.cells if length is not None]
    top = max(2.0, *lengths)
    cell = "hour" if unit == _HOUR else "day"
    sheet.section(f"Seen on engines, by {cell} since {moment(begins.isoformat())}, from 1 to {top:.2f} tokens per step")
    for curve in found:
        sheet.lines.append(f"  {printable(curve.title)}, {plural(curve.instances, 'instance')}")
        told = [length for length in curve.cells if length is not None]
        last = f"last {told[-1]:.2f}"
        if told[-1] < _NEVER:
            last = sheet.style.paint(f"{last}: next to nothing is accepted", RED)
        drawn = sparkline(curve.cells, top, _BLOCKS if unicode else _PLAIN)
        sheet.lines.append(f"{' ' * _INDENT}{drawn}  {min(told):.2f} to {max(told):.2f}, {last}")


def curves(observations: Iterable[Observation], most: int) -> tuple[datetime, timedelta, tuple[Curve, ...]]:
    """What was seen as curves with a common time axis that ends with the latest hour.

    Args:
        observations: At least one.
        most: Most cells of a curve; what is older is left out.

    Returns:
        When the first cell begins, how long a cell is, and the curves: the one that was seen last first.
    """
    timed = [(datetime.fromisoformat(one.hour).astimezone(UTC), one) for one in observations]
    first, last = min(hour for hour, _ in timed), max(hour for hour, _ in timed)
    unit = _HOUR if last - first < min(_MOST_HOURS, most * _HOUR) else _DAY
    if unit == _DAY:
        first, last = (at.replace(hour=0) for at in (first, last))
    begins = max(first, last - (most - 1) * unit)
    count = (last - begins) // unit + 1
    groups: dict[str, list[tuple[int, Observation]]] = {}
    for hour, one in timed:
        if hour >= begins:
            groups.setdefault(_title(one), []).append(((hour - begins) // unit, one))
    found = [
        Curve(title, _means(group, count), len({one.instance for _, one in group})) for title, group in groups.items()
    ]
    newest = {title: max(one.hour for _, one in group) for title, group in groups.items()}
    return begins, unit, tuple(sorted(found, key=lambda curve: newest[curve.title], reverse=True))


def sparkline(cells: Sequence[float | None], top: float, signs: str) -> str:
    """One sign per cell, a space where nothing was seen.

    Args:
        cells: Lengths, 1 or more.
        top: Length of the highest sign.
        signs: From 1 to `top`.
    """
    highest = len(signs) - 1
    return "".join(
        " " if length is None else signs[min(round((length - 1) / (top - 1) * highest), highest)] for length in cells
    )


def _title(one: Observation) -> str:
    under = one.conditions
    engine = f"{under.engine} {under.release}".strip() or "an engine that is not told"
    return f"{engine}, target {under.target_revision[:_DIGITS]}" if under.target_revision else engine


def _means(group: Sequence[tuple[int, Observation]], count: int) -> tuple[float | None, ...]:
    """Means by cell, each hour by its readings: not all engines tell their verify steps."""
    sums, weights = [0.0] * count, [0] * count
    for cell, one in group:
        sums[cell] += one.length * one.readings
        weights[cell] += one.readings
    return tuple(total / weight if weight else None for total, weight in zip(sums, weights, strict=True))
