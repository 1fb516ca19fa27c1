"""The launch command itself, as the release's own parser sees it."""

from __future__ import annotations

from drafter_contracts.rules.rule import Rule, drafter, engine
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.serving.launch import ArgumentProblem
    from drafter_contracts.situation import Situation

_FAULTS = {
    "unknown_flag": "does not know {flag}",
    "ambiguous": "takes {flag} for more than one option",
    "bad_value": "cannot read the value {value} of {flag}",
    "bad_choice": "does not accept {value} for {flag}",
    "missing_value": "misses a value after {flag}",
    "required": "misses {flag}",
    "config_file": "cannot read the config file {value}",
    "unexpected_value": "does not expect the value {value}",
    "bad_override": "cannot read {flag} {value}",
}


def readable(s: Situation) -> Outcome:
    """An engine's own command can be found in the launch, possibly behind wrappers that this check follows."""
    invocation = s.serving.invocation
    if not invocation.argv:
        return None
    if invocation.entry:
        return ()
    return (
        Finding(
            "LAUNCH_UNREADABLE",
            UNKNOWN,
            "one start of an engine, with all its arguments, cannot be read from this command (it holds none, several,"
            " or words that only the shell fills in): whether and how it speculates is not known",
            expected="python -m sglang.launch_server ... or sglang serve ..., possibly behind wrappers, spelled out",
            actual=" ".join(invocation.argv),
            remedy="Put the gate inside the script, in front of the engine's own command.",
        ),
    )


def release_known(s: Situation) -> Outcome:
    """The engine's release is one whose behaviour is known."""
    if s.profile is not None:
        return ()
    return (
        Finding(
            "ENGINE_UNKNOWN",
            UNKNOWN,
            f"nothing is known of what {engine(s)} captures: "
            + (s.engine_problem or "no profile of that release is at hand"),
            expected="a release with a profile",
            actual=s.engine or "release not known",
            remedy=s.engine_remedy
            or "Say --engine sglang==VERSION, or derive a profile with `drafters engine update VERSION`.",
        ),
    )


def release_certain(s: Situation) -> Outcome:
    """The engine's release was stated or read off an installation, not taken from a name."""
    if s.profile is None:
        return None
    if not s.engine_guess:
        return ()
    return (
        Finding(
            "ENGINE_GUESSED",
            WARN,
            f"that the launch runs {engine(s)} is a guess from a name, {s.engine_guess}",
            expected="the release that the launch runs, as a fact",
            actual=f"{engine(s)}, as far as the name is right",
            source="the launch command",
            remedy=f"Say --engine {s.profile.engine}=={s.profile.release} if the name is right.",
        ),
    )


def speculates(s: Situation) -> Outcome:
    """The launch speculates at all; if not, there is nothing else to check."""
    if s.profile is None:
        return None
    if s.serving.speculation.algorithm:
        return ()
    unused = s.serving.speculation.stated_draft_path
    if unused:
        return (
            Finding(
                "NO_SPECULATION",
                WARN,
                f"{engine(s)} does not speculate: the draft model {unused} is given, and no algorithm",
                expected="--speculative-algorithm beside a draft model",
                actual="no speculative algorithm, so that the draft model is never loaded",
                remedy="Add --speculative-algorithm (EAGLE3, DFLASH, ...), or drop the draft model.",
            ),
        )
    return (Finding("NO_SPECULATION", NOTE, "the launch does not speculate; there is no drafter to check"),)


def arguments(s: Situation) -> Outcome:
    """The release's parser accepts the command line."""
    if s.profile is None:
        return None
    return tuple(_refused(s, problem) for problem in s.serving.arguments.problems)


def _refused(s: Situation, problem: ArgumentProblem) -> Finding:
    fault = _FAULTS.get(problem.kind, "does not accept {flag} {value}").format(flag=problem.flag, value=problem.value)
    return Finding(
        "ARGUMENT_REFUSED",
        REFUSE,
        f"{engine(s)} {fault}: it exits before it reads a checkpoint",
        expected=problem.expected,
        actual=f"{problem.flag} {problem.value}".strip(),
        source=f"argument parser of {engine(s)}",
        remedy=f"Did you mean {problem.nearest}?" if problem.nearest else "Correct or drop this option.",
    )


def contradicted(s: Situation) -> Outcome:
    """Where flags are made for a drafter, the operator's own options do not say otherwise than they do."""
    if not s.contradictions:
        return None
    return tuple(
        Finding(
            "OPTION_CONTRADICTS",
            REFUSE,
            f"{one.stated} of the launch contradicts what {drafter(s)} needs on {engine(s)}, {one.needed}: {one.why}",
            expected=one.needed,
            actual=one.stated,
            source="the launch's own options",
            remedy=one.remedy,
        )
        for one in s.contradictions
    )


def deprecated(s: Situation) -> Outcome:
    """Options that the release calls deprecated are said."""
    if s.profile is None:
        return None
    spelled = s.serving.arguments.spelled
    return tuple(
        Finding(
            "ARGUMENT_DEPRECATED",
            NOTE,
            f"{engine(s)} calls {spelled.get(dest, dest)} deprecated: {word}",
            actual=spelled.get(dest, dest),
            source=f"argument parser of {engine(s)}",
        )
        for dest, word in s.serving.arguments.deprecated.items()
    )


def ignored(s: Situation) -> Outcome:
    """Options that the release accepts and does nothing with are said."""
    if s.profile is None:
        return None
    spelled = s.serving.arguments.spelled
    return tuple(
        Finding(
            "ARGUMENT_IGNORED",
            WARN,
            f"{engine(s)} does nothing with {spelled.get(dest, dest)}: {why}",
            actual=spelled.get(dest, dest),
            source=f"argument parser of {engine(s)}",
            remedy="Leave it out, or give the option that took its place.",
        )
        for dest, why in s.serving.arguments.ignored.items()
    )


def plugin_left_out(s: Situation) -> Outcome:
    """The engine's own selection of plugins keeps the guard in it."""
    if not s.plugins:
        return None
    return (
        Finding(
            "PLUGIN_LEFT_OUT",
            NOTE,
            f"{engine(s)} loads only the plugins that SGLANG_PLUGINS names, and the guard that is installed beside it"
            " is none of them: without `drafters guard` in front, this launch would start unjudged",
            expected="drafters among the names, or no selection",
            actual=f"SGLANG_PLUGINS={s.plugins}",
            source="the launch's environment",
            remedy=f"Set SGLANG_PLUGINS={s.plugins},drafters.",
        ),
    )


RULES = (
    Rule(
        "LAUNCH_UNREADABLE",
        "The engine's own command can be found",
        "A script that starts the engine inside hides every option; passing it would pass anything.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/launch_server.py",
        ("R13",),
        readable,
    ),
    Rule(
        "ENGINE_UNKNOWN",
        "The engine's release is known",
        "Capture rules differ from release to release; an answer for another release is a guess.",
        "https://github.com/sgl-project/sglang/pull/25454",
        ("R26",),
        release_known,
    ),
    Rule(
        "ENGINE_GUESSED",
        "The engine's release is a fact",
        "An image's tag or a requirement names a release; what is installed inside may be a fork or another one.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/docker/Dockerfile",
        ("R26",),
        release_certain,
    ),
    Rule(
        "NO_SPECULATION",
        "The launch speculates",
        "A drafter given without --speculative-algorithm is silently unused.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py",
        ("R12",),
        speculates,
    ),
    Rule(
        "ARGUMENT_REFUSED",
        "The release's parser accepts the command",
        "Options come, go and become ambiguous from release to release; the server exits with a usage message.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py",
        ("R13",),
        arguments,
    ),
    Rule(
        "OPTION_CONTRADICTS",
        "The operator's options and the drafter's needs agree",
        "Of repeated options the last counts: one of two that contradict each other would be dropped without a word.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py",
        ("R13",),
        contradicted,
    ),
    Rule(
        "ARGUMENT_IGNORED",
        "Every option given has an effect",
        "An option that a release accepts and drops makes people measure another configuration than they wrote.",
        "https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/server_args.py",
        ("R13",),
        ignored,
    ),
    Rule(
        "ARGUMENT_DEPRECATED",
        "No deprecated option is used",
        "A deprecated option disappears with one of the next releases.",
        "https://github.com/sgl-project/sglang/blob/v0.5.15/python/sglang/srt/server_args.py",
        ("R13",),
        deprecated,
    ),
    Rule(
        "PLUGIN_LEFT_OUT",
        "The guard inside the engine is loaded",
        "SGLANG_PLUGINS, set for another plugin, keeps all others from being loaded, and says nothing.",
        "https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/plugins/__init__.py",
        ("R13",),
        plugin_left_out,
    ),
)
