"""Hashes of an installation's files: what is remembered, and when a file is read again."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest

from drafter_contracts.engines.local import contents
from drafter_contracts.engines.local.contents import DirectoryContents, WheelContents
from drafter_contracts.engines.scan.tree import open_tree


@pytest.fixture
def read(monkeypatch):
    """Names of the files that are read."""
    names = []
    inner = contents._hash

    def hashed(path):
        names.append(os.path.basename(path))
        return inner(path)

    monkeypatch.setattr(contents, "_hash", hashed)
    return names


def look(engine, folder):
    """All digests, as a process that starts anew would see them."""
    fresh = DirectoryContents(engine.root, folder)
    found = fresh.everything()
    assert not fresh.remember()
    return found


def test_a_second_process_reads_no_file(engine, folder, read, old_clock):
    first = look(engine, folder)
    assert sorted(read) == ["attention.py", "helper.py", "llama.py", "serve.py", "server_args.py", "version.py"]
    read.clear()
    assert look(engine, folder) == first
    assert read == []


def test_a_file_put_back_with_its_old_date_and_size_is_read_again(engine, folder, read, old_clock):
    first = look(engine, folder)
    status = os.stat(engine.path("server_args.py"))
    engine.write("server_args.py", "class ServerArgz: ...\n")
    os.utime(engine.path("server_args.py"), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert os.stat(engine.path("server_args.py")).st_size == status.st_size
    read.clear()
    assert look(engine, folder)["server_args.py"] != first["server_args.py"]
    assert read == ["server_args.py"]


def test_what_was_written_just_now_is_not_remembered(engine, folder, read):
    look(engine, folder)
    read.clear()
    look(engine, folder)
    assert len(read) == 6, "their change time is younger than two seconds"


def test_new_and_removed_files_are_seen(engine, folder, old_clock):
    look(engine, folder)
    engine.write("models/deep/new.py", "x = 1\n")
    os.remove(engine.path("models/helper.py"))
    found = look(engine, folder)
    assert "models/deep/new.py" in found
    assert "models/helper.py" not in found


@pytest.mark.parametrize("spoil", ["flip", "cut", "others", "another"])
def test_a_memo_that_cannot_be_trusted_is_not_used(engine, folder, read, old_clock, spoil):
    look(engine, folder)
    (path,) = (Path(one) for one in glob.glob(f"{folder}/hashes/*") if engine.root in Path(one).read_text())
    data = path.read_bytes()
    if spoil == "flip":
        digest = DirectoryContents(engine.root, "").digests(["server_args.py"])["server_args.py"].encode()
        assert digest in data
        data = data.replace(digest, digest[::-1])
    elif spoil == "cut":
        data = data[:-10]
    elif spoil == "another":
        body = data.partition(b"\n")[2].replace(b"site-packages", b"kite-packages")
        from zlib import crc32

        data = b"%08x\n" % crc32(body) + body
    path.write_bytes(data)
    if spoil == "others":
        path.chmod(0o622)
    read.clear()
    look(engine, folder)
    assert len(read) == 6


def test_a_wheel_is_told_by_its_contents_too(engine, tmp_path, folder):
    import zipfile

    wheel = str(tmp_path / "sglang-9.9.9-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("models/llama.py", "models/helper.py", "server_args.py", "../version.py"):
            archive.write(engine.path(name), os.path.normpath(f"sglang/srt/{name}"))
    packed, here = WheelContents(open_tree(wheel)), DirectoryContents(engine.root, "")
    names = ("models/llama.py", "server_args.py", "absent.py")
    assert packed.digests(names) == here.digests(names)
    assert packed.model_files() == here.model_files() == {"models/helper.py": False, "models/llama.py": True}


def test_everything_holds_all_that_a_scan_can_read(engine):
    tree = open_tree(engine.package)
    assert set(tree.files()) <= set(DirectoryContents(engine.root, "").everything())
    assert "../cli/serve.py" in tree
