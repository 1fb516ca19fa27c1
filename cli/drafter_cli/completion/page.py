"""docs/cli.md: the reference of all commands, written from their own data. `make docs` runs this module."""

from __future__ import annotations

from drafter_cli.commandline import HELP, usage
from drafter_cli.completion.every_command import every_command
from drafter_cli.errors import EXIT_CODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Command

_HEAD = """\
# Commands

<!-- Written by `make docs` from the commands' own declarations. -->

`drafters COMMAND --help` prints the same. Data go to standard output and everything said about them to standard
error; with `--json` a command prints one JSON document, an error too (`{"error": {...}, "exit_code": N}`).
[Exit codes](exit-codes.md) are the same for all commands. Where a registry's settings come from is in
[Operations](operations.md#settings), what `drafters config` prints is what is in force.
"""


def page() -> str:
    """The page, Markdown."""
    commands = every_command()
    index = "\n".join(f"| [`{one.name}`](#{_anchor(one)}) | {_cell(one.summary)} |" for one in commands)
    parts = [_HEAD, f"| Command | |\n|---|---|\n{index}\n", *(_section(one) for one in commands), _exit_codes()]
    return "\n".join(parts)


def _anchor(command: Command) -> str:
    return "drafters-" + command.name.replace(" ", "-")


def _section(command: Command) -> str:
    options = "\n".join(
        f"| `{_cell(one.shown)}` | {_cell(_sentence(one.help, one.choices))} |" for one in (*command.options, HELP)
    )
    text = f"## drafters {command.name}\n\n```\n{usage(command)}\n```\n\n{command.description}\n\n"
    text += f"| Option | |\n|---|---|\n{options}\n"
    if command.examples:
        lines = "\n".join(f"# {what}\n{line}" for line, what in command.examples)
        text += f"\n```sh\n{lines}\n```\n"
    return text


def _sentence(text: str, choices: tuple[str, ...]) -> str:
    missing = [choice for choice in choices if choice not in text]
    return f"{text} (one of {', '.join(choices)})" if missing else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _exit_codes() -> str:
    rows = "\n".join(f"| {code} | {_cell(meaning)} |" for code, meaning in EXIT_CODES)
    return f"## Exit codes\n\n| Code | Meaning |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
