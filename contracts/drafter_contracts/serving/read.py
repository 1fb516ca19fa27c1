"""Read a launch as one release would read it: its options, its overrides, and speculation as it is stated."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import LaunchRules, ServeRule
from drafter_contracts.serving import config_file
from drafter_contracts.serving.invocation import SERVE
from drafter_contracts.serving.launch import ArgumentProblem, Arguments, Invocation, ServingConfig, Speculation
from drafter_contracts.serving.parse import parse_arguments
from drafter_contracts.serving.values import convert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.engines.profile import Profile

OVERRIDES = "json_model_override_args"
#: Kind of problem of an override that is none.
BAD_OVERRIDE = "bad_override"
MODEL_TYPE = "--model-type"
#: The server of language models, and "decide by the model".
LANGUAGE_MODELS = ("llm", "auto")


def serve_arguments(rule: ServeRule | None, argv: Sequence[str]) -> tuple[list[str], list[ArgumentProblem]]:
    """What the server's own parser sees of `sglang serve ARGV`.

    Args:
        rule: What the release's `sglang serve` does; None if it has no such command.
        argv: Arguments after `serve`.
    """
    if rule is None:
        return list(argv), [ArgumentProblem("unknown_flag", "serve", "", "python -m sglang.launch_server")]
    kept: list[str] = []
    problems: list[ArgumentProblem] = []
    model_type = LANGUAGE_MODELS[0]  # of several, the last is used
    tokens = iter(argv)
    for token in tokens:
        if not rule.model_type or token.partition("=")[0] != MODEL_TYPE:
            kept.append(token)
            continue
        model_type = token.partition("=")[2] if "=" in token else next(tokens, "")
    if model_type not in LANGUAGE_MODELS:
        problems.append(ArgumentProblem("bad_choice", MODEL_TYPE, model_type, "llm or auto, for a language model"))
    if rule.positional and kept and not kept[0].startswith("-"):
        kept.insert(0, "--model-path")
    spelled = {token.partition("=")[0] for token in kept}
    if rule.needs and not spelled.intersection((*rule.needs, "-h", "--help")):
        problems.append(ArgumentProblem("required", rule.needs[0], "", "a value, spelled exactly so for this command"))
    return kept, problems


def _arguments(invocation: Invocation, rules: LaunchRules) -> Arguments:
    argv: list[str] = list(invocation.arguments)
    problems: list[ArgumentProblem] = []
    if invocation.entry == SERVE:
        argv, problems = serve_arguments(rules.serve, argv)
    merged = config_file.merge(rules.config_file, rules.flags, argv, directory=invocation.working_directory)
    read = parse_arguments(rules.flags, merged.argv, merged.origins)
    ignored = dict(read.ignored)
    if rules.config_file is not None and not merged.path and read.values.get("config"):
        ignored["config"] = "this release reads the file only when it is written as two words: --config FILE"
    return msgspec.structs.replace(
        read, problems=(*problems, *merged.problems, *_once(read.problems, problems)), ignored=ignored
    )


def _once(found: Sequence[ArgumentProblem], known: Sequence[ArgumentProblem]) -> list[ArgumentProblem]:
    """Problems without a second "required" for the same option."""
    required = {problem.flag for problem in known if problem.kind == "required"}
    return [problem for problem in found if problem.kind != "required" or problem.flag not in required]


def _overrides(arguments: Arguments) -> tuple[dict[str, object], ArgumentProblem | None]:
    """`--json-model-override-args`, parsed as the releases do (`json.loads`, a mapping)."""
    text = arguments.values.get(OVERRIDES)
    if not isinstance(text, str) or OVERRIDES not in arguments.given:
        return {}, None
    flag = arguments.spelled.get(OVERRIDES, "--json-model-override-args")
    try:
        value = convert("json", text)
    except ValueError as error:
        return {}, ArgumentProblem(BAD_OVERRIDE, flag, text, f"JSON ({error})")
    if not isinstance(value, dict):
        return {}, ArgumentProblem(BAD_OVERRIDE, flag, text, "a JSON object")
    return value, None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _stated(arguments: Arguments) -> Speculation:
    """Speculation as the launch states it."""
    values = arguments.values
    triple = (
        _number(values.get("speculative_num_steps")),
        _number(values.get("speculative_eagle_topk")),
        _number(values.get("speculative_num_draft_tokens")),
    )
    path = _text(values.get("speculative_draft_model_path"))
    name = _text(values.get("speculative_algorithm"))
    return Speculation(
        algorithm=name,
        stated_algorithm=name,
        draft_path=path,
        stated_draft_path=path,
        draft_revision=_text(values.get("speculative_draft_model_revision")),
        stated=triple,
        effective=triple,
    )


def read_serving(invocation: Invocation, profile: Profile) -> ServingConfig:
    """A launch as a release reads it, before anything about target or drafter is known.

    Args:
        invocation: The command line.
        profile: The release.

    Returns:
        Options with every problem that the release's parser would have, overrides, and speculation as stated;
        `adjust.with_target` makes it effective. Problems do not raise: they are in `arguments.problems`.
    """
    arguments = _arguments(invocation, profile.launch)
    overrides, problem = _overrides(arguments)
    if problem is not None:
        arguments = msgspec.structs.replace(arguments, problems=(*arguments.problems, problem))
    return ServingConfig(
        invocation=invocation,
        arguments=arguments,
        speculation=_stated(arguments),
        overrides=overrides,
        target_path=_text(arguments.values.get("model_path")),
        target_revision=_text(arguments.values.get("revision")),
    )
