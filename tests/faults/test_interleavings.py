"""Two processes in an order that chance gives rarely: one is held at a place, the other does its worst meanwhile."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest


@pytest.fixture
def at(bed, until, tmp_path):
    """Begins a command, or a publication through a server, and holds it at a place; `go` lets it on to its end."""

    def begin(place, *arguments, through_server=False, server=None):
        held = tmp_path / f"{place}.held"
        failpoint = f"{place}:1:{held}"
        if through_server:
            server, failpoint = bed.server(failpoint), ""
        process = bed.start(*arguments, server=server, failpoint=failpoint)
        until(held.exists, "it never came to that place")

        def go():
            held.unlink()
            said, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            return json.loads(said)

        return SimpleNamespace(go=go, server=server)

    return begin


def collect(bed, grace=0):
    """A collection without any grace; uploads that are under way stay."""
    from drafter_registry.service.collect import collect

    with bed.open(5, gc_grace_seconds=grace) as registry:
        return collect(registry, bed.admin)


@pytest.mark.parametrize("through_server", [True, False])
def test_blobs_collected_before_the_manifest_names_them_are_sent_again(bed, at, through_server):
    directory = bed.drafter()
    waiting = at("publish.checked", *bed.publication(directory), through_server=through_server)
    assert len(collect(bed).blobs_removed) == 2
    assert waiting.go()["created"]
    if through_server:
        told = [line["status"] for line in bed.requests(waiting.server, "PUT", "/v1/drafters")]
        assert told == [422, 422, 201], "offered, and its blobs sent; gone, and sent again; published"
    assert bed.assert_whole(waiting.server or bed.server()) == ["1.0"]
    bed.assert_spotless()


@pytest.mark.parametrize("place", ["publish.before_row", "publish.before_commit"])
def test_a_collection_waits_for_a_publication_that_holds_the_blobs(bed, at, place):
    waiting = at(place, *bed.publication(bed.drafter()))
    collector = bed.start("gc", "--grace", "0s", "--json")
    with pytest.raises(subprocess.TimeoutExpired):
        collector.wait(3)
    assert waiting.go()["created"]
    said, errors = collector.communicate(timeout=60)
    assert collector.returncode == 0, errors
    assert not json.loads(said)["blobs_removed"]
    assert bed.assert_whole(bed.server()) == ["1.0"]
    bed.assert_spotless()


@pytest.fixture
def loose(bed):
    """A drafter whose blobs are here, and nothing names them any more."""
    from drafter_registry.service.versions import delete

    directory = bed.drafter()
    bed.publish(directory, "0.9")
    with bed.open() as registry:
        delete(registry, bed.admin, "tiny", "0.9", why="")
    return directory


def test_a_doomed_blob_that_is_published_again_stays(bed, at, loose):
    collecting = at("gc.doomed", "gc", "--grace", "0s", "--json")
    server = bed.server()
    assert bed.publish(loose, server=server)["created"]
    assert bed.requests(server, "PATCH", "/v1/uploads"), "a doomed blob counts as missing: it was sent again"
    assert not collecting.go()["blobs_removed"]
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


def test_a_blob_that_is_just_being_removed_is_stored_again(bed, at, loose):
    server = bed.server()  # it makes its first token, for which SQLite's one writer must be free
    collecting = at("gc.deleted", "gc", "--grace", "0s", "--json")
    publishing = bed.start(*bed.publication(loose), server=server)
    with pytest.raises(subprocess.TimeoutExpired):
        publishing.wait(3)  # for the blob's lock
    collecting.go()
    _, errors = publishing.communicate(timeout=60)
    assert publishing.returncode == 0, errors
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


@pytest.mark.parametrize("kind", ["postgresql-s3"], indirect=True)
def test_an_object_removed_between_two_looks_is_stored_again(bed, at, loose):
    collecting = at("gc.doomed", "gc", "--grace", "0s", "--json")
    publishing = at("objects.there", *bed.publication(loose), through_server=True)
    assert collecting.go()["blobs_removed"]
    assert publishing.go()["created"]
    assert [line["status"] for line in bed.requests(publishing.server, "", "/") if line["status"] >= 500] == []
    assert bed.assert_whole(publishing.server) == ["1.0"]
    bed.assert_spotless()


@pytest.mark.parametrize(
    ("place", "through_server"), [("upload.prepared", True), ("upload.staged", True), ("upload.staged", False)]
)
def test_bytes_collected_before_they_have_a_row_are_stored_again(bed, at, place, through_server):
    waiting = at(place, *bed.publication(bed.drafter()), through_server=through_server)
    if through_server:
        collect(bed)
    else:
        bed.collect()  # that of uploads too: a file that is being stored has no row
    with bed.open() as registry:
        assert list(registry.blobs.blobs()) == []
    assert waiting.go()["created"]
    assert bed.assert_whole(waiting.server or bed.server()) == ["1.0"]
    bed.assert_spotless()


def test_an_old_blob_that_a_publisher_asked_for_is_kept_for_it(bed, at, loose):
    from sqlalchemy import update

    from drafter_registry.db.models import BlobRow

    with bed.open(-100_000) as registry, registry.database.write() as connection:
        connection.execute(update(BlobRow).values(touched_at=registry.now()))
    server = bed.server()
    other = bed.drafter("other", rope_theta=5000.0)  # of the same weights
    waiting = at("client.uploaded", *bed.publication(other), server=server)
    (_config,) = collect(bed, grace=24 * 3600).blobs_removed
    assert waiting.go()["created"]
    sent = bed.requests(server, "PATCH", "/v1/uploads")
    assert [line["received"] < 1000 for line in sent] == [True], "nothing was sent but the new config.json"
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


def test_two_publishers_of_one_version_held_in_turn_make_one(bed, at):
    directory = bed.drafter()
    bed.publish(directory, "0.9")
    first = at("publish.checked", *bed.publication(directory))
    assert bed.publish(directory)["created"]
    assert not first.go()["created"]
    assert sorted(bed.assert_whole(bed.server())) == ["0.9", "1.0"]
    bed.assert_spotless()
