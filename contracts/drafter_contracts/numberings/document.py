"""The table of numberings as a page of documentation: `python -m drafter_contracts.numberings.document`."""

from __future__ import annotations

import sys

from drafter_contracts.numberings.numbering import Numbering
from drafter_contracts.numberings.table import NUMBERINGS

_HEAD = """\
# Numberings

Made from the table in `drafter_contracts.numberings` by
`python -m drafter_contracts.numberings.document > docs/numberings.md`; a test holds the two together.

A target of N decoder layers has boundaries 0 (embedding output) to N (last layer's output before the final norm).
The state after the final norm is one of its own. Each row says how one producer's id i names a boundary b.

| numbering | producer | b | ids on N layers | when none are given | written under |
|---|---|---|---|---|---|
"""


def render() -> str:
    """The whole page, Markdown."""
    rows = "".join(_row(entry) for entry in NUMBERINGS.values())
    return _HEAD + rows + "".join(_section(entry) for entry in NUMBERINGS.values())


def _row(entry: Numbering) -> str:
    cells = (entry.name, entry.producer, _rule(entry), _ids(entry), _default(entry), f"`{entry.key}`")
    return "| " + " | ".join(cells) + " |\n"


def _section(entry: Numbering) -> str:
    lines = [
        f"\n## {entry.name}\n",
        f"{entry.producer}, {entry.versions}. An id means: {entry.meaning}. Concatenated {_order(entry)}.\n",
    ]
    lines += [
        f"- id {special.id}: {special.state} at boundary {special.boundary} ({special.why})"
        for special in entry.specials
    ]
    if entry.specials:
        lines.append("")
    if entry.note:
        lines.append(f"{entry.note}\n")
    lines.append(f"Source: {entry.source}.\n")
    return "\n".join(lines)


def _rule(entry: Numbering) -> str:
    rule = "i" if entry.shift == 0 else f"i + {entry.shift}"
    state = "" if entry.state == "residual" else f" ({entry.state})"
    return rule + state + "".join(f"; {special.id}: {special.boundary} {special.state}" for special in entry.specials)


def _ids(entry: Numbering) -> str:
    return f"{entry.low} to {entry.high}" + "".join(f", {special.id}" for special in entry.specials)


def _default(entry: Numbering) -> str:
    return ", ".join(entry.default) or "none"


def _order(entry: Numbering) -> str:
    return "in the order listed" if entry.order == "listed" else "in ascending layer order"


if __name__ == "__main__":
    sys.stdout.write(render())
