"""What only a directory can do wrong: links, modes, a full disk, bytes that were hashed before."""

import errno
import os
import stat
import uuid

import pytest

from drafter_registry.blobs.local import LocalStore
from drafter_registry.errors import DigestError, InternalError, StorageFullError, UnavailableError


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def local(directory):
    return LocalStore(directory)


def place(directory, digest):
    name = digest.removeprefix("sha256:")
    return os.path.join(directory, "blobs", "sha256", name[:2], name)


@pytest.fixture
def stored(local, digest_of):
    upload, digest = uuid.uuid4().hex, digest_of(b"bytes")
    local.append(upload, 0, b"bytes")
    local.commit(upload, 5, digest)
    return digest


def test_only_the_owner_may_look(local, stored, directory):
    local.append("0" * 32, 0, b"x")
    for folder, _, files in os.walk(directory):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for file in files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, file)).st_mode) == 0o600


def test_a_link_in_a_blobs_place_is_not_followed(local, stored, directory, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"bytes")
    os.unlink(place(directory, stored))
    os.symlink(secret, place(directory, stored))
    for call in (
        lambda: local.size(stored),
        lambda: local.read(stored, 0, 5),
        lambda: list(local.stream(stored, 0, 5)),
    ):
        with pytest.raises(InternalError, match="regular"):
            call()
    assert list(local.blobs()) == []


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_pipe_in_a_blobs_place_is_told(local, stored, directory, make):
    os.unlink(place(directory, stored))
    make(place(directory, stored))
    with pytest.raises(InternalError):
        local.read(stored, 0, 5)


@pytest.mark.parametrize("parts", [("uploads",), ("blobs",), ("blobs", "sha256")])
def test_a_link_in_a_folders_place_is_not_followed(local, directory, tmp_path, digest_of, parts):
    outside = tmp_path / "outside"
    outside.mkdir()
    os.makedirs(os.path.join(directory, *parts[:-1]), mode=0o700)
    os.symlink(outside, os.path.join(directory, *parts))

    def store():
        local.ingest("0" * 32, [b"bytes"], digest_of(b"bytes"))
        local.commit("0" * 32, 5, digest_of(b"bytes"))

    with pytest.raises(InternalError):
        store()
    assert os.listdir(outside) == []


def test_a_link_in_an_uploads_place_is_not_followed(local, stored, directory, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    os.symlink(victim, os.path.join(directory, "uploads", "0" * 32))
    with pytest.raises(InternalError):
        local.append("0" * 32, 0, b"yours")
    assert victim.read_bytes() == b"mine"
    local.discard("0" * 32)
    assert victim.exists()


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, StorageFullError), (errno.EDQUOT, StorageFullError), (errno.EIO, UnavailableError)],
)
def test_what_the_disk_says(local, monkeypatch, digest_of, number, expected):
    local.append("0" * 32, 0, b"first")
    real = os.pwrite

    def half(file, data, offset):
        if offset > 5:
            raise OSError(number, os.strerror(number))
        return real(file, data[:1], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(expected):
        local.append("0" * 32, 5, b"second")
    with pytest.raises(expected):
        local.ingest("1" * 32, [b"more than five"], digest_of(b"more than five"))
    monkeypatch.undo()
    assert [(one.key, one.size) for one in local.staged()] == [("0" * 32, 5)]
    local.commit("0" * 32, 5, digest_of(b"first"))


def test_bytes_that_were_hashed_as_they_came_are_not_read_again(local, monkeypatch, digest_of):
    local.append("0" * 32, 0, b"abc")
    local.append("0" * 32, 3, b"def")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", None)
        local.commit("0" * 32, 6, digest_of(b"abcdef"))
    assert local.read(digest_of(b"abcdef"), 0, 6) == b"abcdef"


def test_a_file_that_somebody_wrote_to_behind_our_back_is_read_again(local, directory, digest_of):
    local.append("0" * 32, 0, b"abc")
    with open(os.path.join(directory, "uploads", "0" * 32), "r+b") as file:
        file.write(b"X")
    with pytest.raises(DigestError):
        local.commit("0" * 32, 3, digest_of(b"abc"))
    local.commit("0" * 32, 3, digest_of(b"Xbc"))


def test_everything_is_on_the_disk_before_it_has_its_name(local, monkeypatch, digest_of):
    calls = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)

        def noted(*arguments, _name=name, _real=real, **keywords):
            folder = _name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("folder" if folder else _name)
            return _real(*arguments, **keywords)

        monkeypatch.setattr(os, name, noted)
    local.append("0" * 32, 0, b"abc")
    local.commit("0" * 32, 3, digest_of(b"abc"))
    assert calls.index("fsync") < calls.index("rename")
    assert calls[-2:] == ["rename", "folder"]
    assert calls.count("folder") >= 5  # the root's parent, blobs, sha256, ab (each in its parent), and ab itself
