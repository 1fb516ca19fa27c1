"""The real releases: wheels downloaded once into a cache, read in place, never installed."""

from __future__ import annotations

import fnmatch
import functools
import os
import subprocess
import sys
import tempfile

import pytest

from drafter_contracts.engines.scan.tree import open_tree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # for compared_releases: files are imported one by one

CACHE = os.environ.get("DRAFTERS_WHEEL_CACHE") or os.path.expanduser("~/.cache/drafter-registry/wheels")


def _cached(release):
    names = os.listdir(CACHE) if os.path.isdir(CACHE) else []
    found = sorted(fnmatch.filter(names, f"sglang-{release}-*.whl"))
    return os.path.join(CACHE, found[0]) if found else ""


@pytest.fixture(scope="session")
def wheel():
    """A function from a release to the path of its wheel."""

    def get(release):
        if not _cached(release):
            os.makedirs(CACHE, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:  # other processes see whole wheels only
                command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
                command += ["--platform", "manylinux_2_34_x86_64", "--python-version", "3.11", "--dest", folder]
                done = subprocess.run([*command, f"sglang=={release}"], capture_output=True, text=True, check=False)
                if done.returncode:
                    pytest.skip(f"the wheel of sglang {release} cannot be downloaded: {done.stderr.strip()[-300:]}")
                for name in os.listdir(folder):
                    os.replace(os.path.join(folder, name), os.path.join(CACHE, name))
        return _cached(release)

    return get


@pytest.fixture(scope="session")
def tree_of(wheel):
    """A function from a release to its opened source tree."""
    return functools.cache(lambda release: open_tree(wheel(release)))
