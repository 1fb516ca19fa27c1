"""A drafter in the Hub's cache with the network off, and on a Hub on the loopback that speaks the Hub's API."""

from __future__ import annotations

import os
from hashlib import sha1, sha256
from threading import Thread

import pytest
from hub_stand_in import COMMIT, CONFIG, REPOSITORY, Hub, point_at
from huggingface_hub.utils import close_session
from small_drafter import TARGET, TENSORS

from drafter_contracts.checkpoint.skeleton import write_skeleton

NAMED = ("--name", "kimi-eagle3", "--version", "1.0.0", "--target-name", "org/target", "--json", "--dry-run")


@pytest.fixture
def drafter(tmp_path):
    """A small drafter's files: path to bytes."""
    folder = tmp_path / "trained"
    write_skeleton(str(folder), CONFIG, TENSORS)
    files = {name: (folder / name).read_bytes() for name in ("config.json", "model.safetensors")}
    return files | {
        "README.md": b"# A drafter\n",
        ".gitattributes": b"*.bin filter=lfs\n",
        "optimizer.bin": b"\x80\x04.",
    }


@pytest.fixture
def target(tmp_path):
    """The target's directory: its config alone."""
    write_skeleton(str(tmp_path / "target"), TARGET, {})
    return str(tmp_path / "target")


@pytest.fixture
def hub(drafter, tmp_path, monkeypatch):
    """A Hub on the loopback that this process and the commands it starts ask, and an empty cache."""
    served = Hub(drafter)
    thread = Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    point_at(monkeypatch, served.url, str(tmp_path / "hub"), offline=False)
    yield served
    close_session()
    served.server.shutdown()
    served.server.server_close()
    thread.join()


@pytest.fixture
def cached(drafter, tmp_path, monkeypatch):
    """The drafter in the Hub's cache, as the Hub's library lays it out, and the network forbidden."""
    repository = tmp_path / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT
    for folder in (repository / "refs", repository / "blobs", snapshot):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    for name, data in drafter.items():
        lfs = name.endswith((".safetensors", ".bin"))
        blob = repository / "blobs" / (sha256(data).hexdigest() if lfs else sha1(data).hexdigest())  # noqa: S324
        blob.write_bytes(data)
        (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "hub"), offline=True)
    return str(snapshot)


@pytest.fixture
def dry_run(drafters, target, tmp_path):
    """What a command would publish, as the manifest."""

    def run(*arguments, cwd=None):
        where = {"DRAFTERS_DATA": str(tmp_path / "data"), "DRAFTERS_CACHE": str(tmp_path / "cache")}
        return drafters(*arguments, "--target", target, *NAMED, variables=where, cwd=cwd or tmp_path)

    return run


@pytest.fixture
def registry(drafters, target, tmp_path):
    """Runs a command on a registry of this test's own."""
    where = {"DRAFTERS_DATA": str(tmp_path / "data"), "DRAFTERS_CACHE": str(tmp_path / "cache")}

    def run(*arguments):
        more = ("--target", target, *NAMED[:-2]) if arguments[0] in {"publish", "import-config"} else ()
        return drafters(*arguments, *more, variables=where, cwd=tmp_path)

    return run
