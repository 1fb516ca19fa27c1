"""Files that are written whole, or refused before the work that makes them."""

from __future__ import annotations

import os

import pytest

from drafter_cli.errors import UsageError
from drafter_cli.values import whole_file
from drafter_cli.values.whole_file import check_output, replace_file


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path):
    pipe, link = str(tmp_path / "pipe"), str(tmp_path / "link")
    os.mkfifo(pipe)
    os.symlink(pipe, link)
    for path in (pipe, link):
        for refuses in (check_output, lambda path: replace_file(path, b"x")):
            with pytest.raises(UsageError, match="no regular file"):
                refuses(path)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]
    assert not os.path.isfile(pipe)


def test_what_is_read_is_not_overwritten_however_it_is_named(tmp_path):
    (tmp_path / "sample.pt").write_bytes(b"states")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "sample.pt")
    for path in (str(tmp_path / "sample.pt"), str(link), f"{tmp_path}/./sample.pt"):
        with pytest.raises(UsageError, match="would be lost"):
            check_output(path, str(tmp_path / "other"), str(tmp_path / "sample.pt"))
    check_output(str(link))
    check_output(str(tmp_path / "new.json"), str(tmp_path / "sample.pt"), str(tmp_path))


@pytest.mark.parametrize("name", ["", ".", "missing/x.json"])
def test_what_cannot_be_written_is_said_before_the_work(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        check_output(name)


def test_an_interrupt_leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_bytes(b"old")

    def interrupted(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_file.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(path), b"new")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["x.json"])
