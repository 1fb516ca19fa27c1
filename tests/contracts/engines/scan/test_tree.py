"""Opening a release: a directory, the package itself, a wheel; and what is none of them."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib

import pytest

from drafter_contracts import limits
from drafter_contracts.engines.scan.tree import open_tree
from drafter_contracts.errors import ScanError

FILES = {"models/llama.py": "EntryClass = None\n", "layers/__init__.py": "", "server_args.py": "# \u00e9\n"}


def unpacked(base, *, version="_version.py", text="__version__ = version = '0.5.23'\n"):
    for path, body in FILES.items():
        full = base / "sglang" / "srt" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(body, encoding="utf-8")
    (base / "sglang" / "srt" / "models" / "__pycache__").mkdir()
    (base / "sglang" / "srt" / "models" / "__pycache__" / "llama.py").write_text("never read")
    if version:
        (base / "sglang" / version).write_text(text)
    return base


def wheel(path, metadata="Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n"):
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in FILES.items():
            archive.writestr(f"sglang/srt/{name}", body)
        archive.writestr("sglang/lang/other.py", "not read")
        archive.writestr("sglang/srt/readme.txt", "not read")
        if metadata:
            archive.writestr("sglang-0.5.9.dist-info/METADATA", metadata)
    return str(path)


@pytest.mark.parametrize("inside", ["", "sglang"])
def test_a_directory_or_the_package_in_it(tmp_path, inside):
    tree = open_tree(os.path.join(str(unpacked(tmp_path)), inside))
    assert tree.release == "0.5.23"
    assert tree.files() == tuple(sorted(FILES))
    assert tree.read("server_args.py") == FILES["server_args.py"]
    assert tree.sha256("models/llama.py") == hashlib.sha256(FILES["models/llama.py"].encode()).hexdigest()
    assert "models/llama.py" in tree
    assert "models/__pycache__/llama.py" not in tree


def test_a_wheel_is_read_in_place(tmp_path):
    path = wheel(tmp_path / "sglang-0.5.9-py3-none-any.whl")
    tree = open_tree(path)
    assert tree.release == "0.5.9"
    assert tree.files() == tuple(sorted(FILES))
    assert sorted(os.listdir(tmp_path)) == ["sglang-0.5.9-py3-none-any.whl"]
    assert tree.sources(("models/",)) == {"models/llama.py": FILES["models/llama.py"]}


@pytest.mark.parametrize(
    ("name", "text", "release"),
    [
        ("version.py", '__version__ = "0.4.6.post5"\n', "0.4.6.post5"),
        ("_version.py", "__version__: str\nversion: str\n\n__version__ = version = '0.5.23'\n", "0.5.23"),
    ],
)
def test_the_version_is_read_as_text(tmp_path, name, text, release):
    assert open_tree(str(unpacked(tmp_path, version=name, text=text))).release == release


def test_metadata_beside_the_package_comes_first(tmp_path):
    base = unpacked(tmp_path)
    (base / "sglang-0.5.12.post1.dist-info").mkdir()
    (base / "sglang-0.5.12.post1.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.12.post1\n")
    assert open_tree(str(base)).release == "0.5.12.post1"


def test_without_a_version_there_is_no_profile(tmp_path):
    with pytest.raises(ScanError, match="version cannot be told"):
        open_tree(str(unpacked(tmp_path, version="version.py", text="import importlib.metadata\n")))
    with pytest.raises(ScanError, match="version cannot be told"):
        open_tree(wheel(tmp_path / "a.whl", metadata=""))


def test_what_is_no_release(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ScanError) as caught:
        open_tree(str(tmp_path / "empty"))
    assert caught.value.actual == "a directory without sglang/srt"
    with pytest.raises(ScanError, match="cannot be read as a wheel"):
        open_tree(str(tmp_path / "text"))
    with pytest.raises(ScanError) as caught:
        open_tree(str(tmp_path / "nothing"))
    assert caught.value.actual == "nothing there"
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("numpy/__init__.py", "")
    with pytest.raises(ScanError, match="without sglang/srt"):
        open_tree(str(tmp_path / "other.whl"))


def test_sizes_are_capped(tmp_path, monkeypatch):
    path = wheel(tmp_path / "a.whl")
    base = unpacked(tmp_path)
    monkeypatch.setattr(limits, "scan_file_max_bytes", 4)
    with pytest.raises(ScanError, match="too large"):
        open_tree(path)
    with pytest.raises(ScanError, match="too large"):
        open_tree(str(base))


def test_a_file_that_is_missing_or_not_text(tmp_path):
    base = unpacked(tmp_path)
    (base / "sglang" / "srt" / "latin.py").write_bytes(b"# \xe9\n")
    (base / "sglang" / "srt" / "marked.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    tree = open_tree(str(base))
    with pytest.raises(ScanError, match="no such file"):
        tree.read("models/other.py")
    with pytest.raises(ScanError, match="not UTF-8"):
        tree.read("latin.py")
    assert tree.read("marked.py") == "x = 1\n"


def test_a_link_out_of_the_release_is_not_followed(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 'nobody else may read this'\n")
    base = unpacked(tmp_path / "release")
    for place in ("srt/models/stolen.py", "cli/serve.py", "version.py"):
        link = base / "sglang" / place
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(secret)
        with pytest.raises(ScanError, match="leads out of the release") as caught:
            open_tree(str(base))
        assert caught.value.where == str(link)
        link.unlink()
    (base / "sglang" / "srt" / "models" / "alias.py").symlink_to("llama.py")
    assert open_tree(str(base)).read("models/alias.py") == FILES["models/llama.py"]


def test_a_linked_folder_is_not_left_out_silently(tmp_path):
    base = unpacked(tmp_path)
    (base / "sglang" / "srt" / "more").symlink_to(".")
    with pytest.raises(ScanError, match="link in place of a folder"):
        open_tree(str(base))


@pytest.mark.parametrize("place", ["srt/models/pipe.py", "launch_server.py", "version.py"])
def test_a_pipe_is_not_waited_for(tmp_path, place):
    base = unpacked(tmp_path)
    os.mkfifo(base / "sglang" / place)
    with pytest.raises(ScanError, match="not a regular file"):
        open_tree(str(base))


def test_a_file_name_that_is_not_text(tmp_path):
    base = unpacked(tmp_path)
    with open(os.fsencode(base / "sglang" / "srt") + b"/\xff.py", "wb"):
        pass
    with pytest.raises(ScanError, match="file name that is not UTF-8") as caught:
        open_tree(str(base))
    assert caught.value.where.isascii()


@pytest.mark.parametrize("version", ["0.5.9\x1b[2J", "../../0.5.9", "-o", "0.5 .9", "0" * 200])
def test_a_version_that_is_none(tmp_path, version):
    with pytest.raises(ScanError, match="version cannot be told"):
        open_tree(str(unpacked(tmp_path, text=f'__version__ = "{version}"\n')))


def test_a_release_has_a_size(tmp_path, monkeypatch):
    path, base = wheel(tmp_path / "a.whl"), str(unpacked(tmp_path))
    for name, value in (("scan_total_max_bytes", 16), ("scan_max_files", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, value)
            for origin in (path, base):
                with pytest.raises(ScanError, match="release too large"):
                    open_tree(origin)


def test_a_wheel_that_lies_about_a_size_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "scan_file_max_bytes", 1 << 16)
    bomb = bytes(1 << 22)
    path = tmp_path / "bomb.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sglang/srt/models/bomb.py", bomb)
    data = path.read_bytes()
    with pytest.raises(ScanError, match="too large"):
        open_tree(str(path))
    path.write_bytes(data.replace(len(bomb).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(ScanError, match="cannot be read as a wheel"):
        open_tree(str(path))


def test_a_damaged_wheel(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sglang/srt/models/a.py", "x = 1\n" * 100)
    packed = zlib.compress(b"x = 1\n" * 100, wbits=-15)
    assert packed in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(packed, b"\xff" * len(packed)))
    with pytest.raises(ScanError, match="cannot be read as a wheel"):
        open_tree(str(path))


@pytest.mark.parametrize("name", ["sglang/srt/../cli/serve.py", "sglang/srt//a.py", "sglang/srt/./a.py"])
def test_a_wheel_whose_names_say_something_else(tmp_path, name):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "")
    with pytest.raises(ScanError, match="no name"):
        open_tree(str(path))


def test_a_wheel_that_holds_a_file_twice(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/srt/models/a.py", "first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("sglang/srt/models/a.py", "second")
    with pytest.raises(ScanError, match="twice in this wheel"):
        open_tree(str(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_cannot_be_read_piecewise(tmp_path, method):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("sglang/srt/models/a.py", "")
    with pytest.raises(ScanError, match="unusual"):
        open_tree(str(path))
