"""The entry point that SGLang loads (group `sglang.srt.plugins`): puts the gate on the engine's own launch path.

SGLang logs and ignores whatever exception a plugin raises, one of its import too. So that nothing of ours is ignored,
this module imports the standard library only, does everything inside one `try`, and a fault becomes a `SystemExit`,
which SGLang lets pass: in mode `enforce` a launch that cannot be judged does not start.
"""

from __future__ import annotations

import os
import sys

#: The plugin's name, as SGLANG_PLUGINS selects it.
NAME = "drafters"
SELECTION = "SGLANG_PLUGINS"
_FAULT = 1
_FILE = "--config"


def register() -> None:
    """Register the hooks that judge a launch; in mode `off` do nothing.

    Raises:
        SystemExit: They cannot be registered, in mode `enforce`, where the process may start an engine that speculates.
    """
    mode = os.environ.get("DRAFTERS_GUARD", "")
    if mode == "off":
        return
    try:
        from drafter_cli.plugin import hooks

        hooks.install()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, SGLang would log it and start the engine
        stop_for(error, mode)


def stop_for(error: BaseException, mode: str) -> None:
    """Say that this plugin failed, and end the process unless its mode or its launch lets that pass.

    Args:
        error: What went wrong.
        mode: The mode as the environment has it.

    Raises:
        SystemExit: The launch must not start unjudged.
    """
    going_on = "the launch goes on unjudged (mode warn)" if mode == "warn" else ""
    if not going_on and not may_speculate(sys.argv):
        going_on = "the launch does not speculate, and goes on"
    what = going_on or "the launch was not started; DRAFTERS_GUARD=warn or off starts it unjudged"
    say(f"drafters: the plugin in SGLang failed: {type(error).__name__}: {error}\ndrafters: {what}")
    if not going_on:
        raise SystemExit(_FAULT) from error


def may_speculate(argv: list[str]) -> bool:
    """False only for the command line of a server (not a script's) that mentions neither speculation nor a file.

    Args:
        argv: The process's own, its program first.
    """
    program = os.path.basename(argv[0]) if argv else ""
    arguments = argv[1:]
    if program != "launch_server.py" and not (program == "sglang" and arguments[:1] == ["serve"]):
        return True
    return mentions(arguments)


def mentions(arguments: list[str]) -> bool:
    """Whether arguments of a server mention speculation, or a file of arguments that may.

    Coarse, and only in one direction: SGLang's flags of speculation, and argparse's abbreviations of them, start so.
    """
    names = [word.partition("=")[0] for word in arguments]
    return any(name.startswith("--sp") or (len(name) > len("--c") and _FILE.startswith(name)) for name in names)


def say(text: str) -> None:
    """Write a line to standard error, if it can be written."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed, or full
        return
