"""The section about argument parsers of the conformance page, from `results.json`.

Usage: section.py, writes Markdown.
"""

from __future__ import annotations

import json
import os
import sys

from drafter_contracts.engines.versions import version_key

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results.json")
INTRODUCTION = """\
## Argument parsers

Each release's own parser is imported in its environment and asked with random command lines, the same each time: names,
aliases and abbreviations of its own options, right and wrong values, repeated options, `--option=value`, `--config`
files, and `sglang serve` where the release has it. *Equal*: every attribute has the same value. *Both refused*: the
release exits (or raises while it merges the file), and the gate names the problem. *Not judged*: the profile says that
it does not know the option's converter.
"""
RESOLVED = """\
Then launches with speculation are resolved by each release's `ServerArgs`: every algorithm with each of steps, topk and
draft tokens given or not, and random ones on targets and drafters of several classes, with page sizes and attention
backends. Algorithm, the three numbers and the draft path must be those that the gate predicts, or the exception.
*Elsewhere*: the release stops in the same way without speculation (a backend that this machine does not have).
"""
PLANNED = """\
Last, `resolve` for 200 generated manifests, the same each time: drafters for EAGLE-3, EAGLE, DFLASH, DSPARK and of
whole models, for targets of nine classes and four depths; the class's default layers, any layers, other orders, two
to five of them; ids as SGLang reads them, as boundaries, or none; recommended numbers with one branch per step,
several, in vLLM's count, or none; short contexts, quantized targets and drafters, and more options of an operator's.
Every set of printed flags is given to the release's parser, which must read every attribute as the gate does, and is
resolved by its `ServerArgs`: algorithm, numbers and draft path in force must be what was printed. *Lacking*: the
release has no such method, no hook in the target's class, a broken one, or no `fc` for so many taps.
"""


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def section() -> str:
    """The section as Markdown."""
    with open(RESULTS, encoding="utf-8") as file:
        results = json.load(file)
    parsed, resolved, reasons = [], [], {}
    for release, found in sorted(results["releases"].items(), key=lambda item: version_key(item[0])):
        lines = found.get("command lines", {})
        sums = [
            sum(count for name, count in lines.items() if name.endswith(f", {what}"))
            for what in ("equal", "both refused", "not judged")
        ]
        parsed.append((release, sum(sums), *sums))
        if "resolved" in found:
            counts = found["resolved"]
            names = ("equal", "both refused", "stops without speculation too", "unknown")
            numbers = [counts.get(name, 0) for name in names]
            resolved.append((release, sum(numbers), *numbers))
            for reason, count in counts["why unknown"].items():
                reasons[reason] = reasons.get(reason, 0) + count
    parts = [INTRODUCTION, _table(("release", "command lines", "equal", "both refused", "not judged"), parsed)]
    parts += [RESOLVED, _table(("release", "launches", "equal", "both refused", "elsewhere", "unknown"), resolved)]
    if reasons:
        lines = "".join(f"- {reason} ({count})\n" for reason, count in sorted(reasons.items()))
        parts += ["What is unknown, and why:\n", lines]
    return "\n".join([*parts, *_planned(results["releases"])])


def _planned(releases: dict[str, dict]) -> list[str]:
    """What became of the generated manifests."""
    plans = ("resolved", "resolved with a render", "refused", "not known", "lacking")
    rows, why = [], []
    for release, found in sorted(releases.items(), key=lambda item: version_key(item[0])):
        if "planned" in found:
            kept = found["planned"]
            force = (kept["in force"].get(name, 0) for name in ("equal", "stops without speculation too"))
            rows.append((release, *(kept["plans"][name] for name in plans), kept["parsed"]["equal"], *force))
            told = ", ".join(f"{codes} ({count})" for codes, count in sorted(kept["why not"].items()))
            why.append(f"- {release}: {told}\n")
    head = ("release", *plans, "parsed as read", "in force as printed", "elsewhere")
    return [PLANNED, _table(head, rows), "What has no flags, by its findings:\n", "".join(why)] if rows else []


if __name__ == "__main__":
    sys.stdout.write(section())
