"""`drafters hook shell`: a file to source, after which a shell starts no engine unguarded."""

from __future__ import annotations

import os

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import write, write_json

COMMANDS = {
    "hook shell": Command(
        name="hook shell",
        summary="a file to source: every engine that the shell starts is guarded",
        description=(
            "Prints a file for bash, zsh and POSIX shells. In a shell that has sourced it, `python -m\n"
            "sglang.launch_server`, `sglang serve` and the like, behind env, nohup, numactl, torchrun and exec, in\n"
            "pipelines and the background, are judged as `drafters guard` does before they start. After a refusal the\n"
            "script ends with the guard's exit code; an interactive shell goes on. Everything else runs as it is.\n"
            "DRAFTERS_GUARD sets the mode, and DRAFTERS_ENGINE, DRAFTERS_DRAFTER, DRAFTERS_TARGET, DRAFTERS_MANIFEST,\n"
            "DRAFTERS_OUTPUT_IDS, DRAFTERS_BOUNDARIES and DRAFTERS_LOCK (a lock file) are the guard's options.\n"
            "`drafters_unhook` takes it back.\n"
            "docs/hooks.md says what is caught and what is not."
        ),
        options=(
            Option("--print", "print the file (the default)"),
            Option("--path", "write it to the cache and print its path"),
            JSON,
        ),
        examples=(
            ('hook=$(drafters hook shell) || exit; eval "$hook"', "at the top of a start script"),
            ('. "$(drafters hook shell --path)"', "the same from a file, in any POSIX shell"),
            ("drafters hook shell > drafters-hook.sh", "a file beside your scripts: . ./drafters-hook.sh"),
        ),
    ),
}

#: Name of the file that `--path` writes, in the cache.
FILE = "drafters-hook.sh"


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print the file, or write it and print its path.

    Raises:
        UsageError: Both are asked for, or it cannot be written.
    """
    from drafter_cli.hooks.shell import program, script

    if parsed.has("--print") and parsed.has("--path"):
        raise UsageError("--print and --path say two things", "give one of them")
    text = script(program())
    if parsed.has("--path"):
        path = _written(text)
        if parsed.has("--json"):
            write_json({"shell": "posix", "path": path})
        else:
            write(path)
    elif parsed.has("--json"):
        write_json({"shell": "posix", "script": text})
    else:
        write(text.rstrip("\n"))
    return EXIT_OK


def _written(text: str) -> str:
    """Path of the file with that text.

    Raises:
        UsageError: There is no cache, or it cannot be written.
    """
    from drafter_contracts.engines.local.folder import profiles_folder
    from drafter_contracts.engines.local.folder import write as write_file

    profiles = profiles_folder()
    if not profiles:
        raise UsageError("there is no directory to keep the file in", "name one in DRAFTERS_CACHE")
    path = os.path.join(os.path.dirname(profiles), "shell-hook", FILE)
    problem = write_file(path, text.encode())
    if problem:
        raise UsageError(f"{path} cannot be written: {problem}", "set DRAFTERS_CACHE")
    return path
