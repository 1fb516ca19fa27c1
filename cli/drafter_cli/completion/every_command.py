"""All commands as data, from the modules that run them: for completion and for the reference."""

from __future__ import annotations

from importlib import import_module

from drafter_cli.main import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Command


def every_command() -> tuple[Command, ...]:
    """Every command, in the order of `drafters --help`."""
    return tuple(import_module(f"drafter_cli.{module}").COMMANDS[name] for name, (module, _) in COMMANDS.items())
