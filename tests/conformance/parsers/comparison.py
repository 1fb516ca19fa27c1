"""What the gate makes of a command line, in the form of the real parser's answers, and how the two differ."""

from __future__ import annotations

from answer import SPECULATIVE
from canonical import plain

from drafter_contracts import verdict
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.errors import CheckpointError, TargetError
from drafter_contracts.rules.runtime import topk_backend
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.read import read_serving
from drafter_contracts.serving.target import read_target
from drafter_contracts.situation import Situation

COMMANDS = {"launch_server": ("python3", "-m", "sglang.launch_server"), "serve": ("sglang", "serve")}

EQUAL = "equal"
REFUSED = "both refused"
NOT_JUDGED = "not judged"
UNKNOWN = "unknown"
ELSEWHERE = "stops without speculation too"


def reading(profile, entry, argv, directory=""):
    """The gate's reading of a command line."""
    command = [*COMMANDS[entry], *argv]
    invocation = read_invocation(command if not directory else ["env", f"--chdir={directory}", *command])
    assert invocation.entry == entry, invocation
    return read_serving(invocation, profile)


def difference(profile, serving, theirs):
    """How a reading and an answer compare: `EQUAL`, `REFUSED`, `NOT_JUDGED`, or what differs."""
    arguments = serving.arguments
    # Overrides are read after parsing, with the target's config.
    stops = any(problem.kind != "bad_override" for problem in arguments.problems) or "help" in arguments.given
    if "values" not in theirs:
        if stops:
            return REFUSED
        return NOT_JUDGED if _not_judged(profile, arguments) else f"the release stops: {theirs}"
    if stops:
        return f"only the gate refuses: {arguments.problems}"
    found = {name: plain(value) for name, value in arguments.values.items()}
    released = theirs["values"]
    wrong = {
        name: (found.get(name, "missing"), released.get(name, "missing"))
        for name in found.keys() | released.keys()
        if name not in found or name not in released or found[name] != released[name]
    }
    if not wrong:
        return EQUAL
    if wrong.keys() <= _not_judged(profile, arguments):
        return NOT_JUDGED
    return f"values (the gate's, the release's): {wrong}"


def _not_judged(profile, arguments):
    """Dests that were given and whose values the profile says it does not know (converters, actions of the release)."""
    return {
        flag_dest(flag)
        for flag in profile.launch.flags
        if flag_dest(flag) in arguments.given and ("?" in flag.type or flag.action[:1].isupper())
    } - {flag_dest(flag) for flag in profile.launch.flags if flag.action == "BooleanOptionalAction"}


def prediction(profile, argv):
    """(launch, why the drafter cannot be read) for a launch by `launch_server`, put together as the gate does."""
    serving = reading(profile, "launch_server", argv)
    overrides, path = profile.launch.overrides, serving.speculation.draft_path
    try:
        target = read_target(
            serving.target_path,
            overrides=serving.overrides if overrides.target else None,
            merged=overrides.merged,
        )
    except TargetError:
        target = None
    facts, problem = None, ""
    try:
        if path:
            facts = read_drafter(
                path,
                target_layers=target.num_layers if target else None,
                target_hidden_size=target.hidden_size if target else None,
                target_model_type=target.text_model_type if target else "",
            )
    except CheckpointError as error:
        problem = error.message
    serving = with_target(
        serving,
        profile,
        target=target,
        draft_architecture=facts.architectures[0] if facts and facts.architectures else "",
        draft_config=facts.config if facts else None,
    )
    return serving, problem


def without_speculation(argv):
    """The same launch without it: every speculative option here takes one value."""
    kept = []
    tokens = iter(argv)
    for token in tokens:
        if token.startswith("--speculative-"):
            next(tokens)
        else:
            kept.append(token)
    return kept


def resolved_difference(profile, serving, problem, theirs, plainly):
    """How a prediction and a release's resolved arguments compare.

    Args:
        profile: Of the release.
        serving: The prediction.
        problem: Why the drafter cannot be read, or "".
        theirs: The release's answer.
        plainly: A function that gives the release's answer for the same launch without speculation.

    Returns:
        `EQUAL`, `REFUSED`, `ELSEWHERE` (the release stops, with speculation or without), `UNKNOWN: why`, or what
        differs.
    """
    ours = serving.speculation
    stops = "values" not in theirs
    if serving.arguments.problems:
        return REFUSED if theirs.get("exit") == 2 else f"only the gate refuses: {serving.arguments.problems} {theirs}"
    if stops and theirs.get("error") != ours.failure and plainly().get("error") == theirs.get("error"):
        return ELSEWHERE
    if ours.unknown:
        return f"{UNKNOWN}: {ours.unknown}"
    if stops and problem:  # either error may come first
        return REFUSED if ours.failure else f"{UNKNOWN}: the drafter cannot be read: {problem}"
    for finding in topk_backend(Situation(serving, profile=profile)) or ():
        if finding.severity == verdict.UNKNOWN:
            return f"{UNKNOWN}: no --attention-backend is given, and with pages not every one takes topk above 1"
    if ours.known is False:
        return REFUSED if stops else f"the gate knows no such algorithm: {theirs}"
    if ours.failure:
        return REFUSED if theirs.get("error") == ours.failure else f"predicted {ours.failure}: {theirs}"
    if stops:
        return f"the release stops: {theirs}"
    found = (ours.algorithm or None, *ours.effective, ours.draft_path or None)
    there = tuple(theirs["values"][name] for name in SPECULATIVE)
    return EQUAL if found == there else f"the gate {found}, the release {there} ({theirs['values']})"
