"""The sections of docs/conformance.md about drafters that were resolved and then served, from the kept results."""

from __future__ import annotations

from typing import Any

from served_cases import CASES, WHOLE

SERVED = """\
Drafters with random weights are published in an embedded registry (`drafters publish --boundaries ...`), resolved by
the command for a release and a tiny target (`drafters resolve NAME@1.0.0 --engine sglang==RELEASE --target DIR`, with
`--prefer flags` and `--prefer render`), and the release's own parser is given exactly what was printed, after the
options that a run on a CPU needs. Its ModelRunner then reads the drafter's config, with the overrides where there are
any, sets the ids and prefills. *Fed* is what came back, by value; where the release concatenates in another order
than the drafter was trained with, the drafter is rendered, and *order* is how the blocks of its `fc` lie then. Where
a render is preferred, the directory launched is what `drafters pull NAME@1.0.0 --for sglang==RELEASE -o DIR` wrote,
byte by byte what `resolve` had put into its cache.
"""
SPECULATING = """\
The whole engine (0.5.23, all its processes, decoding with EAGLE-3) is started with the printed flags in the same way.
In the process that runs the drafter, what enters its `fc` while the prompt is prefilled is kept, and `fc` itself.
`fc` holds the published columns bit by bit, in the order of the render, and *apart* is the greatest difference
between what it gives and what the published `fc` gives for its own order of the same states (its greatest output is
*scale*).
"""
ACCEPTED = """\
A drafter trained on the target's own text shows it in the accepted length (at most 4 per step): with the printed
flags, and launched as its producer left it. `next`: ids of boundaries where SGLang reads outputs; `order`: trained on
the states in another order; `speculators`: in that format.
"""
REFUSED = """\
Real launches (`python -m sglang.launch_server` of 0.5.23) that would feed a drafter other states, each behind
`drafters guard`, in a script with `drafters hook shell`, and alone with the plugin installed: every one ends with
exit code 3 and the finding, nothing after it in the script is run, and no process of it is left (by a mark in the
environment of every process, and by session). The right launch, in the same three ways, serves a request and ends at
SIGTERM.
"""


def sections(found: dict[str, Any]) -> dict[str, list[str]]:
    """Title to lines; a section is left out where nothing of it was run yet."""
    made = {
        "Served with the printed flags": [SERVED, *_served(found.get("served", {}))],
        "Speculating with the printed flags": [SPECULATING, *_speculating(found.get("speculating", {}))],
        "Accepted with the printed flags": [ACCEPTED, *_accepted(found.get("accepted", {}))],
        "Refused, and nothing left": [REFUSED, *_refused(found.get("refused", {}))],
    }
    return {title: lines for title, lines in made.items() if len(lines) > 1}


def _rows(head: str, rows: list[tuple[object, ...]]) -> list[str]:
    if not rows:
        return []
    return [head, "|---" * (head.count("|") - 1) + "|", *("| " + " | ".join(map(str, row)) + " |" for row in rows)]


def _how(seen: dict[str, Any]) -> str:
    """How the release is told: by nothing but the draft path and numbers, by overrides, by a render."""
    told = ["overrides"] if "--json-model-override-args" in seen["flags"] else []
    told += ["a render"] if seen["rendered"] else []
    told += ["no graphs"] if "--disable-cuda-graph" in seen["flags"] else []
    return ", ".join(told) or "as it is"


def _served(kept: dict[str, Any]) -> list[str]:
    rows = []
    for name, case in CASES.items():
        for key, seen in ((key, found[name]) for key, found in sorted(kept.items()) if name in found):
            release, prefer = key.split(", ")
            head = (name, list(case.boundaries), "none" if case.ids is None else list(case.ids), release, prefer)
            if "refused" in seen:
                rows.append((*head, f"refused: {seen['refused']}", "", "", "", ""))
            else:
                numbers = (seen.get("order", ""), seen["boundaries"], seen["right"], seen["wrong"])
                rows.append((*head, _how(seen), *numbers))
    head = "| drafter | trained on | ids in its config | release | prefer | told by | order | fed | right within | "
    return _rows(head + "wrong beyond |", rows)


def _speculating(kept: dict[str, Any]) -> list[str]:
    rows = []
    for name in WHOLE:
        for key, seen in sorted(kept.items()):
            release, prefer, called = key.split(", ", 2)
            if called == name:
                fc = (f"{seen['fc apart']:.1e}", f"{seen['fc scale']:.1e}")
                rows.append((name, list(CASES[name].boundaries), release, prefer, _how(seen), seen["boundaries"], *fc))
    return _rows("| drafter | trained on | release | prefer | told by | entered `fc` | apart | scale |", rows)


def _accepted(kept: dict[str, Any]) -> list[str]:
    rows = []
    for key, seen in sorted(kept.items()):
        release, kind, prefer = key.split(", ")
        rows.append((kind, release, prefer, _how(seen), seen["accepted"], seen["as it came"]))
    return _rows("| drafter | release | prefer | told by | accepted | as it came |", rows)


def _refused(kept: dict[str, Any]) -> list[str]:
    rows = []
    for key, seen in sorted(kept.items()):
        release, name, way = key.split(", ")
        rows.append((name, release, way, f"{seen['exit']}: {seen['code']}" if "exit" in seen else "served"))
    return _rows("| launch | release | gate | exit |", rows)
