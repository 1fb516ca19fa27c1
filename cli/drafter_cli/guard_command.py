"""`drafters guard`: the verdict on a launch, and then the launch itself in this very process, or nothing."""

from __future__ import annotations

import os
import sys

from msgspec.structs import replace

from drafter_cli.commandline import Command, Option, Parsed
from drafter_cli.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_OK, exit_code_of_decision
from drafter_cli.gate_options import OPTIONS, judged, request
from drafter_cli.guard_mode import MODE_VARIABLE, MODES, OFF, WARN, mode_of
from drafter_cli.terminal import Style, colours, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from drafter_cli.gate_options import Request

COMMANDS = {
    "guard": Command(
        name="guard",
        summary="check a launch, then become it; or exit without starting it",
        description=(
            "Checks as `drafters check` does. If the verdict is allow or warn, this process becomes the launch,\n"
            "unchanged: same pid, signals, standard input, environment and exit status. Otherwise it exits with 3\n"
            "(refuse), 5 (unknown) or the code of the error, and the launch is never started. What it says goes to\n"
            "stderr: standard output belongs to the launch.\n"
            "A launch without speculative decoding is started at once."
        ),
        words=("[DRAFTER]",),
        options=(
            *OPTIONS,
            Option(
                "--mode",
                f"enforce (default), warn: say it and start anyway, off: start at once; or set {MODE_VARIABLE}",
                "MODE",
                choices=MODES,
            ),
            Option("--dry-run", "all of it but the start: exits with 0 where the launch would be started"),
        ),
        examples=(
            (
                "drafters guard -- python -m sglang.launch_server --model-path ...",
                "in front of the launch, in a script",
            ),
            ("drafters guard --locked -- python -m sglang.launch_server ...", "only as drafters.lock says, offline"),
            (f"{MODE_VARIABLE}=warn drafters guard -- sglang serve ...", "a trial period: never stops a launch"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Become the launch, or return the exit code that says why not."""
    mode = mode_of(parsed.value("--mode"))
    start = _stay if parsed.has("--dry-run") else become
    if mode == OFF and parsed.launch:
        return start(parsed.launch)
    asked = request(parsed)
    if parsed.has("--json"):  # one document on standard error, and nothing before it
        asked = replace(asked, quiet=True)
    try:
        allowed, code = _decide(asked, as_json=parsed.has("--json"))
    except Exception as error:
        if mode != WARN:
            raise
        from drafter_cli.main import report

        report(error, as_json=parsed.has("--json"), to_stderr=True)
        allowed, code = False, EXIT_OK
    if allowed:
        return start(asked.launch)
    as_json = parsed.has("--json")  # one document, and nothing after it
    if mode == WARN:
        if not as_json:
            write("drafters guard: starting anyway (mode warn)", to_stderr=True)
        return start(asked.launch)
    if not as_json:
        write("drafters guard: the launch was not started", to_stderr=True)
    return code


def _decide(asked: Request, *, as_json: bool) -> tuple[bool, int]:
    """Whether the launch may start, and the exit code if not. The verdict goes to stderr: stdout is the launch's."""
    from drafter_cli.plain_launch import speaks_of_speculation

    # A lock is of a launch that speculates: one that does not has lost its flags.
    if not asked.lock and not speaks_of_speculation(asked.launch):
        if asked.drafter and not as_json:
            write(f"drafters guard: the launch does not speculate: {asked.drafter} is not loaded", to_stderr=True)
        return True, EXIT_OK
    from drafter_cli.verdict_view import document, render

    verdict = judged(asked)
    if as_json:
        write_json(document(verdict), to_stderr=True)
    else:
        write(render(verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    code = exit_code_of_decision(verdict.decision)
    return code == EXIT_OK, code


def _stay(launch: Sequence[str]) -> int:  # noqa: ARG001 - stands in for `become`
    """Start nothing."""
    return EXIT_OK


def become(launch: Sequence[str]) -> int:
    """Replace this process by the launch. Returns only if that fails: 127 if there is no such program, else 126."""
    from drafter_cli.hooked_path import leave
    from drafter_cli.plugin.handover import hand_over

    hand_over(launch)
    leave(launch)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        _execute(launch)
    except OSError as error:
        write(f"drafters guard: {launch[0]}: {error.strerror}", to_stderr=True)
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return EXIT_NOT_FOUND if missing else EXIT_NOT_EXECUTABLE


def _execute(launch: Sequence[str]) -> NoReturn:
    """`execvp` with the signal dispositions that a shell would have given the launch."""
    import signal

    # The interpreter ignores SIGPIPE and SIGXFSZ for itself; an ignored signal stays ignored across exec.
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    _forget_own_locale()
    os.execvp(launch[0], list(launch))  # noqa: S606 - the command is the user's own, with no shell between


def _forget_own_locale() -> None:
    """Take back LC_CTYPE where the interpreter set it for itself (PEP 538): a launch does not inherit that."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return
    if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
        os.environ.pop("LC_CTYPE", None)
