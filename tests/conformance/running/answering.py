"""A real engine's server, up until the end of a block: started as an operator would, in its environment."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import threading

import environments
from session import RunFailedError, tail

#: A start on a busy machine.
SECONDS = 900

#: What a CPU needs; the prefix cache stays on.
OPERATOR = (
    "--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32", "--max-total-tokens", "4096",
    "--mem-fraction-static", "0.3", "--disable-overlap-schedule", "--skip-server-warmup", "--max-running-requests", "4",
)  # fmt: skip


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _up(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def server(release: str, model: str, log: str, *flags: str, variables: dict[str, str] | None = None):
    """URL of a server of a release, once it is up; with more variables in its environment, if they are given.

    Raises:
        RunFailedError: It died or did not come up; the message has the end of its log.
    """
    environment, port = environments.environment_for(release), _free_port()
    command = [environment.python, "-W", "ignore", "-m", "sglang.launch_server", "--model-path", model]
    command += [*OPERATOR, "--host", "127.0.0.1", "--port", str(port), *flags]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment.environ() | (variables or {}),
            cwd=os.path.dirname(log),
            start_new_session=True,
        )
    try:
        pause, left = threading.Event(), SECONDS
        while not _up(port):
            left -= 1
            if process.poll() is not None or left < 0:
                raise RunFailedError(f"the server of {release} did not come up\n{tail(log)}")
            pause.wait(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
