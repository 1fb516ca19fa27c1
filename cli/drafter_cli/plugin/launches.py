"""Judge a launch inside the engine's own main process, and end that process if it must not start."""

from __future__ import annotations

import sys

from drafter_cli.errors import EXIT_INTERNAL, EXIT_OK, exit_code_of_decision, exit_code_of_error
from drafter_cli.guard_mode import OFF, WARN, mode_of
from drafter_cli.light_imports import import_msgspec
from drafter_cli.plugin import entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_cli.gate_options import Request
    from drafter_contracts.verdict import Verdict

#: Fields whose change after a command line was judged makes it another launch.
_DECIDING = ("model_path", "revision", "json_model_override_args")

#: Options that were made from a command line that was judged, and the values of what decides at that time. They live
#: as long as the process, as the engine's own do.
_judged: list[tuple[object, dict[str, object]]] = []


class LaunchStopped(SystemExit):
    """The launch must not start. A `SystemExit`, which SGLang lets pass.

    Attributes:
        verdict: Why not; None if there is none, because something failed.
    """

    def __init__(self, code: int, verdict: Verdict | None = None) -> None:
        super().__init__(code)
        self.verdict = verdict


def judge_arguments(argv: list[str]) -> None:
    """Judge what a command line's server would start.

    Args:
        argv: What the server's own parser sees.

    Raises:
        LaunchStopped: It must not start.
    """

    def verdict() -> Verdict | None:
        from msgspec.structs import replace

        from drafter_cli.plugin.handover import handed_over

        if handed_over(sys.argv):
            return None
        from drafter_cli.gate import judge
        from drafter_cli.plain_launch import speaks_of_speculation

        launch = (sys.executable, "-m", "sglang.launch_server", *argv)
        return judge(replace(_here(), launch=launch)) if speaks_of_speculation(launch) else None

    _judge(verdict)


def judge_options(server_args: object) -> None:
    """Judge the options of an engine, unless they are those of a command line that was.

    Args:
        server_args: SGLang's `ServerArgs`.

    Raises:
        LaunchStopped: It must not start.
    """
    if any(known is server_args and _deciding(server_args) == values for known, values in _judged):
        return

    def verdict() -> Verdict:
        from drafter_cli.guard import judge_record

        return judge_record(server_args, _here())

    _judge(verdict)


def remember(server_args: object) -> None:
    """Note that these options were made from a command line that was judged and may start."""
    _judged.append((server_args, _deciding(server_args)))


def _deciding(server_args: object) -> dict[str, object]:
    names = [name for name in dir(type(server_args)) if name.startswith("speculative_")]
    return {name: getattr(server_args, name, None) for name in (*names, *_DECIDING)}


def _here() -> Request:
    """What is asked in this process: the engine is the one whose code runs."""
    import os

    from drafter_cli.gate_options import Request

    package = os.path.dirname(os.path.abspath(sys.modules["sglang"].__file__ or ""))
    return Request(launch=(), engine_path=package, engine_called=f"the engine that runs here, {package}")


def _judge(verdict_of: Callable[[], Verdict | None]) -> None:
    """Say the verdict, and stop the launch if its decision and the mode say so.

    Raises:
        LaunchStopped: It must not start.
    """
    mode = ""
    try:
        mode = mode_of()
        if mode == OFF:
            return
        import_msgspec()
        verdict = verdict_of()
        code = EXIT_OK if verdict is None else _say(verdict)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the engine's caller may know how to go on; a guard that failed does not
        verdict, code = None, _tell(error)
    if code == EXIT_OK:
        return
    from drafter_cli.terminal import write

    if mode == WARN:
        write("drafters in SGLang: starting anyway (mode warn)", to_stderr=True)
        return
    write("drafters in SGLang: the launch was not started", to_stderr=True)
    raise LaunchStopped(code, verdict)


def _tell(error: BaseException) -> int:
    """Write an error to standard error, as the command does; the exit code that it stands for."""
    try:
        from drafter_cli.main import report

        report(error, to_stderr=True)
        return exit_code_of_error(error)
    except Exception as second:  # noqa: BLE001 - of a damaged installation even the words for it may be missing
        entry.say(f"drafters: {type(error).__name__}: {error} ({type(second).__name__}: {second})")
        return EXIT_INTERNAL


def _say(verdict: Verdict) -> int:
    """Write a verdict to standard error; the exit code that it stands for."""
    from drafter_cli.terminal import Style, colours, write
    from drafter_cli.verdict_view import render

    write(render(verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    return exit_code_of_decision(verdict.decision)
