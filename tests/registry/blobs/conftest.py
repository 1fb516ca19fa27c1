"""One store of each kind, opened as often as a test likes, and other processes that use it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import uuid

import pytest

STORES = ("directory", "s3")


@pytest.fixture(params=STORES)
def store_url(request, tmp_path):
    """Where an empty store is."""
    if request.param == "directory":
        return str(tmp_path / "store")
    request.getfixturevalue("s3")
    return f"s3://blobs/{uuid.uuid4().hex}"


@pytest.fixture
def another(store_url):
    """Opens the store once more, as another process would."""
    from drafter_registry.blobs.open import open_store

    return lambda: open_store(store_url)


@pytest.fixture
def store(another):
    """The store."""
    return another()


@pytest.fixture
def digest_of():
    """Digest of some bytes, as the registry writes it."""
    return lambda data: "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.fixture
def put(store, digest_of):
    """Stores bytes as a blob; returns its digest."""

    def run(data):
        upload, digest = uuid.uuid4().hex, digest_of(data)
        if data:
            store.append(upload, 0, data)
        store.commit(upload, len(data), digest)
        store.discard(upload)
        return digest

    return run


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 1 kB, so that few bytes are many objects; a put of a blob needs several of 5 MiB all the same."""
    from drafter_registry import limits

    monkeypatch.setattr(limits, "part_bytes", 1024)


_PROCESS = """
import sys
from drafter_registry.blobs.open import open_store
store = open_store(sys.argv[1])
sys.stdin.readline()
exec(sys.argv[2])
"""


@pytest.fixture
def in_processes(store_url):
    """Runs pieces of code, each in a process of its own with `store`, at the same moment."""

    def run(*codes):
        command = [sys.executable, "-c", _PROCESS, store_url]
        started = [
            subprocess.Popen([*command, code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for code in codes
        ]
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        errors = [process.communicate(timeout=60)[1] for process in started]
        assert [process.returncode for process in started] == [0] * len(codes), errors

    return run
