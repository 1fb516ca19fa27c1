"""Coverage of all shipped releases as a page of documentation: `python -m drafter_contracts.engines.coverage_page`."""

from __future__ import annotations

import re
import sys

from drafter_contracts.engines.coverage import CAPTURE, DRAFTER, READING, Coverage, coverages
from drafter_contracts.engines.profile import BROKEN, OPAQUE
from drafter_contracts.engines.ranges import span_text
from drafter_contracts.engines.store import load_profile, releases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ENGINE = "sglang"

_HEAD = """\
# Coverage

Made from the shipped profiles by `make docs` (`python -m drafter_contracts.engines.coverage_page > docs/coverage.md`);
a test holds the two together. `drafters engine coverage` prints the same of any release, and with `--all` the reasons.

A pair is a target class and a method (EAGLE3, DFLASH, DSPARK) that the class has a capture hook for in that release.

- **fitted**: rules reproduce the release's own code on every experiment. The gate decides.
- **broken**: the hook exists and provably cannot work in that release: whatever the ids, it raises or hands over
  nothing. That is a defect of the release, not of the profile, and the gate refuses with it.
- **opaque**: the scan cannot follow the class. The gate answers `unknown`.

*Decided* is fitted and broken together. Drafter classes inherit hooks of their targets and are never asked as targets:
they are counted by themselves. Their column says how many classes were found, and of how many it is known how `fc` is
sized, which keys they read and which weights they drop. Readings are the methods whose ids the release looks for in
a drafter's config.

| release | pairs found | fitted | broken | opaque | fitted % | decided % | drafter classes fitted | readings fitted |
|---|---|---|---|---|---|---|---|---|
"""


def render() -> str:
    """The whole page, Markdown."""
    known = releases(ENGINE)
    found = coverages(load_profile(ENGINE, release) for release in known)
    rows = "".join(_row(one) for one in found)
    sections = (
        ("Broken in the release", CAPTURE, BROKEN),
        ("Captures not decided", CAPTURE, OPAQUE),
        ("Drafter classes not decided", DRAFTER, OPAQUE),
        ("Readings not decided", READING, OPAQUE),
    )
    return _HEAD + rows + "".join(_section(title, kind, status, found, known) for title, kind, status in sections)


def _row(one: Coverage) -> str:
    pairs, drafters, readings = (one.tally(kind) for kind in (CAPTURE, DRAFTER, READING))
    cells = (
        one.release,
        pairs.found,
        pairs.fitted,
        pairs.broken,
        pairs.opaque,
        f"{pairs.share(pairs.fitted):.1f}",
        f"{pairs.share(pairs.decided):.1f}",
        f"{drafters.fitted} of {drafters.found}",
        f"{readings.fitted} of {readings.found}",
    )
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _section(title: str, kind: str, status: str, found: Sequence[Coverage], known: Sequence[str]) -> str:
    """One line per class and reason, with the releases in which it is so."""
    members: dict[tuple[str, str], dict[str, list[str]]] = {}
    places: dict[tuple[str, str], str] = {}
    for one in found:
        for item in one.gaps(kind):
            if item.status == status:
                key = (item.name, without_lines(item.reason))
                members.setdefault(key, {}).setdefault(item.method, []).append(one.release)
                places[key] = f"{item.source} in {one.release}" if item.source else ""
    if not members:
        return ""
    lines = [_line(key, methods, places[key], known) for key, methods in sorted(members.items())]
    return f"\n## {title}\n\n" + "".join(lines)


def _line(key: tuple[str, str], methods: dict[str, list[str]], place: str, known: Sequence[str]) -> str:
    name, reason = key
    ranges: dict[str, list[str]] = {}
    for method, members in methods.items():
        ranges.setdefault(span_text(known, members), []).append(method)
    where = "; ".join(f"{', '.join(filter(None, names))} {text}".strip() for text, names in ranges.items())
    at = f" (`{place}`)" if place else ""
    return f"- `{name}`, {where}: {_plain(reason)}{at}\n"


def without_lines(text: str) -> str:
    """A reason without line numbers, which move from release to release."""
    return re.sub(r"(\.py):\d+", r"\1", text)


def _plain(text: str) -> str:
    """Text of a release's own exception, as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    sys.stdout.write(render())
