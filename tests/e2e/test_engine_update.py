"""`drafters engine update` with the real pip, whose index is a folder of small wheels. The scan answers at once."""

from __future__ import annotations

import json
import os
import zipfile

import pytest
from msgspec.structs import replace

from drafter_cli.engines import package_index
from drafter_cli.main import main
from drafter_contracts.engines.local import installation, kept
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.errors import ScanError

NEWEST = releases("sglang")[-1]


def wheel(folder, release, tag="py3-none-any"):
    """A wheel with one source file."""
    path = folder / f"sglang-{release}-{tag}.whl"
    about = f"sglang-{release}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/srt/models/llama.py", "EntryClass = object\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n")
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{about}/RECORD", "")
    return str(path)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The package index, and a place of its own for what is kept."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture(autouse=True)
def scanned(monkeypatch):
    """Releases that were scanned, in order."""
    found = []

    def derive(path, release):
        assert os.path.exists(path)
        found.append(release)
        return replace(load_profile("sglang", NEWEST), release=release)

    monkeypatch.setattr(installation, "derive", derive)
    monkeypatch.setattr(kept, "scanner_digest", lambda _: "this scanner")
    return found


def run(capsys, *argv):
    """Exit code, document (or text) on standard output, and standard error."""
    capsys.readouterr()
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in argv else out, err


def test_a_release_is_fetched_scanned_and_found_from_then_on(index, scanned, capsys):
    wheel(index, "7.0.1")
    assert run(capsys, "engine", "show", "7.0.1")[0] == 5
    code, document, err = run(capsys, "engine", "update", "7.0.1", "--json")
    assert (code, scanned) == (0, ["7.0.1"])
    assert document["added"] == [{"engine": "sglang", "release": "7.0.1", "from": "sglang-7.0.1-py3-none-any.whl"}]
    assert "fetching" in err
    assert "scanning" in err
    assert run(capsys, "engine", "show", "7.0.1")[0] == 0
    assert run(capsys, "engine", "diff", NEWEST, "sglang==7.0.1")[0] == 0
    listed = [line for line in run(capsys, "engine", "list")[1].splitlines() if line.startswith("sglang")]
    assert listed[-1] == "sglang==7.0.1  (added)"
    added = {"engine": "sglang", "release": "7.0.1", "source": "added"}
    assert added in run(capsys, "engine", "list", "--json")[1]
    assert run(capsys, "engine", "update", "7.0.1")[1] == "sglang==7.0.1 is added already\n"
    assert scanned == ["7.0.1"]


def test_without_a_release_all_newer_stable_ones_are_added(index, scanned, capsys):
    for release in ("7.0.2", "7.0.2.post1", "7.0.3rc1", "7.1.0.dev4", "0.1.0", NEWEST):
        wheel(index, release)
    code, out, _ = run(capsys, "engine", "update")
    assert (code, scanned) == (0, ["7.0.2", "7.0.2.post1"])
    assert [line.split(",")[0] for line in out.splitlines()] == ["added sglang==7.0.2", "added sglang==7.0.2.post1"]
    code, out, _ = run(capsys, "engine", "update")
    assert (code, len(scanned)) == (0, 2)
    assert "sglang==7.0.2.post1, is added already" in out


def test_a_wheel_for_another_machine_will_do(index, scanned, capsys):
    wheel(index, "0.1.0")
    wheel(index, "7.0.1", "cp310-cp310-manylinux_2_34_x86_64")
    assert run(capsys, "engine", "update", "7.0.1")[0] == 0
    assert scanned == ["7.0.1"]


def test_a_release_that_the_index_does_not_have_is_a_usage_error(index, capsys):
    wheel(index, "7.0.1")
    code, _, err = run(capsys, "engine", "update", "7.0.9")
    assert code == 2
    assert "7.0.9" in err


@pytest.mark.parametrize("argv", [["7.0.1"], []])
def test_an_index_that_does_not_answer_is_said_to_be_unreachable(index, capsys, argv):
    code, document, _ = run(capsys, "engine", "update", *argv, "--json")
    assert code == document["exit_code"] == 6
    assert document["error"]["code"] == "UNREACHABLE"
    assert "--from" in document["error"]["hint"]


def test_a_machine_without_pip_is_told_what_else_to_do(index, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = run(capsys, "engine", "update", "7.0.1")
    assert code == 2
    assert "--from FILE.whl" in err


def test_a_wheel_may_come_from_a_path(index, scanned, capsys, tmp_path):
    path = wheel(tmp_path, "7.0.1")
    code, document, _ = run(capsys, "engine", "update", "--from", path, "--json")
    assert (code, document["added"][0]["from"]) == (0, path)
    code, _, err = run(capsys, "engine", "update", "7.0.5", "--from", path)
    assert code == 2
    assert "is sglang 7.0.1, not 7.0.5" in err
    assert run(capsys, "engine", "update", "--from", "/nowhere.whl")[0] == 2


def test_a_shipped_release_is_neither_fetched_nor_replaced(index, scanned, capsys, tmp_path):
    assert run(capsys, "engine", "update", NEWEST)[1] == f"sglang=={NEWEST} is shipped already\n"
    code, _, err = run(capsys, "engine", "update", "--from", wheel(tmp_path, NEWEST))
    assert (code, scanned) == (2, [])
    assert "--engine" in err


def test_a_release_that_cannot_be_scanned_is_not_added(index, capsys, monkeypatch):
    def fail(path, release):
        raise ScanError("the release ran for more than 300 s")

    monkeypatch.setattr(installation, "derive", fail)
    wheel(index, "7.0.1")
    code, _, err = run(capsys, "engine", "update", "7.0.1")
    assert code == 2
    assert "300 s" in err
    assert "7.0.1" not in run(capsys, "engine", "list")[1]


def test_where_nothing_can_be_kept_nothing_is_added(index, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "file"))
    wheel(index, "7.0.1")
    code, _, err = run(capsys, "engine", "update", "7.0.1")
    assert code == 2
    assert "DRAFTERS_CACHE" in err


@pytest.mark.parametrize(
    ("version", "stable"),
    [("0.5.23", True), ("0.5.12.post1", True), ("0.5.0rc2", False), ("0.6.0.dev1", False), ("1.0.post1.dev2", False)],
)
def test_stable_releases_are_told_from_others(version, stable):
    assert package_index.is_stable(version) is stable
