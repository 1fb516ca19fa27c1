"""A picture of the target's layer stack with the captured states marked, as text."""

from __future__ import annotations

import msgspec

from drafter_cli.terminal import BOLD, DIM, GREEN, YELLOW, Style
from drafter_contracts.layout import FINAL_NORM, Tap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.layout import CaptureLayout


class Glyphs(msgspec.Struct, frozen=True):
    """The signs of the picture."""

    tap: str
    other: str
    plain: str
    layers: str
    line: str
    arrow: str
    end: str


UNICODE = Glyphs(tap="●", other="◌", plain="┼", layers="│", line="─", arrow="▶", end="▼")
ASCII = Glyphs(tap="*", other="?", plain="+", layers="|", line="-", arrow=">", end="v")

_NUMBER = 10
_LABEL = 30


class _Row(msgspec.Struct, frozen=True):
    """One line: a state (with its boundary) or the layers between two of them."""

    number: str
    mark: str
    label: str
    chunks: tuple[int, ...] = ()
    note: str = ""


def draw(
    layout: CaptureLayout | None,
    depth: int | None,
    others: Sequence[Sequence[int]],
    *,
    style: Style,
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    """The stack from the embedding down to the head, one line for each state that matters.

    Args:
        layout: The captured states, or None if they are not known: then only the other readings are marked.
        depth: Decoder layers of the target, or None if not known.
        others: Other readings of the same numbers, as boundaries.
        style: Colours.
        glyphs: Signs of the picture.
    """
    taps = layout.taps if layout is not None else ()
    columns = _columns(layout)
    title = f"target of {depth} layers" if depth is not None else "target (depth not known)"
    reads = "fc reads" if taps else ""
    lines = [style.paint(f"{'boundary':>{_NUMBER - 2}}  {title:<{_LABEL + 4}}{reads}".rstrip(), BOLD)]
    return lines + [_line(row, columns, style, glyphs) for row in _rows(taps, depth, others)]


def _rows(taps: Sequence[Tap], depth: int | None, others: Sequence[Sequence[int]]) -> list[_Row]:
    """All states worth a line, and the runs of layers between them."""
    chunks: dict[Tap, tuple[int, ...]] = {}
    for position, tap in enumerate(taps, start=1):
        key = tap if tap.state == FINAL_NORM else Tap(tap.boundary)
        chunks[key] = (*chunks.get(key, ()), position)
    readings = {boundary for other in others for boundary in other}
    shown = {0, *(tap.boundary for tap in chunks if tap.state != FINAL_NORM), *readings}
    if depth is not None:
        shown = {boundary for boundary in shown if boundary <= depth} | {depth}
    rows: list[_Row] = []
    before: int | None = None
    for boundary in sorted(shown):
        if before is not None:
            rows.append(_Row("", "layers", _run(before, boundary - 1)))
        rows.append(_state(boundary, depth, chunks.get(Tap(boundary), ()), other=boundary in readings))
        before = boundary
    if depth is None:
        rows.append(_Row("", "layers", f"layers {before} to N-1"))
        rows.append(_Row("N", "plain", "last layer's output"))
    final = next((positions for tap, positions in chunks.items() if tap.state == FINAL_NORM), ())
    rows.append(_Row("", "tap" if final else "layers", "final norm", final))
    rows.append(_Row("", "end", "lm_head"))
    return rows


def _state(boundary: int, depth: int | None, chunks: tuple[int, ...], *, other: bool) -> _Row:
    label = "embedding output" if boundary == 0 else f"output of layer {boundary - 1}"
    if boundary == depth and boundary:
        label += ", the last"
    mark = "tap" if chunks else "other" if other else "plain"
    return _Row(str(boundary), mark, label, chunks, "another reading" if other and not chunks else "")


def _run(first: int, last: int) -> str:
    return f"layer {first}" if first == last else f"layers {first} to {last}"


def _columns(layout: CaptureLayout | None) -> dict[int, str]:
    """Chunk number to the columns of fc that it feeds."""
    if layout is None or not layout.widths:
        return {}
    found, start = {}, 0
    for position, width in enumerate(layout.widths, start=1):
        found[position] = f"columns {start} to {start + width - 1}"
        start += width
    return found


def _line(row: _Row, columns: dict[int, str], style: Style, glyphs: Glyphs) -> str:
    sign = getattr(glyphs, row.mark)
    number = f"{row.number:>{_NUMBER - 2}}  "
    if row.chunks:
        rule = glyphs.line * (_LABEL - len(row.label) - 1) + glyphs.arrow
        reads = ", ".join(f"tap {chunk}" + (f": {columns[chunk]}" if chunk in columns else "") for chunk in row.chunks)
        return number + style.paint(f"{sign} {row.label} {rule} {reads}", GREEN)
    if row.mark == "other":
        return number + style.paint(f"{sign} {row.label:<{_LABEL}}  {row.note}", YELLOW)
    if row.mark == "layers":
        return number + style.paint(f"{sign}   {row.label}", DIM)
    return f"{number}{sign} {row.label}"
