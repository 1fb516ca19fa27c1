"""The reference of all commands: docs/cli.md is what the commands declare, and their examples can be run."""

import os
import re
import shlex

import pytest

from drafter_cli import main
from drafter_cli.commandline import parse
from drafter_cli.completion.every_command import every_command
from drafter_cli.completion.page import page

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_reference_is_what_the_commands_declare():
    with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as file:
        assert file.read() == page(), "run make docs"


def test_every_command_declares_itself_under_its_own_name_and_summary():
    for command in every_command():
        assert main.COMMANDS[command.name][1] == command.summary


@pytest.mark.parametrize("command", every_command(), ids=lambda command: command.name.replace(" ", "-"))
def test_examples_are_understood(command):
    """Every command line of `drafters` in an example; what a shell does with its output is left out."""
    lines = [line.replace("\\\n", " ") for line, _ in command.examples]
    found = [match[0] for line in lines if (match := re.search(r"drafters .*", line, flags=re.DOTALL))]
    assert found
    for line in found:
        argv = shlex.split(re.split(r"\s(?:\|+|>)\s|\)(?:[\"\s]|$)", line)[0])[1:]
        name, rest = main._find_command(argv)
        assert name == command.name
        parse(command, rest)


@pytest.mark.parametrize("command", every_command(), ids=lambda command: command.name.replace(" ", "-"))
def test_no_option_is_declared_twice(command):
    names = [name for option in command.options for name in (option.name, option.short) if name]
    assert len(names) == len(set(names))
    assert "--json" in names or command.name in {"completion", "guard"}
