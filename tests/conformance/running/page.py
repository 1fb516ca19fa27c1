"""The page docs/conformance.md, made from the kept results and the shipped profiles. Prints it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

import compare
import plan
import results
import served_page

from drafter_contracts.engines.capture import read_ids
from drafter_contracts.engines.profile import Profile
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile, releases
from drafter_contracts.engines.versions import version_key

sys.path.append(os.path.join(os.path.dirname(results.PATH), os.pardir, "parsers"))
import section

INTRODUCTION = """\
# The profiles beside running engines

*Generated from `tests/conformance/running/results.json` by `make docs`; `make conformance` writes the results.*

Tiny targets with seeded random weights ({layers} decoder layers, width 64) run inside the real releases on a CPU: the
release's own ModelRunner reads a drafter's config, calls the model's setter with its ids, and one prefill of
{tokens} tokens returns the captured states. Then many more lists of ids are set on the same model, as it was before
its setter was first called: no ids, none at all, the first and last layers, duplicates, unsorted lists, ids beyond
the end, negative ones, and lists of any kind, drawn at random with a seed. Every returned state is compared with
what transformers computes at every boundary from the same weights, and counts as the boundary that it is clearly
nearest to (root mean square at most a fifth of that to the next). What the shipped profile predicts must be what was
seen: which boundaries, in which order, how many, or which exception in the setter or in the forward pass.

On a CPU there are no CUDA graphs, no CUDA kernels, no tensor parallelism and no quantized weights: nothing here says
anything about those. A stand-in takes the place of the kernel package that is built for CUDA only; where the column
"run as" says so, attention is the stand-in's or the tests' own. The fused add-and-norm writes into its arguments, as
every device's kernel does (the release's PyTorch version makes new tensors: a state captured without a copy would
survive on a CPU alone). Everything else between the drafter's config and the returned states is the release's.
"""


SEEN = ("match", "failure", "open", "different", "not run")


def judged(release: str, found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Per shape, every list with what the shipped profile predicts and how it counts (see `SEEN`)."""
    profile = load_profile("sglang", release)
    rows = {}
    for shape, content in found["shapes"].items():
        rule = profile.capture_method(plan.SHAPES[shape], "EAGLE3")
        first = {"ids": list(plan.DRAFTER_IDS)} | (content.get("start") or content["launch"])
        expected = compare.predicted(rule, first["ids"])
        stopped = compare.cannot_run(first) and not compare.agrees(expected, first)
        lists = [first, *content["lists"]]
        known = advised(release, plan.SHAPES[shape])
        rows[shape] = [one(compare.predicted(rule, seen["ids"]), seen, known, stopped=stopped) for seen in lists]
        if "launch" in content and first["ids"] != read_by(profile):
            rows[shape][0] |= {"counts": "different", "why": ""}
    return rows


def read_by(profile: Profile) -> list[int] | None:
    """Ids that the release hands to the setter, of the drafter that every launch is given."""
    config = {
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(plan.DRAFTER_IDS), "use_aux_hidden_state": True}
    }
    ids, _key, _error = read_ids(profile.readings["EAGLE3"], config, n=plan.LAYERS)
    return None if ids is None else list(ids)


def advised(release: str, architecture: str) -> bool:
    """Whether an advisory says that boundary 0 is not what arrives where it is captured."""
    return any(
        advisory.when == "tap:0" and architecture in advisory.architectures
        for advisory in advisories_for(load_advisories("sglang"), release)
    )


def one(expected: dict[str, Any], seen: dict[str, Any], known: bool, *, stopped: bool) -> dict[str, Any]:
    """A list, what was predicted for it, and how it counts; `known`: an advisory speaks of boundary 0."""
    row = {"seen": seen, "predicted": expected, "why": ""}
    if compare.agrees(expected, seen):
        return row | {"counts": "failure" if expected.get("error") else "match"}
    if stopped:
        return row | {"counts": "not run"}
    why = compare.difference(expected, seen)
    if why == "embedding overwritten" and not known:
        why = ""
    return row | {"counts": "open" if why else "different", "why": why}


def span(value: float | None) -> str:
    """A number short enough to compare."""
    return "" if value is None else f"{value:.1e}"


def table(found: dict[str, Any]) -> list[str]:
    """Release by shape."""
    lines = [
        "| release | target | run as | lists | by value | failures | open | different | right within | wrong beyond |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for release in ordered(found):
        for shape, rows in judged(release, found[release]).items():
            content, counts = found[release]["shapes"][shape], Counter(row["counts"] for row in rows)
            matched = [row["seen"] for row in rows if row["counts"] == "match" and row["seen"]["boundaries"]]
            right = max((seen["right"] for seen in matched), default=None)
            wrong = min((seen["wrong"] for seen in matched), default=None)
            how = content["how"] + ("; compared with its own layers" if any("against" in s for s in matched) else "")
            how = "did not run, see below" if counts["not run"] else how
            how = "refused: the class has no hook" if rows[0]["predicted"].get("error") == "no hook" else how
            numbers = [len(rows), *(counts[name] for name in SEEN[:4]), span(right), span(wrong)]
            lines.append("| " + " | ".join(map(str, [release, shape, how, *numbers])) + " |")
    return lines


def ordered(found: dict[str, Any]) -> list[str]:
    """Releases, oldest first."""
    return sorted(found, key=version_key)


def reasons(found: dict[str, Any]) -> list[str]:
    """What did not run, and ways that were given up for another."""
    lines = []
    for release in ordered(found):
        for shape, rows in judged(release, found[release]).items():
            content = found[release]["shapes"][shape]
            if rows[0]["counts"] == "not run":
                lines.append(f'- {release} {shape} did not run as "{content["how"]}": {message(rows[0]["seen"])}')
            lines += [
                f'- {release} {shape} does not run as "{given["how"]}": {message(given)}' for given in content["not so"]
            ]
    return lines


def message(seen: dict[str, Any]) -> str:
    """An exception with its place."""
    place = f" (`{seen['where']}`)" if seen.get("where") else ""
    return f"{seen['error']}: {seen.get('text', '')}{place}"


def differences(found: dict[str, Any]) -> list[str]:
    """Where the profile and the engine differ, each kind with one example per release and shape."""
    groups: dict[str, list[str]] = {}
    for release in ordered(found):
        for shape, rows in judged(release, found[release]).items():
            for row in rows:
                if row["counts"] in {"open", "different"}:
                    examples = groups.setdefault(row["why"], [])
                    if row["counts"] == "different" or not any(e.startswith(f"{release} {shape}:") for e in examples):
                        examples.append(f"{release} {shape}: {example(row)}")
    lines = []
    for why, examples in sorted(groups.items()):
        lines += [f"### {why[:1].upper() + why[1:] or 'Not understood'}", "", compare.OPEN.get(why, ""), ""]
        lines += [f"- {text}" for text in examples] + [""]
    return lines[:-1] or ["None."]


def example(row: dict[str, Any]) -> str:
    """One list in words."""
    seen, predicted = row["seen"], row["predicted"]
    said = predicted.get("error") or f"boundaries {predicted['boundaries']}"
    came = message(seen) if seen.get("error") else f"boundaries {seen['boundaries']}"
    return f"ids {seen['ids']}: predicted {said}, seen {came}"


def cost(found: dict[str, Any]) -> list[str]:
    """Packages and cost per release."""
    lines = [
        "| release | torch | transformers | triton | CPU minutes | greatest process, MB |",
        "|---|---|---|---|---|---|",
    ]
    for release in ordered(found):
        content = found[release]
        names = [content["packages"][name] for name in ("torch", "transformers", "triton")]
        most = max(shape["megabytes"] for shape in content["shapes"].values())
        lines.append(f"| {release} | {' | '.join(names)} | {content['cpu seconds'] / 60:.1f} | {most} |")
    return lines


def whole(found: dict[str, Any]) -> list[str]:
    """The engine with all its processes, and speculation."""
    lines = []
    for name, content in sorted(found["whole engine"].items()):
        lines.append(f"- {name}: ids {content['ids']} gave boundaries {content['boundaries']}.")
    for name, content in sorted(found["speculation"].items()):
        lines += [f"- {name}, {kind}: {text}" for kind, text in sorted(content.items())]
    return lines or ["Not run yet."]


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    done = found["releases"]
    missing = [release for release in plan.RELEASES if release not in done]
    shipped = releases("sglang")
    unjudged = [release for release in ordered(done) if release not in shipped]
    done = {release: content for release, content in done.items() if release in shipped}
    sections = {
        "Release by target": table(done),
        "Where profile and engine differ": differences(done),
        "What did not run": [
            *reasons(done),
            *(f"- {release} ran, but no profile of it is shipped to compare with" for release in unjudged),
            *(f"- {release}: not run yet; its environment is declared" for release in missing),
        ],
        "The whole engine, and speculation": whole(found),
        **served_page.sections(found),
        "Packages and cost": cost(found["releases"]),
    }
    if found["environments"]:
        sizes = ", ".join(f"{name} {size} MB" for name, size in sorted(found["environments"].items()))
        sections["Packages and cost"] += ["", f"On disk: {sizes}."]
    text = INTRODUCTION.format(layers=plan.LAYERS, tokens=len(plan.PROMPT))
    for title, lines in sections.items():
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    return text + "\n" + section.section()


if __name__ == "__main__":
    sys.stdout.write(page(results.load()))
