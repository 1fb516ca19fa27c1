"""Real launches of a release's server, with the gate in front of it, in its shell or inside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid

import environments
import whole

#: Variable by which every process of a launch can be told, whatever session it is in.
MARK = "DRAFTERS_TEST_MARK"
#: A script as somebody has it, with two lines more.
SCRIPT = """\
hook=$(drafters hook shell) || exit
eval "$hook"
python -m sglang.launch_server "$@"
echo fell through
"""
ROOT = os.path.abspath(os.path.join(environments.HERE, *[os.pardir] * 3))
#: A refusal, or a server that has started, on a busy machine.
SECONDS = 600


class Launch:
    """One launch, in a session of its own.

    Args:
        command: What is run.
        variables: Its environment.
        folder: Where it writes.
    """

    def __init__(self, command: list[str], variables: dict[str, str], folder: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log = os.path.join(folder, f"log-{self.mark}")
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(
                command,
                env=variables | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
            )

    def wait(self, seconds: float = SECONDS) -> int:
        """Its exit code; a launch that does not end is ended, with all its processes."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end(signal.SIGKILL)
            raise

    def end(self, number: int) -> None:
        """Send a signal to every process that it left."""
        for pid in self.left():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def told(self) -> str:
        """What it has written so far."""
        with open(self.log, "rb") as file:
            return file.read().decode(errors="replace")

    def left(self) -> list[int]:
        """Processes of this launch that run: by its mark in their environment, or in its session."""
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._is_own(pid)]

    def _is_own(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{pid}/environ", "rb") as file:
                marked = f"{MARK}={self.mark}".encode() in file.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return fields[0] != b"Z" and (marked or int(fields[3]) == self.process.pid)


def gone(launch: Launch, seconds: float = 30) -> bool:
    """Whether nothing of a launch that has ended runs any more, or soon will not."""
    until = time.monotonic() + seconds
    while launch.left():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def variables(command: str, folder: str, plugin: str = "") -> dict[str, str]:
    """The environment of somebody who starts that release's server, with `drafters` on the path.

    Args:
        command: The `drafters` command.
        folder: Where its cache lies.
        plugin: Folder in which the project is installed for the engine's own interpreter; "" for nowhere.
    """
    environment = environments.environment_for(whole.RELEASE)
    found = environment.environ() | {"STANDIN_KEEP_INTEL_AMX": "1", "TRITON_INTERPRET": "1"}
    path = [os.path.dirname(environment.python), os.path.dirname(command), found["PATH"]]
    found |= {"PATH": os.pathsep.join(path), "DRAFTERS_CACHE": os.path.join(folder, "cache")}
    if plugin:
        found["PYTHONPATH"] = os.pathsep.join((plugin, found["PYTHONPATH"]))
    return found


def installed(folder: str) -> str:
    """The project as an installer leaves it beside an engine, with its entry points; what it needs the engine has."""
    place = os.path.join(folder, "site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", place, ROOT], check=True, timeout=SECONDS)
    return place


def command_of(way: str, drafters: str, folder: str, arguments: list[str]) -> list[str]:
    """How a launch is started: behind `guard`, by a script with the shell hook, or alone with the plugin installed."""
    python = environments.environment_for(whole.RELEASE).python
    launch = [python, "-m", "sglang.launch_server", *arguments]
    if way == "guard":
        return [drafters, "guard", "--", *launch]
    if way == "shell hook":
        script = os.path.join(folder, "start.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        return ["bash", script, *arguments]
    return launch
