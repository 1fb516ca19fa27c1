"""`drafters`: finds the command that is asked for, runs it, and turns every error into a line and an exit code."""

from __future__ import annotations

import os
import sys

from drafter_cli.errors import (
    EXIT_CODES,
    EXIT_OK,
    EXIT_USAGE,
    OutputError,
    UsageError,
    describe_error,
    error_line,
    exit_code_of_error,
)
from drafter_cli.terminal import RED, Style, colours, printable, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Command to its module and one-line summary. A module is imported only when its command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "inspect": ("inspect_command", "what a drafter's own files say: method, capture layout, vocabulary"),
    "check": ("check_command", "would this launch feed the drafter the states it was trained on?"),
    "guard": ("guard_command", "check a launch, then become it; or exit without starting it"),
    "explain": ("explain_command", "what a finding's code means and what goes wrong without it"),
    "capture": ("values.capture_command", "run a target and keep its states in a file, for `--reference`"),
    "identify": ("values.identify_command", "which layers recorded states really hold, told by their numbers"),
    "evaluate": ("values.evaluate_command", "acceptance on recorded states: is the stated layout the best one?"),
    "fingerprint": ("values.fingerprint_command", "keep the target's states on a fixed probe, to ask engines by"),
    "verify": ("values.verify_command", "does a running engine feed the states that a drafter was fingerprinted with?"),
    "observe": ("observing.command", "what a running engine accepts, and whether that is what was promised"),
    "doctor": ("doctor.command", "why is the drafter of this running engine not accepted?"),
    "publish": ("publishing.command", "store a drafter in the registry under a name and version"),
    "import-config": ("hub.import_config_command", "publish a drafter whose weights stay where they are"),
    "resolve": ("resolving.command", "the launch flags of a stored drafter for one engine release"),
    "lock": ("locking.command", "write down a resolved launch, for starts that must not differ from it"),
    "pull": ("catalogue.pull_command", "fetch a stored drafter, verified, into the cache or a directory"),
    "list": ("catalogue.catalog_commands", "the stored drafters, searched"),
    "show": ("catalogue.catalog_commands", "one stored version: its manifest, files, aliases, state"),
    "diff": ("catalogue.catalog_commands", "what changed between two versions, in words"),
    "alias set": ("catalogue.alias_commands", "move an alias to a version"),
    "alias rm": ("catalogue.alias_commands", "remove an alias"),
    "alias history": ("catalogue.alias_commands", "every move of an alias: who, when, from, to, why"),
    "acceptance add": ("catalogue.acceptance_command", "attach a measured acceptance to a stored version"),
    "acceptance list": ("catalogue.acceptance_command", "what a version is promised to be accepted, and by whom"),
    "acceptance history": ("catalogue.acceptance_command", "what engines were seen to accept, hour by hour"),
    "acceptance rm": ("catalogue.acceptance_command", "take an attached acceptance away"),
    "yank": ("catalogue.state_commands", "stop resolving a version, but by its exact name"),
    "delete": ("catalogue.state_commands", "remove a version for ever; its name cannot be used again"),
    "token create": ("administration.token_commands", "make a token with scopes and an expiry"),
    "token list": ("administration.token_commands", "the tokens, without their secrets"),
    "token revoke": ("administration.token_commands", "end a token"),
    "audit": ("administration.token_commands", "every write: who, what, when"),
    "serve": ("administration.serve_command", "run the registry's HTTP service"),
    "gc": ("administration.storage_commands", "remove blobs that no version names"),
    "fsck": ("administration.storage_commands", "hash every blob again and explain every row"),
    "backup": ("administration.storage_commands", "copy the registry to a directory while it runs"),
    "restore": ("administration.storage_commands", "make a registry from a backup"),
    "db upgrade": ("administration.database_commands", "bring the database's schema up to this release"),
    "db check": ("administration.database_commands", "whether the database's schema is this release's"),
    "config": ("administration.config_command", "the settings in force, and where each comes from"),
    "hook shell": ("hooks.command", "a file to source: every engine that the shell starts is guarded"),
    "completion": ("completion.command", "shell completion for bash, zsh or fish"),
    "engine scan": ("engines.engine_command", "derive a profile from an unpacked engine release or its wheel"),
    "engine update": ("engines.engine_update", "add the profile of a release that is not shipped"),
    "engine list": ("engines.engine_command", "the engine releases whose behaviour is known"),
    "engine show": ("engines.engine_command", "what one release does, per target class"),
    "engine diff": ("engines.diff_command", "what an upgrade does to captures, flags and your drafters"),
    "engine history": ("engines.history_command", "what a target class captures, over all releases"),
    "engine coverage": ("engines.coverage_command", "how much of each release's capture code is understood"),
}


def entry() -> NoReturn:
    """The console script.

    The process ends here, with output flushed: taking the interpreter's modules apart one by one would cost more
    than the verdict did, and nothing waits for it.
    """
    import gc

    gc.disable()  # a short process; a scan works in a child of its own
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed by whoever started this
            continue
    os._exit(code)


def main(argv: list[str]) -> int:
    """Run a command line; returns the exit code. `guard` does not return when it becomes the launch."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    try:
        if "/drafters-shims-" in os.environ.get("PATH", ""):
            from drafter_cli.hooked_path import look_behind

            look_behind()
        return _dispatch(argv)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place that maps every error
        report(error, as_json="--json" in own, to_stderr=argv[:1] == ["guard"])
        return exit_code_of_error(error)


def report(error: BaseException, *, as_json: bool = False, to_stderr: bool = False) -> None:
    """Say what went wrong: one line and a hint to stderr, or with `--json` one document to stdout (or stderr)."""
    if os.environ.get("DRAFTERS_TRACEBACK") and not isinstance(error, UsageError):
        import traceback

        traceback.print_exception(error)
    fields = describe_error(error)
    if as_json and not isinstance(error, OutputError):
        try:
            write_json({"error": fields, "exit_code": exit_code_of_error(error)}, to_stderr=to_stderr)
        except OutputError:  # then as a line, below
            pass
        else:
            return
    style = Style(on=colours(sys.stderr))
    write(f"{style.paint('drafters:', RED)} {printable(error_line(error))}", to_stderr=True)
    if fields["hint"]:
        write(f"  {printable(fields['hint'])}", to_stderr=True)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("--help", "-h"):
        write(help_text())
        return EXIT_OK
    if argv[0] == "--version":
        write(f"drafters {version()}")
        return EXIT_OK
    if argv[0] == "help":
        argv = [*argv[1:], "--help"]
        return _dispatch(argv if len(argv) > 1 else ["--help"])
    if argv[1:] in ([], ["--help"], ["-h"]) and any(name.startswith(argv[0] + " ") for name in COMMANDS):
        write(help_text(argv[0] + " "))
        return EXIT_OK if argv[1:] else EXIT_USAGE
    name, rest = _find_command(argv)
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    from importlib import import_module

    from drafter_cli.light_imports import import_msgspec

    import_msgspec()

    from drafter_cli import commandline

    module = import_module("drafter_cli." + COMMANDS[name][0])
    command = module.COMMANDS[name]
    if commandline.wants_help(rest):
        write(commandline.help_text(command))
        return EXIT_OK
    return int(module.run(command, commandline.parse(command, rest)))


def _find_command(argv: list[str]) -> tuple[str, list[str]]:
    """The command's name and its arguments.

    Raises:
        UsageError: There is no such command.
    """
    if argv[0] in COMMANDS:
        return argv[0], argv[1:]
    from drafter_cli.nearest import nearest

    group = [name for name in COMMANDS if name.startswith(argv[0] + " ")]
    if not group:
        firsts = list(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
        close = nearest(argv[0], firsts)
        kind = "option" if argv[0].startswith("-") else "command"
        raise UsageError(f"there is no {kind} {argv[0]}", f"did you mean {close}?" if close else "see drafters --help")
    inner = argv[1] if len(argv) > 1 else ""
    if f"{argv[0]} {inner}" in COMMANDS:
        return f"{argv[0]} {inner}", argv[2:]
    seconds = [name.partition(" ")[2] for name in group]
    close = nearest(inner, seconds)
    raise UsageError(
        f"there is no command {argv[0]} {inner}",
        f"did you mean {argv[0]} {close}?" if close else f"one of {', '.join(seconds)}",
    )


def version() -> str:
    """This distribution's version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("drafter-registry")
    except PackageNotFoundError:
        return "0+unknown"


def help_text(group: str = "") -> str:
    """What `drafters --help` prints, or the part of it that concerns a group of commands ("engine ")."""
    lines = [f"usage: drafters {group}COMMAND [options]", "", "commands:"]
    lines += [f"  {name:<15} {summary}" for name, (_, summary) in COMMANDS.items() if name.startswith(group)]
    lines += ["", "  drafters COMMAND --help   options and examples", "  drafters --version", "", "exit codes:"]
    lines += [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES]
    return "\n".join(lines)
