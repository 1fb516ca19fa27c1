"""The environment of the processes behind a port: a real one that listens, and made trees of processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from drafter_cli.observing.engine import EngineClient
from drafter_cli.observing.environment import environments
from drafter_cli.observing.setting_up import Asked
from drafter_cli.observing.watch import Watch
from drafter_contracts.acceptance.records import Conditions, EngineState, Reading

_SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="no Linux")
def test_a_real_process_that_listens():
    variables = os.environ | {"SGLANG_SIMULATE_ACC_LEN": "3.5"}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    ) as process:
        found = environments(int(process.stdout.readline()))
        process.stdin.close()
    assert [one["SGLANG_SIMULATE_ACC_LEN"] for one in found] == ["3.5"]


def test_nothing_listens_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert environments(unused.getsockname()[1]) is None


HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def table(*rows):
    lines = [
        f"   {at}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1\n"
        for at, (port, state, inode) in enumerate(rows)
    ]
    return HEADER + "".join(lines)


class Processes:
    """A process file system made by hand."""

    def __init__(self, root):
        self.root = str(root)
        os.makedirs(os.path.join(self.root, "net"))
        self.listen()

    def listen(self, *rows, name="tcp6"):
        with open(os.path.join(self.root, "net", name), "w", encoding="ascii") as file:
            file.write(table(*rows))

    def add(self, pid, parent, command, environment, *sockets):
        folder = os.path.join(self.root, str(pid))
        os.makedirs(os.path.join(folder, "fd"))
        for at, inode in enumerate(sockets):
            os.symlink(f"socket:[{inode}]", os.path.join(folder, "fd", str(at)))
        with open(os.path.join(folder, "stat"), "w", encoding="utf-8") as file:
            file.write(f"{pid} (a (strange) name) S {parent} 1 1")
        with open(os.path.join(folder, "cmdline"), "w", encoding="utf-8") as file:
            file.write(command.replace(" ", "\0"))
        with open(os.path.join(folder, "environ"), "w", encoding="utf-8") as file:
            file.write("".join(f"{name}={value}\0" for name, value in environment.items()))


@pytest.fixture
def processes(tmp_path):
    return Processes(tmp_path / "proc")


def seen(processes, port=30000):
    found = environments(port, root=processes.root)
    return found and {one["WHO"] for one in found}


def test_schedulers_and_the_main_process_are_asked_and_a_shell_is_not(processes):
    processes.listen((30000, "0A", 77), (30001, "0A", 78), (30000, "01", 79))
    processes.add(1, 0, "/sbin/init", {"WHO": "init"})
    processes.add(50, 1, "bash", {"WHO": "shell"})
    processes.add(60, 50, "python -m sglang.launch_server", {"WHO": "main"})
    processes.add(61, 60, "python spawn_main", {"WHO": "worker"}, 12, 77)
    processes.add(62, 60, "sglang::scheduler", {"WHO": "scheduler"})
    processes.add(63, 62, "python", {"WHO": "below"})
    processes.add(70, 50, "python -m sglang.launch_server", {"WHO": "another engine"}, 78)
    processes.add(71, 50, "curl", {"WHO": "client"}, 79)
    assert seen(processes) == {"main", "worker", "scheduler", "below"}
    assert seen(processes, 30001) == {"another engine"}


def test_of_another_container_or_user_nothing_is_told(processes):
    assert seen(processes) is None
    processes.listen((30000, "0A", 77), name="tcp")
    assert seen(processes) is None
    processes.add(60, 1, "python", {}, 77)
    assert seen(processes) is None  # its environment cannot be read


def test_of_another_machine_no_process_is_looked_at(monkeypatch):
    client = EngineClient("http://10.0.0.1:30000")
    monkeypatch.setattr(client, "state", lambda: EngineState(engine="sglang"))
    monkeypatch.setattr("drafter_cli.observing.environment.environments", lambda _port: pytest.fail("looks here"))
    asked = Asked(client, Conditions())
    assert asked.state().simulated == ""
    assert not asked.environment_seen


def test_readings_that_are_kept_are_bounded():
    watch = Watch([], Conditions(steps=3), most=5)
    over = watch.add(Reading(length=2.0, time=float(at)) for at in range(12))
    assert [one.judgement.readings for one in over] == [5, 5]
    assert (watch.count, watch.seen().judgement.readings) == (12, 2)
