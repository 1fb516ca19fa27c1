"""What is done on the files of a registry: gc, fsck, backup, restore and the schema."""

from __future__ import annotations

import json
import os

import pytest
from small_registry import NAME, VERSIONS, good, read


def blobs_of(data):
    return [os.path.join(folder, name) for folder, _, names in os.walk(data / "blobs") for name in names]


def test_gc_removes_what_no_version_names_once_it_is_old(local, data):
    good(local("alias", "rm", f"{NAME}@prod"))
    for version in VERSIONS:
        good(local("delete", f"{NAME}@{version}", "--why", "x", "--yes"))
    assert read(local("gc", "--json")).get("blobs_removed", []) == []
    dry = read(local("gc", "--dry-run", "--grace", "0", "--json"))
    assert len(dry["blobs_removed"]) == 2
    good(local("fsck"))
    wet = good(local("gc", "--grace", "0"))
    assert "removed 2 blobs" in wet.stdout
    assert "may have to start again" in wet.stderr
    assert "removed 0 blobs" in good(local("gc", "--grace", "0")).stdout


def test_gc_keeps_what_versions_name(local):
    good(local("delete", f"{NAME}@2.0.0", "--why", "x", "--yes"))
    report = read(local("gc", "--grace", "0", "--json"))
    assert (report.get("blobs_removed", []), report["blobs_live"]) == ([], 2)
    assert read(local("fsck", "--json"))["ok"] is True


def test_fsck_finds_a_flipped_bit(local, data):
    assert "everything agrees" in good(local("fsck")).stdout
    path = max(blobs_of(data), key=os.path.getsize)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"\x01")
    done = local("fsck", "--json")
    assert done.returncode == 7
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert all(problem["kind"] and problem["remedy"] for problem in report["problems"])
    table = local("fsck")
    assert (table.returncode, report["problems"][0]["kind"] in table.stdout) == (7, True)


def test_a_backup_becomes_a_registry_again(local, tmp_path):
    backup, restored = str(tmp_path / "backup"), str(tmp_path / "restored")
    assert read(local("backup", backup, "--json"))["backup"]["blobs"] == 2
    good(local("restore", backup, "--data", restored))
    there = {"DRAFTERS_DATA": restored}
    assert read(local("show", f"{NAME}@prod", "--json", variables=there)) == read(
        local("show", f"{NAME}@prod", "--json")
    )
    assert read(local("fsck", "--json", variables=there))["ok"] is True
    again = local("restore", backup, "--data", restored)
    assert (again.returncode, "not empty" in again.stderr) == (8, True)
    assert local("backup", backup).returncode == 8
    assert local("restore", str(tmp_path / "nothing"), "--data", str(tmp_path / "new")).returncode == 2


def test_the_schema_is_made_and_checked(local, tmp_path):
    new = {"DRAFTERS_DATA": str(tmp_path / "new")}
    missing = local("db", "check", variables=new)
    assert (missing.returncode, missing.stdout) == (6, "")
    assert not (tmp_path / "new").exists()
    assert len(read(local("db", "upgrade", "--json", variables=new))["run"]) >= 1
    assert read(local("db", "upgrade", "--json", variables=new))["run"] == []
    assert "this release's schema" in good(local("db", "check", variables=new)).stderr


@pytest.mark.parametrize(
    "words", [("gc",), ("fsck",), ("backup", "there"), ("restore", "there"), ("db", "upgrade"), ("db", "check")]
)
def test_a_command_on_files_does_not_guess_which_registry_is_meant(local, data, words, tmp_path):
    url = {"DRAFTERS_URL": "https://user:secret@registry.example"}
    done = local(*words, variables=url, cwd=tmp_path)
    assert done.returncode == 2
    assert "registry.example is a server (environment DRAFTERS_URL)" in done.stderr
    assert "--data DIR" in done.stderr
    assert "secret" not in done.stderr
    if words == ("fsck",):
        good(local(*words, "--data", data, variables=url))


@pytest.mark.parametrize("words", [("gc",), ("fsck",), ("backup", "there")])
def test_a_command_on_files_makes_no_registry(local, tmp_path, words):
    done = local(*words, variables={"DRAFTERS_DATA": str(tmp_path / "new")}, cwd=tmp_path)
    assert (done.returncode, "there is no registry" in done.stderr) == (6, True)
    assert not (tmp_path / "new").exists()
