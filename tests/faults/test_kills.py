"""`kill -9` of server, client, collector and mover at every step: nothing half-done is seen, all can be repeated."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import signal
import subprocess

import httpx2
import pytest

KINDS = ("sqlite-local", "postgresql-s3")
KILLED = -signal.SIGKILL
#: Rows that make weights of more than the largest part that an object store is given at once.
LARGE = 150_000

STORING = ("upload.staged", "upload.committed", "upload.recorded")
RECEIVING = ("upload.begun", "upload.appended", "upload.prepared")
PUBLISHING = ("publish.checked", "publish.before_row", "publish.before_commit", "publish.committed")
#: Places in one kind of store alone.
IN_STORE = {
    "sqlite-local": ("local.writing", "local.synced", "local.renamed"),
    "postgresql-s3": ("objects.part", "objects.sent"),
}
CLIENT = ("client.begun", "client.sending", "client.sent", "client.stored", "client.uploaded", "client.published")
EMBEDDED_CLIENT = ("client.uploaded", "client.published")
COLLECTING = ("gc.doomed", "gc.deleted", "gc.recorded", "gc.upload_forgotten", "gc.orphan_deleted")
MOVING = ("alias.before_commit",)
#: Places that are only come to while somebody else does something: see test_interleavings.py.
MEETING = ("objects.there",)

SERVER = [
    (kind, place) for kind in KINDS for place in (*RECEIVING, *STORING, *IN_STORE[kind], *PUBLISHING)
]  # fmt: skip
#: Not "objects.part": nothing is staged in a bucket when the whole file is here.
EMBEDDED = [
    (kind, place)
    for kind in KINDS
    for place in (*STORING, *IN_STORE[kind], *PUBLISHING, *EMBEDDED_CLIENT)
    if place != "objects.part"
]


def test_every_place_in_the_code_is_tested():
    found = set()
    for package in ("drafter_registry", "drafter_cli"):
        (folder,) = importlib.util.find_spec(package).submodule_search_locations
        for place, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".py"):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        found |= set(re.findall(r"\breached\((?!name: str)(.*?)\)", file.read()))
    tested = {place for _, place in (*SERVER, *EMBEDDED)} | {*CLIENT, *COLLECTING, *MOVING, *MEETING}
    assert found == {f'"{place}"' for place in tested}


@pytest.mark.parametrize(("kind", "place"), SERVER, indirect=["kind"])
def test_a_server_killed_while_a_client_publishes(bed, place):
    directory = bed.drafter(rows=LARGE if place.startswith("objects") else 512)
    armed = bed.server(place)
    client = bed.start(*bed.publication(directory), server=armed)
    assert armed.process.wait(60) == KILLED
    server = bed.server()
    done = place == "publish.committed"
    assert bed.assert_whole(server) == (["1.0"] if done else [])
    bed.assert_only_leftovers()
    bed.assert_spotless()
    _, said = client.communicate(timeout=60)
    assert client.returncode not in (0, 1), said
    assert "Traceback" not in said
    assert bed.publish(directory, server=server)["created"] is not done
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


@pytest.mark.parametrize(("kind", "place"), EMBEDDED, indirect=["kind"])
def test_a_publisher_without_a_server_is_killed(bed, place):
    directory = bed.drafter(rows=LARGE if place.startswith("objects") else 512)
    assert bed.run(*bed.publication(directory), failpoint=place).returncode == KILLED
    bed.assert_only_leftovers()
    done = place in ("publish.committed", "client.published")
    assert bed.publish(directory)["created"] is not done
    bed.assert_spotless()
    assert bed.assert_whole(bed.server()) == ["1.0"]


@pytest.mark.parametrize("place", CLIENT)
def test_a_client_killed_while_it_publishes(bed, place):
    directory = bed.drafter()
    server = bed.server()
    assert bed.run(*bed.publication(directory), server=server, failpoint=place).returncode == KILLED
    done = place == "client.published"
    assert bed.assert_whole(server) == (["1.0"] if done else [])
    bed.assert_only_leftovers()
    assert bed.publish(directory, server=server)["created"] is not done
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


def test_a_client_killed_while_it_sends_goes_on_where_it_was(bed, until):
    directory = bed.drafter(rows=LARGE)
    size = os.path.getsize(os.path.join(directory, "model.safetensors"))
    server = bed.server()
    # The 1st piece is config.json. 18 pieces of 1 MiB of the weights go out: an object store is given 16 at once.
    killed = bed.run(*bed.publication(directory), server=server, failpoint="client.sending:19")
    assert killed.returncode == KILLED
    cut = until(
        lambda: [line for line in bed.requests(server, "PATCH", "/v1/uploads") if line["received"] > 1 << 20],
        "the server did not notice the cut",
    )
    assert len(cut) == 1
    kept = cut[0]["received"]
    assert kept > 16 << 20
    bed.publish(directory, server=server)
    sent = [line["received"] for line in bed.requests(server, "PATCH", "/v1/uploads") if line["received"] > 100_000]
    assert sent == [kept, size - kept], "what had arrived was not sent again"
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


@pytest.mark.parametrize("place", COLLECTING)
def test_a_collector_that_is_killed(bed, place):
    from drafter_registry.service import uploads
    from drafter_registry.service.versions import delete

    kept, loose = bed.drafter("kept"), bed.drafter("loose", rope_theta=5000.0)
    bed.publish(kept)
    bed.publish(loose, version="0.9")
    with bed.open() as registry:
        delete(registry, bed.admin, "tiny", "0.9", why="")
        upload = uploads.start(registry, bed.admin).id
        with uploads.receive(registry, bed.admin, upload, 0) as receiver:
            receiver.write(b"nobody goes on with this")
        orphan = "0" * 32
        size = registry.blobs.ingest(orphan, [b"x"], _digest(b"x"))
        registry.blobs.commit(orphan, size, _digest(b"x"))
    with bed.open() as registry:
        assert len(list(registry.blobs.blobs())) == 4, "config.json of both, their weights, and one without a row"
    environment = {"DRAFTERS_UPLOAD_IDLE_SECONDS": "0"}
    variables = bed.variables(failpoint=place) | environment
    done = bed._drafters("gc", "--grace", "0s", variables=variables)
    assert done.returncode == KILLED, done.stderr
    bed.assert_only_leftovers()
    bed.publish(loose, version="1.1")
    bed.assert_only_leftovers()
    assert sorted(bed.assert_whole(bed.server())) == ["1.0", "1.1"]
    bed.assert_spotless()


def _digest(data):
    import hashlib

    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_mover_that_is_killed_moved_nothing(bed):
    directory = bed.drafter()
    bed.publish(directory)
    bed.publish(directory, version="1.1")
    assert bed.run("alias", "set", "tiny@prod", "1.0").returncode == 0
    assert bed.run("alias", "set", "tiny@prod", "1.1", failpoint="alias.before_commit").returncode == KILLED
    server = bed.server()
    place = server.url + "/v1/drafters/tiny/aliases/prod"
    assert httpx2.get(place, headers=server.headers).json()["version"] == "1.0"
    done = bed.run("alias", "set", "tiny@prod", "1.1", server=server)
    assert done.returncode == 0, done.stderr
    moves = httpx2.get(place + "/history", headers=server.headers).json()["items"]
    assert [(one["revision"], one["to_version"]) for one in moves] == [(2, "1.1"), (1, "1.0")]
    assert bed.scrub() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_any_moment(bed, seed):
    """Whenever either is killed: what is there is whole, and the publication can be repeated at once."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    published = []
    for number in range(3):
        directory = bed.drafter(f"d{number}", rows=40_000, rope_theta=float(1000 + number))
        server = bed.server()
        client = bed.start(*bed.publication(directory, f"1.{number}"), server=server)
        victim = server.process if chance.random() < 0.5 else client
        try:
            client.wait(chance.uniform(0.3, 1.5))
        except subprocess.TimeoutExpired:
            victim.kill()
        client.kill()
        client.communicate(timeout=60)
        bed.assert_only_leftovers()
        again = server if server.process.poll() is None else bed.server()
        bed.publish(directory, f"1.{number}", server=again)
        published.append(f"1.{number}")
        assert sorted(bed.assert_whole(again)) == published
        again.stop(signal.SIGKILL)
    bed.assert_spotless()
