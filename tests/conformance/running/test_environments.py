"""The cache of environments: built once, by one process, and never seen half-built."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import zipfile

import environments
import plan
import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "CACHE", str(tmp_path / "engines"))
    monkeypatch.setattr(environments, "WHEELS", str(tmp_path / "wheels"))
    return tmp_path


def made(folder):
    with open(os.path.join(folder, "file"), "x", encoding="utf-8") as file:
        file.write("whole")


def test_a_folder_is_made_once(cache):
    calls = []
    places = {environments.once("a", lambda folder: (calls.append(folder), made(folder))) for _ in range(2)}
    assert len(calls) == len(places) == 1
    assert os.listdir(places.pop()) == ["file"]


def test_what_failed_half_way_is_not_there(cache):
    def fails(folder):
        made(folder)
        raise environments.EnvironmentUnavailable("no network")

    with pytest.raises(environments.EnvironmentUnavailable, match="no network"):
        environments.once("a", fails)
    assert [name for name in os.listdir(cache / "engines") if not name.endswith(".lock")] == []
    assert os.path.isfile(os.path.join(environments.once("a", made), "file"))


TOGETHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import environments
open(os.path.join(sys.argv[2], f"ready-{os.getpid()}"), "x").close()
while sum(name.startswith("ready-") for name in os.listdir(sys.argv[2])) < 4:
    pass
environments.once("a", lambda folder: open(os.path.join(sys.argv[2], "made"), "x").close())
"""


def test_processes_that_start_together_make_it_once(cache):
    """The file is opened with "x": whoever made it a second time would fail."""
    variables = os.environ | {"DRAFTERS_ENGINE_ENVS": str(cache / "engines")}
    command = [sys.executable, "-c", TOGETHER, environments.HERE, str(cache)]
    processes = [subprocess.Popen(command, env=variables) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4


def test_a_wheel_is_unpacked_and_an_absent_one_is_a_reason(cache):
    os.makedirs(cache / "wheels")
    with zipfile.ZipFile(cache / "wheels" / "sglang-0.5.9-py3-none-any.whl", "w") as archive:
        archive.writestr("sglang/version.py", "")
    assert os.path.isfile(os.path.join(environments.unpacked("0.5.9"), "sglang", "version.py"))
    with pytest.raises(environments.EnvironmentUnavailable, match=re.escape("sglang 0.5.8 is not in the wheel cache")):
        environments.unpacked("0.5.8")


@pytest.mark.parametrize("release", plan.RELEASES)
def test_every_set_that_a_release_needs_is_declared(release):
    for name in environments.sets_of(release):
        assert os.path.isfile(os.path.join(environments.REQUIREMENTS, f"{name}.txt"))


def test_no_set_is_declared_for_what_came_before():
    with pytest.raises(environments.EnvironmentUnavailable, match="no package set is declared"):
        environments.sets_of("0.4.4")


def test_every_package_is_pinned():
    files = glob.glob(os.path.join(environments.REQUIREMENTS, "*.txt"))
    assert len(files) > 5
    for path in files:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if not line.startswith("#")]
        assert lines
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), path


def test_a_process_gets_nothing_of_the_callers_environment_but_where_programs_are(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    found = environments.Environment("0.5.9", "python", {"HOME": "/cache"}, ("/a", "/b")).environ()
    assert "HF_TOKEN" not in found
    assert (found["HOME"], found["PYTHONPATH"]) == ("/cache", os.pathsep.join(["/a", "/b"]))


def test_lists_of_ids_are_the_same_in_every_session_and_of_every_kind():
    lists = plan.id_lists("0.5.9", "llama")
    assert lists == plan.id_lists("0.5.9", "llama")
    assert lists != plan.id_lists("0.5.9", "qwen2")
    given = [ids for ids in lists if ids]
    n = plan.LAYERS
    assert None in lists
    assert [] in lists
    for kind in (-1, 0, n - 1, n, n + 1):
        assert any(kind in ids for ids in given)
    assert any(len(set(ids)) < len(ids) for ids in given)
    assert any(ids != sorted(ids) for ids in given)
