"""Whose profile an installation gets: its release's where the files that decide are the same, else its own."""

from __future__ import annotations

import glob
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from drafter_contracts.engines.local import installation, kept
from drafter_contracts.errors import ScanError

PATCHED = "class Llama: embedding = True\nEntryClass = Llama\n"


def test_the_same_files_have_the_release_s_profile_unscanned(engine):
    found = engine.find()
    assert (found.source, found.profile.release, engine.scans, engine.told) == ("added", "9.9.9", [], [])
    assert "the 2 files that it was derived from are the same" in found.told


def test_a_changed_file_is_scanned_once_and_named(engine):
    engine.write("models/llama.py", PATCHED)
    first, second = engine.find(), engine.find()
    assert engine.scans == [engine.package]
    assert first.source == second.source == "derived"
    assert first.profile == second.profile
    assert "1 file differs from the 9.9.9 release: models/llama.py" in first.told
    assert "kept from an earlier scan" in second.told
    assert len(engine.told) == 1
    assert "may take some minutes" in engine.told[0]
    engine.write("models/llama.py", PATCHED + "# and again\n")
    engine.find()
    assert len(engine.scans) == 2


def test_what_was_put_back_has_the_release_s_profile_again(engine):
    before = engine.read("models/llama.py")
    engine.write("models/llama.py", PATCHED)
    engine.find()
    engine.write("models/llama.py", before)
    assert engine.find().source == "added"
    engine.write("models/llama.py", PATCHED)
    assert engine.find().source == "derived"
    assert len(engine.scans) == 1, "the patched files are known already"


def test_a_missing_file_counts_as_another(engine):
    os.remove(engine.path("server_args.py"))
    assert "server_args.py (missing)" in engine.find().told


def test_a_new_model_file_counts_where_it_registers_a_class(engine):
    engine.write("models/notes.py", "# nothing\n")
    engine.write("models/inner/more.py", "entry = module.EntryClass\n")
    assert engine.find().source == "added"
    engine.write("models/inner/mine.py", "try:\n    EntryClass = [object]\nexcept NameError:\n    pass\n")
    assert "models/inner/mine.py (new)" in engine.find().told


@pytest.mark.parametrize(
    "shadow", ["server_args/__init__.py", "models/llama/__init__.py", "server_args.cpython-311-x86_64-linux-gnu.so"]
)
def test_what_is_imported_in_place_of_a_file_that_decides_leaves_it_open(engine, shadow):
    engine.write(shadow, "")
    found = engine.find()
    assert (found.profile, engine.scans) == (None, [])
    assert shadow.removesuffix("__init__.py") in found.problem
    os.remove(engine.path(shadow))
    assert engine.find().source == "added"


def test_a_folder_without_an_init_file_stands_in_front_of_nothing(engine):
    engine.write("server_args/notes.txt", "")
    assert engine.find().source == "added"


def test_a_file_that_the_profile_does_not_rest_on_changes_nothing(engine):
    engine.write("kernels/attention.py", "fast = False\n")
    assert engine.find().source == "added"


@pytest.mark.parametrize("name", ["kernels/attention.py", "kernels/new.py", "../cli/serve.py", "../version.py"])
def test_a_derived_profile_holds_for_these_very_files_only(engine, name):
    engine.write("models/llama.py", PATCHED)
    engine.find()
    engine.write(name, "changed = 1\n")
    engine.find()
    assert len(engine.scans) == 2


def test_the_same_files_under_another_version_are_another_profile(engine):
    found = engine.find("9.9.10.dev3+gabc")
    assert found.profile.release == "9.9.10.dev3+gabc"
    assert "no profile of 9.9.10.dev3+gabc is shipped" in found.told
    engine.find("9.9.11")
    assert len(engine.scans) == 2


def test_an_installation_without_a_version_is_scanned_and_has_no_release_s_name(engine):
    found = engine.find("")
    assert found.profile.release == installation.UNVERSIONED
    assert "its version cannot be read" in found.told


def test_where_nothing_may_be_scanned_the_files_are_named(engine):
    engine.write("models/llama.py", PATCHED)
    found = engine.find(may_scan=False)
    assert found.profile is None
    assert "models/llama.py" in found.problem
    assert found.remedy == ("Leave out --no-scan, or say --engine sglang==9.9.9 if it captures as that does.")
    assert "--engine sglang==VERSION" in engine.find("9.9.10", may_scan=False).remedy
    assert engine.scans == []
    engine.find()
    assert engine.find(may_scan=False).source == "derived", "what is known need not be scanned"


def test_a_scan_that_fails_leaves_no_profile_and_says_why(engine, monkeypatch):
    def fail(path, release):
        raise ScanError("the release tried something forbidden", where="probe targets", actual="os.system")

    monkeypatch.setattr(installation, "derive", fail)
    engine.write("models/llama.py", PATCHED)
    found = engine.find()
    assert found.profile is None
    assert "tried something forbidden" in found.problem
    assert "os.system" in found.problem
    assert "--engine sglang==9.9.9" in found.remedy


def test_what_changes_during_the_scan_is_not_kept(engine, monkeypatch, folder):
    inner = installation.derive

    def derive(path, release):
        engine.write("server_args.py", "class ServerArgs: other = 1\n")
        return inner(path, release)

    monkeypatch.setattr(installation, "derive", derive)
    engine.write("models/llama.py", PATCHED)
    assert "changed while it was scanned" in engine.find().problem
    assert glob.glob(f"{folder}/installed/*") == []


@pytest.mark.parametrize("spoil", ["cut", "flip", "empty", "others", "other key", "folder"])
def test_a_kept_profile_that_cannot_be_trusted_is_derived_again(engine, folder, spoil):
    engine.write("models/llama.py", PATCHED)
    engine.find()
    (path,) = glob.glob(f"{folder}/installed/*")
    data = Path(path).read_bytes()
    if spoil == "cut":
        data = data[:-1000]
    elif spoil == "flip":
        data = data.replace(b'"add":1', b'"add":0', 1)
    elif spoil == "empty":
        data = b""
    elif spoil == "other key":
        engine.write("kernels/new.py", "x = 1\n")
        engine.find()
        other = next(one for one in glob.glob(f"{folder}/installed/*") if one != path)
        data = Path(other).read_bytes()
        os.remove(engine.path("kernels/new.py"))
    Path(path).write_bytes(data)
    if spoil == "others":
        Path(path).chmod(0o622)
    if spoil == "folder":
        os.remove(path)
        os.mkdir(path)
    before = len(engine.scans)
    found = engine.find()
    assert found.source == "derived"
    assert len(engine.scans) == before + 1
    assert found.profile.sources, "a whole profile"


def test_any_change_of_the_scanner_is_another_scanner(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_OWN_CODE", str(tmp_path))
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "fit.py").write_text("x = 1\n")
    before = kept.scanner_digest("")
    assert kept.scanner_digest("") == before
    (tmp_path / "scan" / "fit.py").write_text("x = 2\n")
    changed = kept.scanner_digest("")
    (tmp_path / "scan" / "new.py").touch()
    assert len({before, changed, kept.scanner_digest("")}) == 3


def test_another_scanner_derives_again(engine, monkeypatch):
    engine.write("models/llama.py", PATCHED)
    engine.find()
    monkeypatch.setattr(kept, "scanner_digest", lambda _: "another")
    engine.find()
    assert len(engine.scans) == 2


def test_where_nothing_can_be_kept_the_scan_s_result_is_used_and_that_is_said(engine, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "file"))
    found = engine.find("9.9.10")
    assert found.source == "derived"
    assert "could not be kept" in engine.told[-1]


def test_without_a_home_nothing_is_kept(engine, monkeypatch):
    monkeypatch.delenv("DRAFTERS_CACHE")
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert engine.find("9.9.10").source == "derived"
    assert "no folder" in engine.told[-1]
    assert not os.path.exists("relative")


def test_an_installation_without_sources_has_no_profile(engine):
    shutil.rmtree(engine.root)
    assert "no source files" in engine.find().problem


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_source_that_is_no_file_is_not_waited_for(engine, make):
    os.remove(engine.path("server_args.py"))
    make(engine.path("server_args.py"))
    assert "server_args.py" in engine.find().problem


def test_linked_files_are_read_and_linked_folders_refused(engine):
    os.rename(engine.path("server_args.py"), engine.path("../../elsewhere.py"))
    os.symlink("../../elsewhere.py", engine.path("server_args.py"))
    assert engine.find().source == "added"
    os.symlink("/", engine.path("models/root"))
    assert "a link in place of a folder" in engine.find().problem


def _derive_slowly(package, log, start):
    """In a process of its own: one of several gates that start at once."""

    def derive(path, release):
        from msgspec.structs import replace

        from drafter_contracts.engines.store import load_profile

        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return replace(load_profile("sglang", "0.5.9"), release=release)

    installation.derive = derive
    start.wait()
    found = installation.profile_of_package(package, "9.9.10")
    os._exit(0 if found.source == "derived" else 1)


def test_gates_that_start_at_once_scan_once(engine, tmp_path):
    context = multiprocessing.get_context("fork")
    start = context.Event()
    log = tmp_path / "log"
    gates = [context.Process(target=_derive_slowly, args=(engine.package, str(log), start)) for _ in range(4)]
    for gate in gates:
        gate.start()
    start.set()
    for gate in gates:
        gate.join()
    assert [gate.exitcode for gate in gates] == [0] * 4
    assert len(log.read_text().splitlines()) == 1
