"""A log as it grows: real files, rotated and cut, pipes, and what no log should hold."""

from __future__ import annotations

import itertools
import os

import pytest

from drafter_cli.errors import UsageError
from drafter_cli.observing import follow as follow_module
from drafter_cli.observing.follow import LONGEST_LINE, Follower, follow


def put(path, data, mode="ab"):
    with open(path, mode) as file:
        file.write(data)


@pytest.fixture
def log(tmp_path):
    path = str(tmp_path / "engine.log")
    put(path, b"old\n")
    return path


@pytest.fixture
def follower(log):
    made = Follower(log)
    yield made
    made.close()


def test_only_what_is_added_unless_asked_for_all(log, follower):
    assert follower.poll() == ()
    put(log, b"one\ntwo\r\n")
    assert follower.poll() == ("one", "two")
    assert follower.poll() == ()
    whole = Follower(log, from_start=True)
    assert whole.poll() == ("old", "one", "two")
    whole.close()


def test_a_line_counts_when_its_end_is_there(log, follower):
    put(log, b"accept len: 2")
    assert follower.poll() == ()
    put(log, b".34\nnext")
    assert follower.poll() == ("accept len: 2.34",)


def test_a_line_whose_beginning_was_not_seen_is_no_line(log):
    put(log, b"accept len: 1")
    follower = Follower(log)
    put(log, b"2.5\nwhole\n")
    assert follower.poll() == ("whole",)
    follower.close()


def test_rotation_by_rename_loses_nothing(log, follower):
    put(log, b"one\n")
    assert follower.poll() == ("one",)
    put(log, b"last of the old\n")
    os.rename(log, log + ".1")
    assert follower.poll() == ("last of the old",)  # the new one is not there yet
    put(log + ".1", b"and one more\nunfinished")
    put(log, b"first of the new\n")
    assert follower.poll() == ("and one more",)
    assert follower.behind
    assert follower.poll() == ("first of the new",)
    assert follower.notes == [f"{log} was rotated"]
    assert not follower.behind


def test_what_is_written_while_a_rotation_is_noticed_is_read(log, follower, monkeypatch):
    real = os.stat

    def stat(path, *words, **names):
        if path == log and not os.path.lexists(log + ".1"):
            os.rename(log, log + ".1")
            put(log + ".1", b"at the last moment\n")
            put(log, b"new\n")
        return real(path, *words, **names)

    monkeypatch.setattr(os, "stat", stat)
    assert follower.poll() == ("at the last moment",)
    assert follower.poll() == ("new",)


def test_truncation_is_seen_and_told(log, follower):
    put(log, b"one\nhalf a li")
    assert follower.poll() == ("one",)
    put(log, b"new\n", mode="wb")
    assert follower.poll() == ("new",)
    assert follower.notes == [f"{log} was truncated: it is read from its beginning"]


def test_a_file_that_comes_later_is_read_from_its_beginning(tmp_path):
    path = str(tmp_path / "later.log")
    follower = Follower(path)
    assert follower.poll() == ()
    assert follower.notes == [f"{path} is not there yet"]
    put(path, b"first\n")
    assert follower.poll() == ("first",)
    follower.close()


def test_binary_junk_and_endless_lines(log, follower):
    put(log, b"\xff\x00\xfe junk\n" + b"x" * (3 * LONGEST_LINE) + b" tail\nafter\n")
    junk, long, after = follower.poll()
    assert junk == "\ufffd\x00\ufffd junk"
    assert long == "x" * LONGEST_LINE
    assert after == "after"
    put(log, b"y" * (LONGEST_LINE + 1))
    assert follower.poll() == ("y" * LONGEST_LINE,)
    assert follower._rest == b""  # what is dropped is not kept
    put(log, b"y" * LONGEST_LINE)
    assert follower.poll() == ()
    assert follower._rest == b""
    put(log, b"y" * LONGEST_LINE + b" accept len: 9.99\nnext\n")
    assert follower.poll() == ("next",)


def test_a_large_file_is_read_in_turns(log, monkeypatch):
    monkeypatch.setattr(follow_module, "_PART", 4)
    monkeypatch.setattr(follow_module, "_TURN", 8)
    put(log, b"".join(b"line %d\n" % at for at in range(20)))
    follower = Follower(log, from_start=True)
    found, turns = [], 0
    while not turns or follower.behind:
        found += follower.poll()
        turns += 1
    assert found == ["old", *(f"line {at}" for at in range(20))]
    assert turns > 10
    follower.close()


@pytest.mark.parametrize("from_start", [False, True])
def test_a_pipe_ends_with_its_writer(tmp_path, from_start):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    follower = Follower(path, from_start=from_start)
    assert follower.poll() == ()
    assert not follower.ended  # nobody has written yet
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"one\ntw")
    assert follower.poll() == ("one",)
    assert not follower.ended
    os.write(writer, b"o\ncut")
    os.close(writer)
    assert follower.poll() == ("two",)
    assert follower.ended
    assert follower.poll() == ()
    follower.close()


def test_standard_input_as_a_file_is_read_once(log, monkeypatch):
    saved = os.dup(0)
    try:
        with open(log, "rb") as file:
            os.dup2(file.fileno(), 0)
        follower = Follower("-")
        assert follower.poll() == ("old",)
        assert follower.ended
        follower.close()
        os.fstat(0)  # left open
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_what_can_never_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is a directory"):
        Follower(str(tmp_path))


def test_a_file_whose_reading_fails_is_opened_again(log, follower, monkeypatch):
    def fail(*_words):
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        assert follower.poll() == ()
    assert "Stale file handle" in follower.notes[0]
    assert follower.poll() == ("old",)


def test_the_generator_waits_only_where_nothing_came(log):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        put(log, b"line %d\n" % len(waits))

    lines = follow(log, interval=0.5, sleep=sleep)
    assert list(itertools.islice(lines, 2)) == ["line 1", "line 2"]
    assert waits == [0.5, 0.5]
    lines.close()


def test_the_generator_ends_with_a_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"a\nb\n")
    os.close(writer)
    assert list(follow(f"/dev/fd/{reader}", sleep=lambda _: pytest.fail("waits"))) == ["a", "b"]
    os.close(reader)
