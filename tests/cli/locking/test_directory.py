"""The digests of a drafter's directory: every file, links followed, bytes and not names."""

from __future__ import annotations

import hashlib
import os

import pytest

from drafter_cli.errors import UsageError
from drafter_cli.locking import directory


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "drafter"
    (made / "more" / "deep").mkdir(parents=True)
    for name, data in {"config.json": b"{}", "more/deep/x.bin": b"x", ".hidden": b"h", ".git/config": b"g"}.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(data)
    return made


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("verify", [False, True])
def test_every_file_but_hidden_ones(folder, verify):
    expected = {"config.json": sha256(b"{}"), "more/deep/x.bin": sha256(b"x")}
    assert directory.digests(str(folder), verify=verify) == expected
    assert list(directory.digests(str(folder))) == sorted(expected)


def test_those_that_are_asked_for_as_far_as_they_are_there(folder):
    assert directory.digests(str(folder), ["more/deep/x.bin", "absent"]) == {"more/deep/x.bin": sha256(b"x")}


def test_links_are_what_they_lead_to_and_broken_ones_are_told(folder, tmp_path):
    (tmp_path / "blob").write_bytes(b"weights")
    os.symlink(tmp_path / "blob", folder / "model.safetensors")
    assert directory.digests(str(folder))["model.safetensors"] == sha256(b"weights")
    (tmp_path / "blob").unlink()
    with pytest.raises(UsageError, match=r"model\.safetensors"):
        directory.digests(str(folder))


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe.bin")
    for verify in (False, True):
        with pytest.raises(UsageError, match="not a regular file"):
            directory.digests(str(folder), verify=verify)


def test_bytes_that_change_without_size_or_date_are_seen(folder):
    path = folder / "config.json"
    os.utime(path, ns=(10**18, 10**18))
    assert directory.digests(str(folder), ["config.json"]) == {"config.json": sha256(b"{}")}
    path.write_bytes(b"[]")
    os.utime(path, ns=(10**18, 10**18))
    assert directory.digests(str(folder), ["config.json"]) == {"config.json": sha256(b"[]")}


def test_a_directory_that_is_gone_is_told(folder):
    with pytest.raises(UsageError, match="cannot be read"):
        directory.names(str(folder / "absent"))
    with pytest.raises(UsageError, match="cannot be read"):
        directory.digests(str(folder / "absent"))
    assert directory.names(str(folder)) == [".git", ".hidden", "config.json", "more"]
