"""`drafters resolve`: the launch flags of a stored drafter for one engine release, or why there are none."""

from __future__ import annotations

import sys

from drafter_cli.client.connect import OPTIONS as REGISTRY_OPTIONS
from drafter_cli.commandline import JSON, Command, Option, usage
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, UsageError, describe_error, exit_code_of_error
from drafter_cli.resolving import answering
from drafter_cli.resolving.formats import text
from drafter_cli.resolving.request import FORMATS, JSON_FORMAT, read
from drafter_cli.terminal import Style, colours, printable, write, write_json
from drafter_cli.verdict_view import document, render
from drafter_contracts.launch.plan_records import FLAGS, PATH_PLACEHOLDER, PREFERENCES
from drafter_contracts.verdict import ALLOW, Verdict
from drafter_registry.errors import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Parsed
    from drafter_registry.documents import Resolution

COMMANDS = {
    "resolve": Command(
        name="resolve",
        summary="the launch flags of a stored drafter for one engine release",
        description=(
            "Prints the flags with which that release feeds the drafter the layers it was trained on, and fetches its\n"
            "files. The flags are read back as the release would read them, and every rule of `drafters check` is\n"
            "applied. Standard output holds only what a script consumes, and nothing if there are no such flags:\n"
            "the exit code is then 3 (refused) or 5 (not known), and standard error says why.\n"
            "What follows -- are more options of the launch, judged together with the flags: they count before what\n"
            "is recommended, and are refused where they contradict what the drafter needs. Write the flags after\n"
            "them: of repeated options the last counts."
        ),
        words=("[NAME@VERSION|ALIAS|sha256:DIGEST]",),
        options=(
            Option(
                "--engine",
                "a release as published (sglang==0.5.23), or the path of an environment, a source tree, a wheel or a "
                "profile's file; default: what is installed for python here",
                "RELEASE|PATH",
            ),
            Option("--target", "directory or name of the target; default: the one it was trained for", "PATH|ID"),
            Option("--target-config", "the target's config.json, where the target is not on this machine", "FILE"),
            Option("--format", "args (default), shell, json, yaml or env: see docs/resolve.md", "FORMAT", "", FORMATS),
            Option("--draft-path", "where the drafter's files will lie for the engine; fetches nothing", "PATH"),
            Option("--steps", "--speculative-num-steps instead of the recommended", "NUMBER"),
            Option("--topk", "--speculative-eagle-topk instead of the recommended", "NUMBER"),
            Option("--draft-tokens", "--speculative-num-draft-tokens instead of the recommended", "NUMBER"),
            Option(
                "--prefer",
                f"what to try first where a drafter is not right for the release: {FLAGS} (default: its files stay as"
                " they are where flags can say it) or render (other files, fewer flags)",
                "FIRST",
                "",
                PREFERENCES,
            ),
            Option("--no-pull", f"fetch nothing; without --draft-path the flags hold {PATH_PLACEHOLDER}"),
            Option("--locked", "what drafters.lock (or FILE) says, from the cache alone; no NAME then", inline="FILE"),
            Option("--offline", "ask no registry: an exact version or digest that was pulled before"),
            *REGISTRY_OPTIONS,
            JSON,
        ),
        examples=(
            ("flags=$(drafters resolve kimi-eagle3@prod) || exit", "stop where there are no flags ..."),
            ('eval "exec python -m sglang.launch_server --model-path M $flags"', "... else launch with them"),
            ("drafters resolve kimi-eagle3@1.0.0 --engine sglang==0.5.9 --json", "for a program"),
            ("flags=$(drafters resolve --locked) || exit", "what `drafters lock` wrote down, offline"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:
    """Print the flags; returns the exit code.

    Raises:
        UsageError: Nothing is asked for.
    """
    if not parsed.word(0) and not parsed.has("--locked"):
        raise UsageError(f"resolve needs {command.words[0].strip('[]')}", usage(command))
    try:
        if parsed.has("--locked"):
            from drafter_cli.locking.flags import locked_answer

            asked, found = locked_answer(parsed)
        else:
            asked = read(parsed)
            found = answering.answer(asked, parsed)
    except RefusedError as error:
        return refused(error, as_json=parsed.has("--json"))
    resolution = found.resolution
    say_changes(resolution)
    if answering.wanted(resolution).any and found.render is None and asked.shape != JSON_FORMAT:
        write(
            "drafters: flags cannot say that: the release must see other files; let this command fetch and render them"
            " (leave out --no-pull and --draft-path), or take config and weights from --format json",
            to_stderr=True,
        )
        return EXIT_REFUSED
    exact = f"{resolution.name}@{resolution.version}"
    if asked.reference != exact:  # for the log of the start: where an alias pointed then
        write(f"drafters: {printable(asked.reference)} is {exact}", to_stderr=True)
    for notice in resolution.notices:
        write(f"drafters: {printable(notice)}", to_stderr=True)
    if resolution.verdict is not None and resolution.verdict.decision != ALLOW:
        write(render(resolution.verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    write(text(resolution, asked.shape, asked.engine.profile, found.render))
    return EXIT_OK


def say_changes(resolution: Resolution) -> None:
    """What is changed for the release, to standard error."""
    for change in resolution.config_changes:
        write(f"drafters: render: {printable(change)}", to_stderr=True)


def refused(error: RefusedError, *, as_json: bool) -> int:
    """Say why there are no flags: the whole verdict, to standard error or as one document; returns the exit code."""
    verdict = error.verdict
    code = exit_code_of_error(error)
    if as_json:
        shown = document(verdict) if isinstance(verdict, Verdict) else None
        write_json({"error": describe_error(error), "exit_code": code, "verdict": shown})
        return code
    if isinstance(verdict, Verdict):
        write(render(verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    write(f"drafters: {printable(error.message)}", to_stderr=True)
    if error.hint:
        write(f"  {printable(error.hint)}", to_stderr=True)
    return code
