"""`drafters engine history`: what a target class captures over all known releases, one line per change."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.engines.profile_argument import ENGINE, METHOD, check_class, every, layers
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.gate_options import numbers
from drafter_cli.terminal import printable, wrap, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.upgrades.history import History, Line

COMMANDS = {
    "engine history": Command(
        name="engine history",
        summary="what a target class captures, over all releases",
        description=(
            "One line per change over all known releases: with --ids what these ids of a drafter's config mean,\n"
            "without what the class makes of any ids. Eager execution and CUDA graphs are told apart where they\n"
            "differ. A drafter class's name shows what became of that class."
        ),
        words=("CLASS",),
        options=(
            Option("--ids", "ids as they stand in the drafter's config: 2,30,58", "LIST"),
            Option("--layers", "decoder layers of the target; without, the ids are taken to lie inside it", "N"),
            METHOD,
            JSON,
        ),
        examples=(
            ("drafters engine history KimiK25ForConditionalGeneration --ids 2,30,58 --layers 61", "these ids"),
            ("drafters engine history GptOssForCausalLM", "the class's rule"),
            ("drafters engine history LlamaForCausalLMEagle3", "a drafter class"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command's `run` is handed its declaration
    """Show the history of one class."""
    from drafter_contracts.upgrades.history import class_history, methods_of, rule_history

    profiles, name = every(), parsed.word(0)
    check_class(profiles, name, drafters=True)
    depth, method = layers("--layers", parsed.value("--layers")), parsed.value("--method")
    if parsed.has("--ids"):
        histories = ids_histories(profiles, name, numbers("--ids", parsed.value("--ids")), depth, method)
    elif any(name in profile.drafters for profile in profiles):
        histories = [class_history(profiles, name)]
    else:
        methods = (method,) if method else methods_of(profiles, name)
        histories = [rule_history(profiles, name, one, depth) for one in methods]
    if parsed.has("--json"):
        write_json({"engine": ENGINE, "class": name, "histories": [_document(history) for history in histories]})
        return EXIT_OK
    if not histories:
        write(f"{name}: no release has a capture hook for it")
    for history in histories:
        write("\n".join(printable(line) for line in _text(history)))
    return EXIT_OK


def ids_histories(
    profiles: Sequence[Profile], architecture: str, ids: tuple[int, ...], depth: int | None, method: str
) -> list[History]:
    """Histories of ids, one per method that a class captures for.

    Raises:
        UsageError: It never captures.
    """
    from drafter_contracts.upgrades.history import ids_history, methods_of

    methods = (method,) if method else methods_of(profiles, architecture)
    if not methods:
        raise UsageError(f"no release captures hidden states of {architecture}", "see it without --ids")
    return [ids_history(profiles, architecture, one, ids, depth) for one in methods]


def _text(history: History) -> list[str]:
    from drafter_contracts.upgrades.sentence import sentence

    known = f"{len(history.releases)} releases of {ENGINE}, {history.releases[0]} to {history.releases[-1]}"
    about = ", ".join(filter(None, (history.architecture, history.method)))
    depth = f", {history.layers} layers" if history.layers is not None else ""
    ids = f", ids {list(history.ids)}" if history.ids is not None else ""
    lines = [f"{about}{ids}{depth}: {known}"]
    if history.assumed:
        lines.append(f"  assumed: {history.assumed} (--layers says how many it has)")
    if history.ids is not None:
        lines += wrap(sentence(history), indent="  ").split("\n")
    lines.append("")
    width = max(len(line.span.text()) for line in history.lines)
    for line in history.lines:
        lines += _line(line, width)
    return [*lines, *(f"  {note}" for note in history.notes), ""]


def _line(line: Line, width: int) -> list[str]:
    indent = " " * (width + 4)
    first, *rest = wrap(line.text, indent=indent).split("\n")
    place = wrap(f"[{line.source}]", indent=indent).split("\n") if line.source else []
    return [f"  {line.span.text():<{width}}  {first.lstrip()}", *rest, *place]


def _document(history: History) -> dict[str, object]:
    from drafter_contracts.upgrades.sentence import sentence

    document: dict[str, object] = {
        "method": history.method,
        "ids": list(history.ids) if history.ids is not None else None,
        "layers": history.layers,
        "assumed": history.assumed,
        "releases": list(history.releases),
        "lines": [_line_document(line) for line in history.lines],
        "notes": list(history.notes),
    }
    return document | ({"sentence": sentence(history)} if history.ids is not None else {})


def _line_document(line: Line) -> dict[str, object]:
    document: dict[str, object] = {"first": line.span.first, "last": line.span.last}
    if line.answer is not None:
        from drafter_cli.engines.upgrade_view import answer_document

        return document | answer_document(line.answer)
    return document | {"status": line.status, "text": line.text, "source": line.source}
