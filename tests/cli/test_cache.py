"""The cache: verified, continued after a cut, shared by processes, and never led outside by a manifest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from drafter_cli.cache import blobs as cache_blobs
from drafter_cli.cache import drafters as cache
from drafter_cli.cache import placing
from drafter_cli.errors import UnreachableError, UsageError
from drafter_contracts.manifest import FILE_NAME, SCHEMA, FileRecord, Manifest, canonical
from drafter_contracts.manifest import digest as digest_of
from drafter_registry.errors import DigestError, IntegrityError, InvalidError, NotFoundError

BIG = bytes(range(256)) * 8192
FILES = {"config.json": b'{"a": 1}', "model.safetensors": BIG, "sub/tokenizer.json": b"{}", "empty.txt": b""}


class Registry:
    """A registry that gives files, as a test wants them given; keeps (path, start) of each request."""

    name = "a registry"

    def __init__(self, files=FILES):
        self.files = dict(files)
        self.asked = []
        self.give = lambda path, data, start: iter([data[start:]])

    def stream_file(self, reference, path, start):
        self.asked.append((path, start))
        return self.give(path, self.files[path], start)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_blobs, "_FIRST_WAIT", 0.0)
    return tmp_path / "cache"


def listed(files=FILES, version="1.0", **more):
    records = [
        FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest(), **more)
        for path, data in sorted(files.items())
    ]
    return Manifest(schema=SCHEMA, name="tiny", version=version, files=tuple(records))


def pull(registry, manifest=None, **more):
    manifest = manifest or listed(registry.files)
    return cache.ensure(registry, "tiny", digest_of(manifest), manifest, **more)


def content(directory):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = file.read()
    return found


def leftovers(root):
    return [path for path in content(root) if path.endswith((".part", ".tmp")) or ".old" in path]


def cut_after(count, times):
    """Gives so many bytes, then loses the connection; that many times."""
    left = [times]

    def give(path, data, start):
        if path != "model.safetensors" or not left[0]:
            yield data[start:]
            return
        left[0] -= 1
        yield data[start : start + count]
        raise UnreachableError("cut")

    return give


def test_a_directory_holds_the_files_and_the_manifest(root):
    registry, told = Registry(), []
    directory = pull(registry, tell=told.append)
    assert content(directory) == FILES | {FILE_NAME: canonical(listed())}
    assert sum(told) == sum(map(len, FILES.values()))
    assert directory.startswith(str(root))


def test_what_is_here_is_not_fetched_again():
    registry = Registry()
    directory = pull(registry)
    assert cache.missing("tiny", digest_of(listed()), listed()) == cache.Missing(0, 0)
    registry.asked.clear()
    assert pull(registry) == directory
    assert not registry.asked


def test_files_that_two_versions_share_are_fetched_once():
    registry = Registry()
    pull(registry)
    registry.asked.clear()
    registry.files["config.json"] = b'{"a": 2}'
    second = listed(registry.files, "1.1")
    assert cache.missing("tiny", digest_of(second), second) == cache.Missing(1, 8)
    pull(registry, second)
    assert registry.asked == [("config.json", 0)]


def test_a_cut_download_goes_on_where_it_was():
    registry = Registry()
    registry.give = cut_after(700_000, 2)
    assert content(pull(registry))["model.safetensors"] == BIG
    assert [start for path, start in registry.asked if path == "model.safetensors"] == [0, 700_000, 1_400_000]


def test_what_came_before_a_failure_is_used_by_the_next_try(root):
    registry, told = Registry(), []
    registry.give = cut_after(0, 100)
    first = cut_after(700_000, 1)
    registry.give = lambda path, data, start: (first if start == 0 else cut_after(0, 1))(path, data, start)
    with pytest.raises(UnreachableError):
        pull(registry)
    assert not os.path.exists(cache._directory(str(root), "tiny", digest_of(listed()), None))
    registry.asked.clear()
    registry.give = cut_after(0, 0)
    assert content(pull(registry, tell=told.append))["model.safetensors"] == BIG
    assert ("model.safetensors", 700_000) in registry.asked


def test_a_short_answer_is_a_cut():
    registry = Registry()
    registry.give = lambda path, data, start: iter([data[start : start + 500_000]])
    assert content(pull(registry))["model.safetensors"] == BIG


@pytest.mark.parametrize("wrong", [
    lambda data: data[:-1] + b"x",
    lambda data: data + b"x",
    lambda data: bytes(len(data)),
], ids=["a flipped byte", "a byte more", "zeros"])  # fmt: skip
def test_bytes_that_are_not_the_manifest_s_are_refused_and_not_kept(root, wrong):
    registry = Registry()
    registry.give = lambda path, data, start: iter([(wrong(data) if path == "model.safetensors" else data)[start:]])
    with pytest.raises(DigestError):
        pull(registry)
    assert not [path for path in leftovers(root) if hashlib.sha256(BIG).hexdigest() in path]
    assert not any(data != BIG and len(data) >= len(BIG) - 1 for data in content(root).values())
    assert cache.find_pulled("tiny@1.0") is None


def test_a_server_that_never_ends_is_stopped_at_the_size_that_the_manifest_names():
    registry, given = Registry({"model.safetensors": BIG}), []

    def give(path, data, start):
        while len(given) < 100:
            given.append(1)
            yield bytes(1 << 20)

    registry.give = give
    with pytest.raises(DigestError, match="more bytes came"):
        pull(registry)
    assert len(given) == 3


def test_a_damaged_part_is_not_the_end(root):
    registry = Registry()
    part = root / "partial" / (hashlib.sha256(BIG).hexdigest() + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)
    assert content(pull(registry))["model.safetensors"] == BIG
    assert not leftovers(root)


def test_a_part_that_is_too_long_is_not_the_end(root):
    part = root / "partial" / (hashlib.sha256(BIG).hexdigest() + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(BIG + b"more")
    assert content(pull(Registry()))["model.safetensors"] == BIG


def test_a_refusal_of_one_file_ends_all_and_leaves_no_directory(root):
    registry = Registry()

    def give(path, data, start):
        if path == "config.json":
            raise NotFoundError("gone")
        yield data[start:]

    registry.give = give
    with pytest.raises(NotFoundError, match="gone"):
        pull(registry)
    assert not [path for path in content(root) if path.endswith(FILE_NAME)]


def test_a_file_that_somebody_wrote_into_is_fetched_again():
    registry = Registry()
    directory = pull(registry)
    path = os.path.join(directory, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"other")
    registry.asked.clear()
    assert cache.find_pulled("tiny@1.0") is None
    assert content(pull(registry))["model.safetensors"] == BIG
    assert registry.asked == [("model.safetensors", 0)]


def test_a_file_that_was_only_touched_is_believed_after_a_look():
    registry = Registry()
    directory = pull(registry)
    os.utime(os.path.join(directory, "model.safetensors"))
    registry.asked.clear()
    assert pull(registry) == directory
    assert not registry.asked


@pytest.mark.parametrize("harm", ["remove", "link", "manifest"])
def test_a_damaged_directory_is_made_again(tmp_path, harm):
    registry = Registry()
    directory = pull(registry)
    path = os.path.join(directory, FILE_NAME if harm == "manifest" else "config.json")
    os.remove(path)
    if harm == "link":
        (tmp_path / "other").write_bytes(FILES["config.json"])
        os.symlink(tmp_path / "other", path)
    assert pull(registry) == directory
    assert content(directory) == FILES | {FILE_NAME: canonical(listed())}
    assert not os.path.islink(path)


@pytest.mark.parametrize("path", [
    "../evil", "/etc/evil", "a/../../evil", "a//b", ".hidden", "a/.git/x", "a\\b", "a\0b", "con", "ä", "a/" * 20 + "b",
    FILE_NAME, FILE_NAME.upper(),
])  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_fetched(root, path):
    record = FileRecord(path=path, size=1, sha256="0" * 64)
    manifest = Manifest(schema=SCHEMA, name="tiny", version="1.0", files=(record,))
    registry = Registry()
    with pytest.raises(InvalidError):
        cache.ensure(registry, "tiny", digest_of(manifest), manifest)
    assert not registry.asked
    assert not content(root)


@pytest.mark.parametrize("name", ["../tiny", "/tiny", "Tiny", "", ".."])
def test_a_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(InvalidError):
        cache.ensure(Registry(), name, digest_of(listed()), listed())
    with pytest.raises(InvalidError):
        cache.find_pulled(f"{name}@1.0")


def test_a_manifest_of_another_digest_is_refused():
    with pytest.raises(IntegrityError):
        cache.ensure(Registry(), "tiny", "sha256:" + "0" * 64, listed())


def test_only_the_wanted_files_are_fetched():
    registry, manifest = Registry(), listed()
    wanted = tuple(file for file in manifest.files if file.path == "config.json")
    directory = pull(registry, manifest, files=wanted)
    assert set(content(directory)) == {"config.json", FILE_NAME}
    assert registry.asked == [("config.json", 0)]
    assert cache.find_pulled("tiny@1.0") is None, "a part is not the drafter"


def test_what_was_pulled_is_found_by_version_and_digest_but_not_by_alias():
    directory, manifest = pull(Registry()), listed()
    assert cache.find_pulled("tiny@1.0") == directory
    assert cache.find_pulled(f"tiny@{digest_of(manifest)}") == directory
    assert cache.find_pulled("tiny@prod") is None
    assert cache.find_pulled("tiny@1.1") is None
    assert cache.find_pulled("other@1.0") is None


def test_one_version_of_two_registries_is_not_guessed():
    pull(Registry())
    other = Registry(FILES | {"config.json": b"other"})
    pull(other)
    assert cache.find_pulled("tiny@1.0") is None
    assert cache.find_pulled(f"tiny@{digest_of(listed())}") is not None


def test_two_at_once_fetch_each_byte_once():
    registry = Registry()
    both = threading.Barrier(2)
    results = []

    def one():
        both.wait()
        results.append(pull(registry))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(results)) == 1
    assert len(results) == 2
    assert sorted(registry.asked) == sorted((path, 0) for path, data in FILES.items() if data)


@pytest.mark.parametrize("elsewhere", ["http://x/y", "hf://o/r@main/x", "hf://o/r@" + "0" * 40 + "/../x", "file:///x"])
def test_a_place_that_is_no_commit_of_the_hub_is_not_fetched_from(elsewhere):
    manifest = listed({"model.safetensors": BIG}, elsewhere=elsewhere)
    with pytest.raises(UsageError, match="no place that files are fetched from"):
        cache.ensure(Registry(), "tiny", digest_of(manifest), manifest)


def test_a_file_of_the_hub_comes_from_its_cache_and_is_verified(tmp_path, monkeypatch):
    commit = "0" * 40
    snapshot = tmp_path / "hub" / "models--o--r" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(BIG)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    manifest = listed({"model.safetensors": BIG}, elsewhere=f"hf://o/r@{commit}/model.safetensors")
    registry = Registry()
    directory = cache.ensure(registry, "tiny", digest_of(manifest), manifest)
    assert content(directory)["model.safetensors"] == BIG
    assert not registry.asked
    other = listed({"model.safetensors": BIG[:-1] + b"x"}, elsewhere=f"hf://o/r@{commit}/model.safetensors")
    with pytest.raises(DigestError):
        cache.ensure(registry, "tiny", digest_of(other), other)


@pytest.mark.parametrize("same", [True, False])
def test_a_file_that_lies_elsewhere_begins_with_the_header_that_was_judged(tmp_path, monkeypatch, same):
    """Only whoever has the whole file sees that the two digests of a manifest belong together."""
    commit, header = "0" * 40, b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
    head = len(header).to_bytes(8, "little") + header
    snapshot = tmp_path / "hub" / "models--o--r" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    data = (head if same else head.replace(b'"a"', b'"b"')) + b"1234"
    (snapshot / "model.safetensors").write_bytes(data)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    judged = {
        "elsewhere": f"hf://o/r@{commit}/model.safetensors",
        "header_sha256": hashlib.sha256(head).hexdigest(),
    }
    manifest = listed({"model.safetensors": data}, **judged)
    if same:
        assert content(pull(Registry(), manifest))["model.safetensors"] == data
        return
    with pytest.raises(DigestError, match=r"headers that its files do not have: model\.safetensors"):
        pull(Registry(), manifest)
    assert cache.find_pulled("tiny@1.0") is None


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
from drafter_cli.cache import drafters as cache
from drafter_cli.errors import UsageError
from drafter_contracts.manifest import decode, digest
class Registry:
    name = ""
    def stream_file(self, reference, path, start):
        yield bytes(2_000_000)[start:]
manifest = decode(sys.stdin.buffer.read())
try:
    cache.ensure(Registry(), "tiny", digest(manifest), manifest)
except UsageError as error:
    print(error.message, error.hint)
"""


def test_a_full_disk_is_told_and_leaves_nothing_behind(root):
    manifest = listed({"model.safetensors": bytes(2_000_000)})
    done = subprocess.run(
        [sys.executable, "-c", FULL], input=canonical(manifest), capture_output=True, check=False, timeout=60
    )
    assert b"no room left" in done.stdout, done.stderr
    assert b"DRAFTERS_CACHE" in done.stdout
    assert not leftovers(root)
    assert not [path for path in content(root) if path.endswith(FILE_NAME)]


def test_a_cache_that_cannot_be_written_is_told(root, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UsageError, match="cannot be written"):
        pull(Registry())


def test_a_directory_with_a_broken_manifest_is_not_found(root):
    directory = pull(Registry())
    with open(os.path.join(directory, FILE_NAME), "wb") as file:
        file.write(b'{"schema": "other"}')
    assert cache.find_pulled("tiny@1.0") is None


@pytest.mark.parametrize("name", ["older.safetensors", "model.safetensors.index.json", "pytorch_model.bin"])
def test_weights_that_came_into_a_pulled_directory_are_gone_before_it_is_used(name):
    directory = pull(Registry())
    whole = content(directory)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(b"{}")
    assert cache.find_pulled("tiny@1.0") is None
    assert pull(Registry()) == directory
    assert content(directory) == whole


def test_a_blob_that_was_changed_behind_the_back_of_the_cache_is_fetched_anew_after_a_copy_failed(tmp_path):
    directory = pull(Registry())
    path = os.path.join(directory, "model.safetensors")
    status = os.stat(path)
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DigestError, match="damaged"):
        placing.place(directory, str(tmp_path / "mine"), listed().files)
    placing.place(pull(Registry()), str(tmp_path / "mine"), listed().files)
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == BIG
