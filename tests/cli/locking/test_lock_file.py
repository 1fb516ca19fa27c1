"""`drafters.lock` as a file: whole or not at all, and never in place of something else."""

from __future__ import annotations

import errno
import os
import stat
import threading

import pytest
from msgspec.structs import replace

from drafter_cli.errors import UsageError
from drafter_cli.locking import lock_file
from drafter_contracts import limits
from drafter_contracts.errors import LockError
from drafter_contracts.locking.document import (
    Lock,
    LockedDrafter,
    LockedEngine,
    LockedTarget,
    LockedVerdict,
    Question,
    canonical,
    sealed,
)

ZERO = "0" * 64


def lock(version="1.0", launch=()):
    return sealed(
        Lock(
            schema="drafters.lock.v1",
            tool="drafter-registry 1.0",
            asked=Question(reference="tiny@prod", launch=tuple(launch)),
            drafter=LockedDrafter(
                name="tiny",
                version=version,
                digest=f"sha256:{ZERO}",
                fingerprint=f"sha256:{ZERO}",
                files={"config.json": ZERO},
            ),
            engine=LockedEngine(name="sglang", release="0.5.9", known_by="published", digest=f"sha256:{ZERO}"),
            target=LockedTarget(),
            flags=("--speculative-algorithm", "EAGLE3"),
            verdict=LockedVerdict(decision="allow"),
        )
    )


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "drafters.lock")


def test_what_is_written_is_read_and_written_once(path):
    assert lock_file.write(path, lock()) is True
    before = os.stat(path)
    assert lock_file.write(path, lock()) is False
    assert os.stat(path) == before
    assert lock_file.read(path) == lock()
    assert stat.S_IMODE(before.st_mode) & 0o400
    assert os.listdir(os.path.dirname(path)) == ["drafters.lock"]


def test_another_lock_replaces_it(path):
    lock_file.write(path, lock())
    assert lock_file.write(path, lock("2.0")) is True
    assert lock_file.read(path).name == "tiny@2.0"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_one_and_nothing_else(path, monkeypatch, step):
    lock_file.write(path, lock())

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock_file.os, step, fail)
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        lock_file.write(path, lock("2.0"))
    monkeypatch.undo()
    assert lock_file.read(path).name == "tiny@1.0"
    assert os.listdir(os.path.dirname(path)) == ["drafters.lock"]


def test_a_reader_sees_the_old_or_the_new_one_while_another_writes(path):
    lock_file.write(path, lock())
    done = threading.Event()
    seen = set()

    def look():
        while not done.is_set():
            seen.add(lock_file.read(path).name)

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(60):
        lock_file.write(path, lock(f"{1 + turn % 2}.0"))
    done.set()
    reader.join()
    assert seen <= {"tiny@1.0", "tiny@2.0"}
    assert seen


def test_a_link_stays_a_link(tmp_path, path):
    real = tmp_path / "shared" / "real.lock"
    real.parent.mkdir()
    os.symlink(real, path)
    lock_file.write(path, lock())
    assert os.path.islink(path)
    assert lock_file.read(str(real)) == lock()


@pytest.mark.parametrize("content", [b"#!/bin/sh\nexec engine\n", b"", b'{"schema": "drafters.manifest.v1"}'])
def test_something_else_is_not_overwritten(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(UsageError, match="is no lock file and was left as it is"):
        lock_file.write(path, lock())
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_directory_a_pipe_and_a_huge_file_are_told(tmp_path, path):
    for call in (lock_file.read, lambda where: lock_file.write(where, lock())):
        with pytest.raises(UsageError, match="not a regular file"):
            call(str(tmp_path))
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        lock_file.read(path)
    os.remove(path)
    with open(path, "wb") as file:
        file.truncate(limits.lock_max_bytes + 1)
    with pytest.raises(UsageError, match="too large"):
        lock_file.read(path)


def test_none_is_told_with_what_writes_one(path):
    with pytest.raises(UsageError) as caught:
        lock_file.read(path)
    assert caught.value.message == f"there is no lock file {path}"
    assert "drafters lock" in caught.value.hint


def test_an_edited_one_names_file_and_field(path):
    with open(path, "wb") as file:
        file.write(canonical(replace(lock(), tool="somebody else")))
    with pytest.raises(LockError) as caught:
        lock_file.read(path)
    assert caught.value.where == f"{path}: seal"


def test_an_argument_that_is_no_text_is_told_and_nothing_is_written(path):
    with pytest.raises(UsageError, match="is no text"):
        lock_file.write(path, replace(lock(), asked=Question(reference="tiny@1.0", launch=("--x", "\udcff"))))
    assert not os.path.exists(path)
