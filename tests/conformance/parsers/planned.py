"""The flags that a plan prints for a generated manifest, beside what the release's own parser makes of them."""

from __future__ import annotations

import collections
import hashlib
import json
import os
from typing import NamedTuple

from comparison import ELSEWHERE, EQUAL, REFUSED, UNKNOWN, difference, prediction, reading, resolved_difference
from generated import Generated

from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile
from drafter_contracts.launch.numbers import DESTS
from drafter_contracts.launch.options import ALGORITHM, spelled
from drafter_contracts.launch.plan import plan
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.profile import Profile

#: The releases whose parsers must take every set of flags.
RELEASES = ("0.5.2", "0.5.9", "0.5.15", "0.5.23")
#: What is counted of the plans.
RESOLVED, RENDERED, NO_FLAGS, UNDECIDED, LACKING = PLANNED = (
    "resolved", "resolved with a render", "refused", "not known", "lacking",
)  # fmt: skip
#: What a release without the method, or without it for the target's class or for that many taps, is refused for.
LACKS = {"ALGORITHM_UNKNOWN", "CAPTURE_NO_HOOK", "CAPTURE_BROKEN", "FC_SIZE"}
#: The release's own resolution is that of a machine with its accelerator: nothing of it runs.
DEVICE = ("--device", "cuda")


class Launch(NamedTuple):
    """A plan that resolved, with the arguments of its launch: the operator's own, then what was printed."""

    case: Generated
    made: Plan
    argv: list[str]


def planned(release: str, case: Generated) -> Plan:
    """The plan on a shipped release."""
    return plan(
        manifest=case.manifest,
        facts=case.facts,
        profile=load_profile("sglang", release),
        target=case.seen,
        advisories=advisories_for(load_advisories("sglang"), release),
        wishes=case.wishes,
    )


def kind(made: Plan) -> str:
    """One of `PLANNED`."""
    if made.resolved:
        return RENDERED if made.rendered else RESOLVED
    if LACKS.intersection(against(made)):
        return LACKING
    return UNDECIDED if made.open else NO_FLAGS


def against(made: Plan) -> list[str]:
    """Codes of what stands in the way."""
    return sorted({one.code for one in made.verdict.findings if one.severity in {"refuse", "unknown"}})


def launch(case: Generated, made: Plan) -> Launch:
    """The launch of a plan: the printed flags with the directory that the engine is to see in them.

    A render's config lies in a directory of its own; its weights are not read before the engine loads them.
    """
    directory = case.drafter
    if made.config is not None:
        name = hashlib.sha256(json.dumps(made.config, sort_keys=True).encode()).hexdigest()[:12]
        directory = f"{case.drafter}-{name}"
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            json.dump(made.config, file)
        weights = os.path.join(directory, "model.safetensors")
        if not os.path.exists(weights):
            os.link(os.path.join(case.drafter, "model.safetensors"), weights)
    flags = [directory if flag == PATH_PLACEHOLDER else flag for flag in made.flags]
    return Launch(case, made, ["--model-path", case.target, *DEVICE, *case.wishes.extra, *flags])


def printed(made: Plan) -> str:
    """Short digest of what a plan answers, for the kept results: its flags and its render, or that it has none."""
    answer = (made.flags, made.config, made.weights.order, made.weights.renames) if made.resolved else ()
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:8]


def counted(release: str, cases: list[Generated]) -> tuple[dict[str, object], list[Launch]]:
    """What became of the manifests on a release, as it is kept, and the launches to try."""
    counts: collections.Counter[str] = collections.Counter()
    why: collections.Counter[str] = collections.Counter()
    digests, launches = [], []
    for case in cases:
        made = planned(release, case)
        counts[kind(made)] += 1
        digests.append(printed(made))
        if made.resolved:
            launches.append(launch(case, made))
        else:
            why[" + ".join(against(made))] += 1
    kept = {"plans": {name: counts[name] for name in PLANNED}, "why not": dict(why), "printed": " ".join(digests)}
    return kept, launches


def parsed(release: str, one: Launch, theirs: dict) -> str:
    """What the release's parser makes of a launch: `EQUAL` if every attribute is what the gate reads, or why not."""
    profile = load_profile("sglang", release)
    found = difference(profile, reading(profile, "launch_server", one.argv), theirs)
    if found != EQUAL:
        return found
    said = stated(profile, one.made)
    wrong = [
        f"{dest} {value} is read as {theirs['values'][dest]!r}"
        for dest, value in said.items()
        if str(theirs["values"][dest]) != value
    ]
    return "; ".join(wrong) or EQUAL


def stated(profile: Profile, made: Plan) -> dict[str, str]:
    """Algorithm and numbers as the printed flags say them, by dest."""
    words = list(made.flags)
    options = {dest: spelled(profile, dest) for dest in (ALGORITHM, *DESTS.values())}
    return {dest: words[words.index(option) + 1] for dest, option in options.items() if option in words}


def resolved(release: str, one: Launch, theirs: dict, plainly: Callable[[], dict]) -> str:
    """What the release resolves of a launch: `EQUAL` if algorithm, numbers and path are those that the plan says.

    Args:
        release: The release.
        one: The launch.
        theirs: The release's answer.
        plainly: A function that gives its answer for the same launch without speculation.
    """
    profile = load_profile("sglang", release)
    found = resolved_difference(profile, *prediction(profile, one.argv), theirs, plainly)
    if found != EQUAL:
        return found
    if any(finding.code == "SPECULATION_ADJUSTED" for finding in one.made.verdict.findings):
        return EQUAL  # the plan says that they change
    aliases = profile.launch.speculative.aliases
    for dest, value in stated(profile, one.made).items():
        if str(theirs["values"][dest]) not in {value, aliases.get(value, value)}:
            return f"{dest} {value} becomes {theirs['values'][dest]!r} without a word"
    return EQUAL


def short(result: str) -> str:
    """How a result is counted."""
    known = (EQUAL, REFUSED, ELSEWHERE)
    return result if result in known else UNKNOWN if result.startswith(UNKNOWN) else "different"
