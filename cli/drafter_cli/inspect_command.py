"""`drafters inspect`: what a drafter's own files say."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, UsageError
from drafter_cli.terminal import colours, draws_unicode, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.serving.launch import TargetFacts

COMMANDS = {
    "inspect": Command(
        name="inspect",
        summary="what a drafter's own files say: method, capture layout, vocabulary",
        description=(
            "Reads config.json, the safetensors headers and the shard index; never the weights, never a pickle.\n"
            "Layouts that depend on the target's depth need --target or --layers.\n"
            "Exits with 7 if config.json and the tensors contradict each other: both are named, under Errors."
        ),
        words=("PATH",),
        options=(
            Option("--target", "directory or Hub id of the target, for its depth and width", "PATH"),
            Option("--layers", "decoder layers of the target, where its files are not at hand", "N"),
            JSON,
        ),
        examples=(
            ("drafters inspect ./kimi-k2.5-eagle3", "table and picture"),
            ("drafters inspect ./drafter --layers 61 --json", "for a program"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print the drafter's facts."""
    from drafter_contracts.checkpoint.read import read_drafter
    from drafter_contracts.hub_cache import find

    path = parsed.word(0)
    directory = find(path, "")
    if directory is None:
        raise UsageError(f"{path} is neither a directory nor in this machine's Hub cache")
    target, layers = _target(parsed)
    facts = read_drafter(
        directory,
        target_layers=layers,
        target_hidden_size=target.hidden_size if target else None,
        target_model_type=target.text_model_type if target else "",
    )
    if parsed.has("--json"):
        write_json(facts)
    else:
        import sys

        from drafter_cli.inspect_view import render

        write(render(facts, color=colours(sys.stdout), unicode=draws_unicode(sys.stdout)))
    return EXIT_INTEGRITY if any(one.fatal for one in facts.disagreements) else EXIT_OK


def _target(parsed: Parsed) -> tuple[TargetFacts | None, int | None]:
    """The target's facts and depth, as far as the options say."""
    if parsed.has("--target") and parsed.has("--layers"):
        raise UsageError("--target and --layers state the same thing", "give one of them")
    if parsed.has("--target"):
        from drafter_contracts.serving.target import read_target

        target = read_target(parsed.value("--target"))
        return target, target.num_layers
    if parsed.has("--layers"):
        text = parsed.value("--layers")
        if not text.isdigit() or int(text) == 0:
            raise UsageError(f"--layers is {text!r}", "write a whole number, for example --layers 61")
        return None, int(text)
    return None, None
