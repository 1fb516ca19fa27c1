"""A file on its way to a registry: in chunks, cut, gone on with by another process, and refused."""

from __future__ import annotations

import hashlib

import pytest
from remote_answers import Uploads

from drafter_cli.client import upload
from drafter_cli.client.http_client import TRIES
from drafter_cli.errors import UnreachableError, UsageError
from drafter_registry import errors


@pytest.fixture
def content(tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "CHUNK_BYTES", 1 << 20)
    data = bytes(range(256)) * 4096 * 3 + b"end"
    path = tmp_path / "weights"
    path.write_bytes(data)
    return str(path), "sha256:" + hashlib.sha256(data).hexdigest(), data


def put(client, content):
    told = []
    path, digest, data = content
    client.put_file(path, digest, len(data), told.append)
    return sum(told)


def test_a_file_is_sent_in_chunks_and_arrives_whole(scripted, remote, content):
    scripted.answer = uploads = Uploads()
    assert put(remote(), content) == len(content[2])
    assert uploads.blobs == {content[1]: content[2]}
    assert len(scripted.asked("PATCH")) == 4


def test_a_file_is_asked_for_by_its_digest(scripted, remote):
    scripted.answer = uploads = Uploads()
    uploads.blobs["sha256:" + "1" * 64] = b""
    assert remote().has_blob("sha256:" + "1" * 64)
    assert not remote().has_blob("sha256:" + "2" * 64)
    assert scripted.asked("HEAD") == [f"/v1/blobs/sha256:{digit * 64}" for digit in "12"]


def test_an_empty_file_is_a_file(scripted, remote, tmp_path):
    scripted.answer = uploads = Uploads()
    (tmp_path / "empty").touch()
    digest = "sha256:" + hashlib.sha256().hexdigest()
    remote().put_file(str(tmp_path / "empty"), digest, 0, lambda _: None)
    assert uploads.blobs == {digest: b""}


def test_a_cut_costs_only_what_was_not_stored(scripted, remote, naps, content):
    scripted.answer = uploads = Uploads(cuts=[100_000, 0, 300_000])
    assert put(remote(), content) == len(content[2])
    assert uploads.blobs == {content[1]: content[2]}
    assert uploads.sent == len(content[2])
    assert len(scripted.asked("POST")) == 1


def test_another_process_goes_on_where_the_first_was_cut(scripted, remote, naps, content):
    scripted.answer = uploads = Uploads(cuts=[None, 100_000, *[0] * 20])
    with pytest.raises(UnreachableError):
        put(remote(), content)
    stored = len(uploads.sessions["u0"])
    assert 1 << 20 < stored < len(content[2])
    uploads.cuts.clear()
    assert put(remote(), content) == len(content[2])
    assert uploads.sent == len(content[2])
    assert uploads.blobs == {content[1]: content[2]}
    assert len(scripted.asked("POST")) == 1


def test_an_upload_that_the_server_has_swept_begins_anew(scripted, remote, naps, content):
    scripted.answer = uploads = Uploads(cuts=[100_000, *[0] * 20])
    with pytest.raises(UnreachableError):
        put(remote(), content)
    uploads.cuts.clear()
    uploads.sessions.clear()
    put(remote(), content)
    assert uploads.blobs == {content[1]: content[2]}


def test_an_upload_is_remembered_for_its_server_alone(scripted, remote, naps, content, tmp_path):
    scripted.answer = uploads = Uploads(cuts=[100_000, *[0] * 20])
    with pytest.raises(UnreachableError):
        put(remote(), content)
    uploads.cuts.clear()
    put(remote(DRAFTERS_URL=scripted.url + "/other"), content)
    assert "u0" in uploads.sessions, "the other registry's upload was not touched"


def test_a_lost_answer_to_the_last_request_is_no_failure(scripted, remote, naps, content):
    scripted.answer = uploads = Uploads(lost_finish=True)
    put(remote(), content)
    assert uploads.blobs == {content[1]: content[2]}


def test_a_server_that_forgets_each_upload_is_given_up(scripted, remote, naps, content):
    uploads = Uploads()

    def answer(request):
        if request.method == "PUT":
            uploads.sessions.clear()
            return 503, {}, b""
        return uploads(request)

    scripted.answer = answer
    with pytest.raises(errors.UnavailableError):
        put(remote(), content)
    assert len(scripted.asked("POST")) == TRIES


def test_bytes_that_are_not_those_of_the_digest_are_refused_and_forgotten(scripted, remote, content):
    scripted.answer = uploads = Uploads()
    path, digest, data = content
    with open(path, "r+b") as file:
        file.write(b"other")
    with pytest.raises(errors.DigestError):
        remote().put_file(path, digest, len(data), lambda _: None)
    assert (uploads.blobs, uploads.sessions) == ({}, {})


def test_a_file_that_became_shorter_is_refused(scripted, remote, naps, content):
    scripted.answer = uploads = Uploads()
    path, digest, data = content
    with open(path, "r+b") as file:
        file.truncate(1 << 20)
    with pytest.raises(UsageError, match="became shorter"):
        remote().put_file(path, digest, len(data), lambda _: None)
    assert uploads.blobs == {}


def test_two_processes_do_not_continue_one_upload(scripted, remote, content, tmp_path):
    from drafter_cli.client import upload_ledger

    folder = str(tmp_path / "own-cache" / "uploads")
    with upload_ledger.held(folder, scripted.url, content[1]) as entry:
        entry.write("theirs")
        scripted.answer = uploads = Uploads()
        put(remote(), content)
        assert "/v1/uploads/theirs" not in scripted.asked("GET")
        assert entry.read() == "theirs"
    assert uploads.blobs == {content[1]: content[2]}
