"""What a shell may offer at each place of a command line of `drafters`: one reading for all shells."""

from __future__ import annotations

import msgspec

from drafter_cli.commandline import HELP, Command, Option
from drafter_cli.completion.every_command import every_command
from drafter_cli.main import COMMANDS

#: Names of values and words that are files or directories.
_PATHS = frozenset({"FILE", "DIR", "PATH", "DRAFTER", "TARGET", "CONFIG", "SOURCE"})

#: What is offered beside commands in the first place.
TOP = (("help", "show the help of a command"), ("--help", "list the commands"), ("--version", "print the version"))


class Choice(msgspec.Struct, frozen=True):
    """One command with its place in the tree.

    Attributes:
        command: The command.
        first: Its first word.
        second: Its second word, "" for a command of one word.
    """

    command: Command
    first: str
    second: str

    @property
    def options(self) -> tuple[Option, ...]:
        """Its options, with `--help`."""
        return (*self.command.options, HELP)

    @property
    def files(self) -> bool:
        """Whether one of its words may be a file."""
        return any(names_a_path(word) for word in self.command.words)


def choices() -> tuple[Choice, ...]:
    """All commands."""
    return tuple(
        Choice(command, *(command.name.split(" ", 1) if " " in command.name else (command.name, "")))
        for command in every_command()
    )


def first_words() -> tuple[tuple[str, str], ...]:
    """First word of every command and what it is for, groups once."""
    found: dict[str, str] = {}
    for name, (_, summary) in COMMANDS.items():
        first, _, second = name.partition(" ")
        if second:
            seconds = [other.partition(" ")[2] for other in COMMANDS if other.startswith(first + " ")]
            found.setdefault(first, ", ".join(seconds))
        else:
            found.setdefault(first, summary)
    return tuple(found.items())


def names_a_path(word: str) -> bool:
    """Whether a value's or word's name ("FILE", "[DRAFTER]", "DIR...", "DIR|hf://ORG/REPO") stands for a path."""
    plain = word.strip("[]").replace("...", "")
    return any(part in _PATHS or part.partition("_")[2] in _PATHS for part in plain.replace("_OR_", "|").split("|"))
