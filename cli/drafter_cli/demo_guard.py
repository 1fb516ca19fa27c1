"""The demo's last step: guarded launches as real processes, with an engine that only says that it was started."""

from __future__ import annotations

import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What the engine exits with, to be recognised.
EXIT_STATUS = 41

_ENGINE = """#!/bin/sh
# Stands where `python -m sglang.launch_server` would start eight GPUs: writes down its pid and exits.
echo "$$" > "$DRAFTERS_DEMO_PID"
exit {status}
"""


def guarded_launches(release: str, launches: Sequence[Sequence[str]], say: Callable[[str], None]) -> bool:
    """Run `drafters guard` on a mismatched and on a matching launch; the stand-in engine goes into `./bin`.

    Args:
        release: Of SGLang, to check against.
        launches: The mismatched launch, then the matching one.
        say: Writes one line.

    Returns:
        Whether the first never started its process, and the second ran it with the same pid and exit status.
    """
    os.makedirs("bin", exist_ok=True)
    engine = os.path.join("bin", "python")
    with open(engine, "w", encoding="utf-8") as file:
        file.write(_ENGINE.format(status=EXIT_STATUS))
    os.chmod(engine, 0o700)
    wrong, right = (_run(release, launch) for launch in launches)
    started = "never started" if wrong.started is None else f"started as pid {wrong.started}"
    say(f"mismatched   drafters guard, pid {wrong.pid}: exit code {wrong.code}; the engine was {started}")
    say(f"             {wrong.last}")
    same = "the same process" if right.started == right.pid else "another process"
    say(f"matching     drafters guard, pid {right.pid}: the engine ran as pid {right.started} ({same})")
    say(f"             and the caller saw its exit status, {right.code}")
    return wrong.started is None and wrong.code == 3 and right.started == right.pid and right.code == EXIT_STATUS


class _Outcome:
    """What came of one guarded launch."""

    def __init__(self, pid: int, code: int, started: int | None, last: str) -> None:
        self.pid = pid
        self.code = code
        self.started = started
        self.last = last


def _run(release: str, launch: Sequence[str]) -> _Outcome:
    record = os.path.abspath("engine-pid")
    if os.path.exists(record):
        os.remove(record)
    environment = {name: value for name, value in os.environ.items() if name != "DRAFTERS_GUARD"}
    environment["DRAFTERS_DEMO_PID"] = record
    environment["PATH"] = os.path.abspath("bin") + os.pathsep + environment.get("PATH", os.defpath)
    guard = [sys.executable, "-c", "from drafter_cli.main import entry; entry()", "guard"]
    options = ["--engine", f"sglang=={release}", "--output-ids", "2,30,58", "--"]
    with subprocess.Popen(  # noqa: S603 - our own command on our own files
        [*guard, *options, *launch], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        _, talk = process.communicate(timeout=60)
    started = None
    if os.path.exists(record):
        with open(record, encoding="utf-8") as file:
            started = int(file.read())
    return _Outcome(process.pid, process.returncode, started, talk.strip().rpartition("\n")[2])
