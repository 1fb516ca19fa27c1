"""Digests of files, what is remembered of them, and a publication whose files change under its hands."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from drafter_cli.errors import UsageError
from drafter_cli.publishing import carry_out as publishing
from drafter_cli.publishing import file_digests
from drafter_cli.publishing.carry_out import Plan, PlannedFile
from drafter_contracts.manifest import SCHEMA, FileRecord, Manifest
from drafter_registry.documents import Published
from drafter_registry.errors import BlobsMissingError, ConflictError, DigestError, IncompleteError, NotFoundError


class Recorder:
    """A registry that keeps what it is given."""

    name = "a registry"

    def __init__(self, on_put=lambda path: None, *, there=False, refusal=None, forgets=0):
        self.on_put, self.there, self.refusal, self.forgets = on_put, there, refusal, forgets
        self.stored, self.published, self.has = [], [], set()

    def has_blob(self, digest):
        return digest in self.has

    def put_file(self, path, digest, size, tell):
        self.on_put(path)
        self.stored.append(digest)
        self.has.add(digest)
        tell(size)

    def put_bytes(self, data, digest):
        self.stored.append(digest)
        self.has.add(digest)

    def publish(self, name, version, manifest, tool):
        if self.refusal is not None:
            raise self.refusal
        named = {"sha256:" + (file.header_sha256 or file.sha256) for file in manifest.files}
        if not self.there and not named <= self.has:
            raise BlobsMissingError("blobs are missing")
        if self.forgets:
            self.forgets -= 1
            self.has.clear()
            raise BlobsMissingError("collected meanwhile")
        self.published.append((name, version, tool))
        return Published(name=name, version=version, digest="", fingerprint="", created=not self.there)


def settled(path, data=b"weights"):
    """A file that was written a while ago."""
    path.write_bytes(data)
    old = time.time() - 1000
    os.utime(path, (old, old))
    return str(path)


def digest(path, folder):
    told = []
    found, _ = file_digests.digest_of(str(path), str(folder), told.append)
    assert sum(told) == os.path.getsize(path)
    return found


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def plan(path, folder):
    found, seen = file_digests.digest_of(path, str(folder), lambda _: None)
    record = FileRecord(path="model.safetensors", size=seen.size, sha256=found)
    manifest = Manifest(schema=SCHEMA, name="tiny", version="1.0", files=(record,))
    return Plan(manifest, (PlannedFile(record, path, seen),))


def test_a_digest_is_of_the_bytes(tmp_path):
    path = settled(tmp_path / "w", os.urandom(3_000_000))
    with open(path, "rb") as file:
        assert digest(path, tmp_path / "notes") == sha256(file.read())


def later(monkeypatch):
    """As if some time had passed, so that a file's last change lies behind."""
    now = time.time_ns
    monkeypatch.setattr(file_digests.time, "time_ns", lambda: now() + 10**10)


def test_a_file_that_is_the_same_is_not_read_again(tmp_path, monkeypatch):
    later(monkeypatch)
    path = settled(tmp_path / "w")
    first = digest(path, tmp_path / "notes")
    (note,) = (tmp_path / "notes").iterdir()
    note.write_bytes(note.read_bytes().replace(first.encode(), b"0" * 64))
    assert digest(path, tmp_path / "notes") == "0" * 64, "it was read from the note"


@pytest.mark.parametrize("change", ["content", "touch", "replace", "note"])
def test_a_file_that_may_be_another_is_read_again(tmp_path, monkeypatch, change):
    later(monkeypatch)
    path = tmp_path / "w"
    settled(path)
    digest(path, tmp_path / "notes")
    (note,) = (tmp_path / "notes").iterdir()
    note.write_bytes(note.read_bytes().replace(sha256(b"weights").encode(), b"0" * 64))
    if change == "content":
        path.write_bytes(b"WEIGHTS")
        os.utime(path, (1, 1))
    elif change == "touch":
        os.utime(path, (1, 1))
    elif change == "replace":
        settled(tmp_path / "new")
        os.replace(tmp_path / "new", path)
    else:
        note.write_bytes(b"{")
    assert digest(path, tmp_path / "notes") == sha256(path.read_bytes())


def test_a_file_that_was_written_just_now_is_not_remembered(tmp_path):
    path = tmp_path / "w"
    path.write_bytes(b"one")
    assert digest(path, tmp_path / "notes") == sha256(b"one")
    assert not (tmp_path / "notes").exists()


def test_blobs_come_before_the_version(tmp_path):
    path = settled(tmp_path / "w")
    backend = Recorder()
    published = publishing.publish(backend, plan(path, tmp_path))
    assert backend.stored == ["sha256:" + sha256(b"weights")]
    assert published.created
    assert backend.published[0][:2] == ("tiny", "1.0")
    assert backend.published[0][2].startswith("drafters/")


@pytest.mark.parametrize("refusal", [ConflictError("other content"), NotFoundError("not yours"), IncompleteError("no")])
def test_nothing_is_sent_for_what_the_registry_refuses_anyway(tmp_path, refusal):
    backend = Recorder(refusal=refusal)
    with pytest.raises(type(refusal)):
        publishing.publish(backend, plan(settled(tmp_path / "w"), tmp_path))
    assert not backend.stored


def test_what_was_collected_meanwhile_is_sent_again_and_told_of_once(tmp_path):
    found = plan(settled(tmp_path / "w"), tmp_path)
    backend, told = Recorder(forgets=2), []
    assert publishing.publish(backend, found, told.append).created
    assert backend.stored == [found.files[0].blob] * 3
    assert sum(told) == found.size


def test_a_registry_that_forgets_for_ever_is_not_sent_to_for_ever(tmp_path):
    backend = Recorder(forgets=1000)
    with pytest.raises(BlobsMissingError):
        publishing.publish(backend, plan(settled(tmp_path / "w"), tmp_path))
    assert len(backend.stored) < 10


def test_what_is_stored_is_not_sent_but_for_a_repair(tmp_path):
    found = plan(settled(tmp_path / "w"), tmp_path)
    backend, told = Recorder(), []
    backend.has = {found.files[0].blob}
    publishing.publish(backend, found, told.append)
    assert not backend.stored
    publishing.publish(backend, found, repair=True)
    assert backend.stored == [found.files[0].blob]


def test_blobs_that_a_version_has_lost_are_sent_again(tmp_path):
    found = plan(settled(tmp_path / "w"), tmp_path)
    backend = Recorder(there=True)
    publishing.publish(backend, found)
    assert backend.stored


def test_a_file_that_stays_elsewhere_is_stored_as_its_header(tmp_path):
    record = FileRecord(
        path="model.safetensors", size=10**9, sha256="1" * 64, elsewhere="hf://o/r@c/f", header_sha256=sha256(b"head")
    )
    manifest = Manifest(schema=SCHEMA, name="tiny", version="1.0", files=(record,))
    backend = Recorder()
    found = Plan(manifest, (PlannedFile(record, data=b"head"),))
    assert found.size == 4
    publishing.publish(backend, found)
    assert backend.stored == ["sha256:" + sha256(b"head")]


def overwrite(path):
    with open(path, "r+b") as file:
        file.write(b"W")


def overwrite_and_fail(path):
    overwrite(path)
    raise DigestError("other bytes came")


@pytest.mark.parametrize("harm", [overwrite, overwrite_and_fail, os.remove])
def test_a_file_that_changes_while_it_is_published_stops_everything(tmp_path, harm):
    path = settled(tmp_path / "w")
    backend = Recorder(on_put=harm)
    with pytest.raises(UsageError, match="changed while it was published"):
        publishing.publish(backend, plan(path, tmp_path))
    assert not backend.published


def test_a_file_that_changed_before_it_was_sent_is_not_sent(tmp_path):
    path = settled(tmp_path / "w")
    found = plan(path, tmp_path)
    overwrite(path)
    backend = Recorder()
    with pytest.raises(UsageError, match="changed"):
        publishing.publish(backend, found)
    assert not backend.stored


def test_a_file_that_changes_after_it_was_sent_stops_the_version(tmp_path):
    first, second = settled(tmp_path / "a", b"a"), settled(tmp_path / "b", b"b")
    plans = [plan(path, tmp_path) for path in (first, second)]
    both = Plan(plans[0].manifest, plans[0].files + plans[1].files)
    backend = Recorder(on_put=lambda path: overwrite(first) if path == second else None)
    with pytest.raises(UsageError, match=f"{first} changed"):
        publishing.publish(backend, both)
    assert len(backend.stored) == 2
    assert not backend.published
