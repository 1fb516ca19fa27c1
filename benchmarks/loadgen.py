"""Asks a server on this machine the same few questions for a while, and says how long the answers took.

A process of its own, so that it takes no time from what it measures:

    python benchmarks/loadgen.py < task.json

The task is a `Task`, the answer on standard output a `Load`. Connections are kept alive, each has one question open at
a time, and nothing of an answer is read but its status and its length. It ends by itself.
"""

from __future__ import annotations

import select
import socket
import statistics
import sys
import time
from itertools import cycle

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1024 * 1024
_PATIENCE = 20.0


class Task(msgspec.Struct, frozen=True):
    """What to ask.

    Attributes:
        port: Of the loopback interface.
        questions: Whole HTTP requests, asked in turn.
        connections: Open at a time.
        seconds: How long to ask, after every question was asked once (at most `warm`) without being counted.
        warm: Most questions of the uncounted round.
        status: What every answer must have.
    """

    port: int
    questions: tuple[bytes, ...]
    connections: int
    seconds: float
    warm: int = 2000
    status: int = 200


class Load(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        answers: How many came.
        seconds: Within how long.
        p50: Median milliseconds of an answer.
        p99: 99th percentile.
        busy: Part of the time that this process was at work: near 1, the measurement is of itself.
    """

    answers: int
    seconds: float
    p50: float
    p99: float
    busy: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds


class _Connection:
    """One socket with one question open."""

    def __init__(self, port: int, status: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._status = b" %d " % status
        self._came = self._question = b""
        self.asked = 0.0

    def ask(self, question: bytes) -> None:
        self._came = b""
        self._question = question
        self.asked = time.perf_counter()
        self.socket.sendall(question)

    def read(self) -> bool:
        """Take what is there; whether the answer is whole now."""
        try:
            piece = self.socket.recv(_PIECE)
        except TimeoutError:
            sys.exit(f"no answer within {_PATIENCE:.0f} s to {self._question[:300]!r}")
        if not piece:
            sys.exit(f"the server hung up after {self._came[:300]!r}")
        self._came += piece
        end = self._came.find(b"\r\n\r\n")
        if end < 0:
            return False
        if self._came[8:13] != self._status:
            sys.exit(f"expected status{self._status.decode()}and got {self._came[:1500]!r}")
        return len(self._came) >= end + 4 + self._length(end)

    def _length(self, end: int) -> int:
        if self._status == b" 304 ":
            return 0
        head = self._came[:end].lower() + b"\r\n"
        at = head.find(b"\r\ncontent-length:")
        if at < 0:
            sys.exit(f"no length is told: {head!r}")
        return int(head[at + 17 : head.index(b"\r\n", at + 17)])


def _alone(connection: _Connection, questions: Iterator[bytes], until: float) -> list[float]:
    taken = []
    while time.perf_counter() < until:
        connection.ask(next(questions))
        while not connection.read():
            pass
        taken.append(time.perf_counter() - connection.asked)
    return taken


def _together(connections: list[_Connection], questions: Iterator[bytes], until: float) -> list[float]:
    poll, taken = select.epoll(), []
    by_number = {one.socket.fileno(): one for one in connections}
    for number, one in by_number.items():
        poll.register(number, select.EPOLLIN)
        one.ask(next(questions))
    waiting = len(connections)
    while waiting:
        for number, _ in poll.poll(_PATIENCE) or sys.exit("no answer comes any more"):
            one = by_number[number]
            if not one.read():
                continue
            now = time.perf_counter()
            taken.append(now - one.asked)
            if now < until:
                one.ask(next(questions))
            else:
                waiting -= 1
    return taken


def run(task: Task) -> Load:
    """Ask."""
    connections = [_Connection(task.port, task.status) for _ in range(task.connections)]
    for question in task.questions[: task.warm]:
        connections[0].ask(question)
        while not connections[0].read():
            pass
    questions = cycle(task.questions)
    began, worked = time.perf_counter(), time.process_time()
    until = began + task.seconds
    if task.connections == 1:
        taken = _alone(connections[0], questions, until)
    else:
        taken = _together(connections, questions, until)
    seconds = time.perf_counter() - began
    busy = (time.process_time() - worked) / seconds
    taken.sort()
    p99 = taken[min(int(len(taken) * 0.99), len(taken) - 1)]
    return Load(len(taken), seconds, statistics.median(taken) * 1e3, p99 * 1e3, busy)


if __name__ == "__main__":
    loaded = run(msgspec.json.decode(sys.stdin.buffer.read(), type=Task))
    sys.stdout.buffer.write(msgspec.json.encode(loaded))
