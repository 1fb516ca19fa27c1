"""A registry of three versions, and what runs commands on it: alone, in this process, or against a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial

import pytest
from small_drafter import CONFIG, TARGET, TENSORS
from small_registry import NAME, VERSIONS, serving, started

from drafter_cli import main
from drafter_contracts.checkpoint.skeleton import write_skeleton


@pytest.fixture(scope="package")
def published(command, tmp_path_factory):
    """A registry's directory with three versions and an alias, published by the command itself."""
    folder = tmp_path_factory.mktemp("published")
    drafter, target, data = (str(folder / name) for name in ("drafter", "target", "data"))
    write_skeleton(drafter, CONFIG, TENSORS)
    write_skeleton(target, TARGET, {})
    variables = os.environ | {"DRAFTERS_DATA": data, "HOME": str(folder), "DRAFTERS_CACHE": str(folder / "cache")}
    for version, ids in VERSIONS.items():
        said = ("--name", NAME, "--version", version, "--target", target, "--target-name", "org/kimi")
        argv = [command, "publish", drafter, *said, "--output-ids", ids, "--steps", version[0]]
        subprocess.run(argv, env=variables, check=True, capture_output=True, timeout=60)
    alias = [command, "alias", "set", f"{NAME}@prod", "1.0.0", "--why", "first"]
    subprocess.run(alias, env=variables, check=True, capture_output=True, timeout=60)
    return data


@pytest.fixture
def data(published, tmp_path):
    """A copy of it, this test's own."""
    return shutil.copytree(published, tmp_path / "data")


@pytest.fixture
def local(drafters, data, tmp_path):
    """Runs a command on it without a server."""
    home = {"HOME": str(tmp_path), "DRAFTERS_DATA": str(data), "DRAFTERS_URL": None, "DRAFTERS_TOKEN": None}

    def run(*arguments, variables=None, **keywords):
        return drafters(*arguments, variables=home | (variables or {}), **keywords)

    return run


@pytest.fixture
def inside(published, tmp_path, monkeypatch, capsys):
    """Runs a command in this process, on what was published: for lines that change nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRAFTERS_DATA", published)
    for name in ("DRAFTERS_URL", "DRAFTERS_TOKEN", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        code = main.main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture(scope="package", params=["embedded", "server"])
def look(request, command, published, tmp_path_factory):
    """Runs a command that changes nothing, in this process or through a server."""
    folder = tmp_path_factory.mktemp("look")
    home = {"HOME": str(folder), "DRAFTERS_DATA": published, "DRAFTERS_URL": None, "DRAFTERS_TOKEN": None}
    if request.param == "embedded":
        yield lambda *arguments: started(command, *arguments, variables=home)
        return
    copy = shutil.copytree(published, folder / "data")
    with serving(command, partial(started, command), copy, folder) as run:
        yield run
