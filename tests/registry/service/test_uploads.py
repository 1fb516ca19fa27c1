"""Uploads: who may, how far they are, what is refused while it comes, and kills at every step."""

import hashlib
import os
import signal
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import select, update

from drafter_registry.db.models import AuditRow, BlobRow, UploadRow
from drafter_registry.errors import (
    DigestError,
    InvalidError,
    NotAuthorisedError,
    NotFoundError,
    RangeError,
    StorageFullError,
    TooLargeError,
    UnavailableError,
)
from drafter_registry.service import uploads
from drafter_registry.service.context import Actor

DATA = b"what an upload carries " * 1000
PUBLISHER = Actor("publisher", ("publish:kimi-*",))


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


DIGEST = digest_of(DATA)


def send(registry, actor, upload, offset, data, step=700):
    with uploads.receive(registry, actor, upload, offset) as receiver:
        for at in range(0, len(data), step):
            receiver.write(data[at : at + step])


def content(registry, digest):
    return b"".join(registry.blobs.stream(digest, 0, registry.blobs.size(digest)))


def rows(registry, table):
    with registry.database.read() as connection:
        return connection.execute(select(table.__table__)).all()


def changed(registry, **settings):
    return msgspec.structs.replace(registry, settings=msgspec.structs.replace(registry.settings, **settings))


def test_in_pieces(registry):
    upload = uploads.start(registry, PUBLISHER)
    assert (len(upload.id), upload.offset) == (32, 0)
    assert upload.expires > "2020"
    for start, end in ((0, 5000), (5000, 5001), (5001, len(DATA))):
        send(registry, PUBLISHER, upload.id, start, DATA[start:end])
        assert uploads.state(registry, PUBLISHER, upload.id).offset == end
    done = uploads.finish(registry, PUBLISHER, upload.id, DIGEST)
    assert (done.digest, done.size) == (DIGEST, len(DATA))
    assert content(registry, DIGEST) == DATA
    assert uploads.stat(registry, PUBLISHER, DIGEST) == done
    assert rows(registry, UploadRow) == []
    assert list(registry.blobs.staged()) == []
    assert [(row.action, row.subject) for row in rows(registry, AuditRow)] == [("blob.store", DIGEST)]
    with pytest.raises(NotFoundError):
        uploads.state(registry, PUBLISHER, upload.id)


def test_nothing_at_all_is_a_blob_too(registry):
    upload = uploads.start(registry, PUBLISHER)
    assert uploads.finish(registry, PUBLISHER, upload.id, digest_of(b"")).size == 0
    assert uploads.store_bytes(registry, PUBLISHER, b"", digest_of(b"")).size == 0
    assert content(registry, digest_of(b"")) == b""


def test_files_and_bytes_of_this_machine(registry, admin, tmp_path):
    told = []
    path = tmp_path / "weights"
    path.write_bytes(DATA * 100)
    done = uploads.store_file(registry, admin, str(path), digest_of(DATA * 100), told.append)
    assert sum(told) == done.size == len(DATA) * 100
    assert content(registry, done.digest) == DATA * 100
    uploads.store_bytes(registry, admin, DATA, DIGEST)
    assert content(registry, DIGEST) == DATA
    assert list(registry.blobs.staged()) == []


def test_a_file_that_is_not_what_was_promised(registry, admin, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(DATA)
    with pytest.raises(DigestError, match=DIGEST):
        uploads.store_file(registry, admin, str(path), digest_of(b"other"))
    with pytest.raises(InvalidError, match="cannot be read"):
        uploads.store_file(registry, admin, str(path) + ".missing", DIGEST)
    small = changed(registry, blob_max_bytes=len(DATA) - 1)
    for call in (
        lambda: uploads.store_file(small, admin, str(path), DIGEST),
        lambda: uploads.store_bytes(small, admin, DATA, DIGEST),
    ):
        with pytest.raises(TooLargeError, match=str(len(DATA) - 1)):
            call()
    assert list(registry.blobs.staged()) == list(registry.blobs.blobs()) == rows(registry, BlobRow) == []


@pytest.mark.parametrize("offset", [0, 99, 101])
def test_out_of_order(registry, offset):
    upload = uploads.start(registry, PUBLISHER).id
    send(registry, PUBLISHER, upload, 0, DATA[:100])
    with pytest.raises(RangeError, match="100 bytes"):
        uploads.receive(registry, PUBLISHER, upload, offset)


def test_another_digest_leaves_the_upload_as_it_was(registry):
    upload = uploads.start(registry, PUBLISHER).id
    send(registry, PUBLISHER, upload, 0, DATA)
    with pytest.raises(DigestError):
        uploads.finish(registry, PUBLISHER, upload, digest_of(b"other"))
    assert rows(registry, BlobRow) == []
    assert uploads.state(registry, PUBLISHER, upload).offset == len(DATA)
    uploads.finish(registry, PUBLISHER, upload, DIGEST)


def test_too_much_is_refused_while_it_comes_and_forgotten(registry):
    small = changed(registry, blob_max_bytes=1000)
    upload = uploads.start(small, PUBLISHER).id
    send(small, PUBLISHER, upload, 0, DATA[:1000])
    with pytest.raises(TooLargeError), uploads.receive(small, PUBLISHER, upload, 1000) as receiver:
        receiver.write(b"x")
    assert rows(registry, UploadRow) == []
    assert list(registry.blobs.staged()) == []


class Failing:
    """The real store, until it fails."""

    def __init__(self, store, error, after):
        self.store, self.error, self.after = store, error, after

    def append(self, *arguments):
        self.after -= 1
        if self.after < 0:
            raise self.error
        self.store.append(*arguments)

    append_bytes = 1000

    def __getattr__(self, name):
        return getattr(self.store, name)


def test_a_full_store_forgets_the_upload(registry):
    full = msgspec.structs.replace(registry, blobs=Failing(registry.blobs, StorageFullError("full"), 2))
    upload = uploads.start(full, PUBLISHER).id
    with pytest.raises(StorageFullError):
        send(full, PUBLISHER, upload, 0, DATA)
    assert rows(registry, UploadRow) == []
    assert list(registry.blobs.staged()) == []


def test_what_came_before_the_store_was_gone_is_kept(registry):
    gone = msgspec.structs.replace(registry, blobs=Failing(registry.blobs, UnavailableError("gone"), 2))
    upload = uploads.start(gone, PUBLISHER).id
    with pytest.raises(UnavailableError):
        send(gone, PUBLISHER, upload, 0, DATA)
    kept = uploads.state(registry, PUBLISHER, upload).offset
    assert kept == 2000
    send(registry, PUBLISHER, upload, kept, DATA[kept:])
    uploads.finish(registry, PUBLISHER, upload, DIGEST)


def test_two_writers_at_once_cannot_both_be_recorded(registry):
    upload = uploads.start(registry, PUBLISHER).id
    first = uploads.receive(registry, PUBLISHER, upload, 0)
    send(registry, PUBLISHER, upload, 0, DATA[:100])
    first.write(DATA[:200])
    with pytest.raises(RangeError, match="meanwhile"):
        first.__exit__(None, None, None)
    assert uploads.state(registry, PUBLISHER, upload).offset == 100


def test_only_who_started_it_and_admins_go_on(registry, admin):
    upload = uploads.start(registry, PUBLISHER).id
    other = Actor("other", ("publish:*",))
    for call in (
        lambda: uploads.state(registry, other, upload),
        lambda: uploads.receive(registry, other, upload, 0),
        lambda: uploads.finish(registry, other, upload, digest_of(b"")),
        lambda: uploads.cancel(registry, other, upload),
        lambda: uploads.state(registry, PUBLISHER, "0" * 32),
        lambda: uploads.state(registry, PUBLISHER, "../../x"),
    ):
        with pytest.raises(NotFoundError):
            call()
    send(registry, admin, upload, 0, DATA)
    uploads.cancel(registry, admin, upload)
    assert list(registry.blobs.staged()) == rows(registry, UploadRow) == []


@pytest.mark.parametrize(
    ("actor", "error"),
    [
        (Actor("reader", ("read",)), NotFoundError),
        (Actor("mover", ("alias:*",)), NotFoundError),
        (Actor("anonymous"), NotAuthorisedError),
    ],
)
def test_who_may_not_upload(registry, tmp_path, actor, error):
    for call in (
        lambda: uploads.start(registry, actor),
        lambda: uploads.store_bytes(registry, actor, DATA, DIGEST),
        lambda: uploads.store_file(registry, actor, str(tmp_path), DIGEST),
    ):
        with pytest.raises(error):
            call()
    assert list(registry.blobs.blobs()) == []


def test_asking_keeps_a_blob_young_and_a_doomed_one_is_missing(registry, admin):
    uploads.store_bytes(registry, admin, DATA, DIGEST)
    later = msgspec.structs.replace(registry, now=lambda: registry.now() + timedelta(hours=12))
    uploads.stat(later, admin, DIGEST)
    (row,) = rows(registry, BlobRow)
    assert row.touched_at - row.stored_at > timedelta(hours=11)
    with registry.database.write() as connection:
        assert uploads.hold(connection, registry, [DIGEST, digest_of(b"other"), DIGEST]) == {DIGEST: len(DATA)}
        connection.execute(update(BlobRow).values(doomed=True))
    with registry.database.write() as connection:
        assert uploads.hold(connection, registry, [DIGEST]) == {}
    with pytest.raises(NotFoundError):
        uploads.stat(registry, admin, DIGEST)
    uploads.store_bytes(registry, admin, DATA, DIGEST)
    assert uploads.stat(registry, admin, DIGEST).size == len(DATA)


_UPLOAD = """
import sys, msgspec
from drafter_registry.service import uploads
from drafter_registry.service.context import Actor
from drafter_registry.service.open import open_registry
from drafter_registry.settings import Settings
registry = open_registry(msgspec.json.decode(sys.argv[1], type=Settings))
actor = Actor("publisher", ("publish:*",))
uploads.finish(registry, actor, sys.argv[2], sys.argv[3])
"""


@pytest.mark.parametrize("step", ["staged", "committed", "recorded"])
def test_a_kill_while_finishing_leaves_all_or_nothing_and_can_be_repeated(registry, step):
    upload = uploads.start(registry, PUBLISHER).id
    send(registry, PUBLISHER, upload, 0, DATA)
    process = subprocess.run(
        [sys.executable, "-c", _UPLOAD, msgspec.json.encode(registry.settings).decode(), upload, DIGEST],
        env={**os.environ, "DRAFTERS_FAILPOINT": f"upload.{step}"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    if step == "recorded":
        assert uploads.stat(registry, PUBLISHER, DIGEST).size == len(DATA)
    else:
        with pytest.raises(NotFoundError):
            uploads.stat(registry, PUBLISHER, DIGEST)
        uploads.finish(registry, PUBLISHER, upload, DIGEST)
    assert content(registry, DIGEST) == DATA
    assert rows(registry, UploadRow) == []
