"""Progress: a drawn line on a terminal, next to nothing elsewhere."""

from __future__ import annotations

import io

import pytest

from drafter_cli import progress
from drafter_cli.progress import Progress, text


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setenv("TERM", "xterm")
    return clock


def run(monkeypatch, clock, *, terminal, seconds):
    stream = Stream(terminal)
    monkeypatch.setattr("sys.stderr", stream)
    with Progress("storing", 1000) as shown:
        for _ in range(10):
            clock.now += seconds / 10
            shown.tell(100)
    return stream.getvalue()


def test_a_terminal_gets_one_line_that_is_drawn_again_and_wiped(monkeypatch, clock):
    told = run(monkeypatch, clock, terminal=True, seconds=10)
    assert "\n" not in told
    assert told.count("\r") == 11
    assert "50 %  500 B of 1 kB  100 B/s  5 s left" in told
    assert told.endswith("\r\x1b[K")


def test_a_log_gets_a_line_every_ten_seconds(monkeypatch, clock):
    told = run(monkeypatch, clock, terminal=False, seconds=25)
    assert told.count("\n") == 2
    assert "\r" not in told
    assert "[" not in told


def test_short_work_says_nothing_to_a_log(monkeypatch, clock):
    assert run(monkeypatch, clock, terminal=False, seconds=5) == ""


def test_a_dumb_terminal_is_a_log(monkeypatch, clock):
    monkeypatch.setenv("TERM", "dumb")
    assert run(monkeypatch, clock, terminal=True, seconds=5) == ""


@pytest.mark.parametrize(("done", "total", "rate", "expected"), [
    (0, 0, 0.0, "x  100 %  0 B of 0 B  0 B/s"),
    (0, 10, 0.0, "x  0 %  0 B of 10 B  0 B/s"),
    (10, 10, 5.0, "x  100 %  10 B of 10 B  5 B/s"),
    (10, 130, 1.0, "x  7 %  10 B of 130 B  1 B/s  2 min 00 s left"),
    (0, 7300, 1.0, "x  0 %  0 B of 7.3 kB  1 B/s  2 h 01 min left"),
    (12, 10, 1.0, "x  100 %  12 B of 10 B  1 B/s"),
])  # fmt: skip
def test_a_line_says_part_rate_and_time_left(done, total, rate, expected):
    assert text("x", done, total, rate, bar=False) == expected
