"""Prometheus itself: what is installed, or Debian's package, downloaded once into a cache and unpacked beside it."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
import yaml

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(os.path.dirname(_TESTS), "examples", "monitoring")
CACHE = os.environ.get("DRAFTERS_DEBIAN_CACHE") or os.path.expanduser("~/.cache/drafter-registry/debian")
PROGRAMS = ("promtool", "prometheus")


@pytest.fixture(scope="session")
def example():
    """A function from a file's name to its path in examples/monitoring."""
    return lambda name: os.path.join(EXAMPLES, name)


@pytest.fixture(scope="session")
def rules(example):
    """Every rule of the examples."""
    found = []
    for name in ("acceptance.rules.yml", "promises.rules.yml"):
        with open(example(name), encoding="utf-8") as file:
            found += [rule for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]
    return found


@pytest.fixture(scope="session")
def vocabulary():
    """The module that knows metric names."""
    path = os.path.join(_TESTS, "monitoring", "vocabulary.py")
    spec = importlib.util.spec_from_file_location("monitoring_vocabulary", path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def program():
    """A function from "promtool" or "prometheus" to its path; tests are skipped if it cannot be had, and say why."""
    installed = {name: shutil.which(name) for name in PROGRAMS}
    if all(installed.values()):
        return installed.__getitem__
    folder = os.path.join(_unpacked(_package()), "usr", "bin")
    return lambda name: os.path.join(folder, name)


@pytest.fixture(scope="session")
def promtool(program):
    """Runs `promtool ARGS...`."""

    def run(*arguments, **keywords):
        command = [program("promtool"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **keywords)

    return run


def _package():
    """Path of the package."""
    names = os.listdir(CACHE) if os.path.isdir(CACHE) else []
    found = sorted(fnmatch.filter(names, "prometheus_*.deb"))
    if found:
        return os.path.join(CACHE, found[-1])
    if not shutil.which("apt-get"):
        pytest.skip(f"Prometheus is neither installed nor in {CACHE}, and there is no apt-get to download it")
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:  # other processes see whole packages only
        command = ["apt-get", "download", "-q", "prometheus"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=300)
        got = fnmatch.filter(os.listdir(place), "prometheus_*.deb")
        if done.returncode or not got:
            pytest.skip(f"Debian's prometheus cannot be downloaded: {done.stderr.strip()[-300:]}")
        os.replace(os.path.join(place, got[0]), os.path.join(CACHE, got[0]))
        return os.path.join(CACHE, got[0])


def _unpacked(package):
    """The folder that holds a package's two programs."""
    folder = package.removesuffix(".deb")
    if os.path.isdir(folder):
        return folder
    if not shutil.which("dpkg-deb"):
        pytest.skip("there is no dpkg-deb to unpack Debian's prometheus")
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        subprocess.run(["dpkg-deb", "-x", package, place], check=True, timeout=120)
        kept = os.path.join(place, "kept")
        os.makedirs(os.path.join(kept, "usr", "bin"))
        for name in PROGRAMS:
            os.rename(os.path.join(place, "usr", "bin", name), os.path.join(kept, "usr", "bin", name))
        try:
            os.rename(kept, folder)
        except OSError:
            assert os.path.isdir(folder)  # another process was faster
    return folder
