"""`drafters engine coverage`: how much of each release's capture code its profile understands."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.engines.profile_argument import ENGINE, known_releases, load
from drafter_cli.errors import EXIT_OK
from drafter_cli.terminal import printable, write, write_json
from drafter_contracts.engines.coverage import CAPTURE, DRAFTER, KINDS, READING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.coverage import Coverage, Item, Tally

COMMANDS = {
    "engine coverage": Command(
        name="engine coverage",
        summary="how much of each release's capture code is understood",
        description=(
            "Per release: pairs of target class and method with a capture hook that were found, that are fitted, that\n"
            "cannot work in that release (broken), and that could not be followed (opaque: the gate says unknown);\n"
            "the same of drafter classes and of the readings of capture ids. All known releases, or those named; a\n"
            "file written by `drafters engine scan` will do."
        ),
        words=("[RELEASE...]",),
        options=(Option("--all", "name everything that is not fitted, with the reason"), JSON),
        examples=(
            ("drafters engine coverage", "all of them"),
            ("drafters engine coverage 0.5.23 --all", "what is not fitted in one of them, and why"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command's `run` is handed its declaration
    """Show the coverage of some releases or all."""
    from drafter_contracts.engines.coverage import coverage

    found = [coverage(load(text)) for text in parsed.words or known_releases()]
    if parsed.has("--json"):
        write_json({"engine": ENGINE, "releases": [_document(one) for one in found]})
        return EXIT_OK
    write("\n".join(printable(line) for line in _table(found)))
    if parsed.has("--all"):
        for one in found:
            write("\n".join(printable(line) for line in _gaps(one)))
    return EXIT_OK


def _table(found: list[Coverage]) -> list[str]:
    width = max(map(len, ("release", *(one.release for one in found))))
    lines = [
        f"{'':<{width}}  (target class, method) pairs                       drafter   readings",
        f"{'release':<{width}}  found  fitted  broken  opaque  fitted  decided   classes   of ids",
    ]
    return lines + [f"{one.release:<{width}}  {_row(one)}" for one in found]


def _row(one: Coverage) -> str:
    pairs, drafters, readings = (one.tally(kind) for kind in (CAPTURE, DRAFTER, READING))
    counts = f"{pairs.found:>5}  {pairs.fitted:>6}  {pairs.broken:>6}  {pairs.opaque:>6}"
    shares = f"{pairs.share(pairs.fitted):>5.1f}%  {pairs.share(pairs.decided):>6.1f}%"
    return f"{counts}  {shares}  {_of(drafters):>8}  {_of(readings):>7}"


def _of(tally: Tally) -> str:
    return f"{tally.fitted} of {tally.found}"


def _gaps(one: Coverage) -> list[str]:
    names = {CAPTURE: "captures", DRAFTER: "drafter classes", READING: "readings of ids"}
    lines = ["", f"{ENGINE} {one.release}: {'' if one.gaps() else 'everything is fitted'}".rstrip(": ")]
    for kind in KINDS:
        gaps = one.gaps(kind)
        if gaps:
            lines += [f"  {names[kind]} that are not fitted:", *(f"    {_gap(item)}" for item in gaps)]
    return lines


def _gap(item: Item) -> str:
    about = " ".join(filter(None, (item.name, item.method)))
    place = f"  [{item.source}]" if item.source else ""
    return f"{item.status:<6}  {about}: {item.reason}{place}"


def _document(one: Coverage) -> dict[str, object]:
    counts: dict[str, object] = {kind: _tally(one.tally(kind)) for kind in KINDS}
    return {"release": one.release} | counts | {"not_fitted": list(one.gaps())}


def _tally(tally: Tally) -> dict[str, object]:
    return {
        "found": tally.found,
        "fitted": tally.fitted,
        "broken": tally.broken,
        "opaque": tally.opaque,
        "fitted_percent": round(tally.share(tally.fitted), 1),
        "decided_percent": round(tally.share(tally.decided), 1),
    }
