"""Released wheels of vLLM: read in place where they are in the cache, else downloaded once; nothing is installed."""

from __future__ import annotations

import fnmatch
import functools
import os
import subprocess
import sys
import tempfile

import pytest

from drafter_contracts.engines.vllm.store import releases
from drafter_contracts.engines.vllm.tree import open_release

_TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(_TESTS, "contracts", "launch"))  # for vllm_bench: files are imported one by one

BASE = os.environ.get("DRAFTERS_WHEEL_CACHE") or os.path.expanduser("~/.cache/drafter-registry/wheels")
CACHE = os.path.join(BASE, "vllm")


def _cached(release):
    names = os.listdir(CACHE) if os.path.isdir(CACHE) else []
    found = sorted(fnmatch.filter(names, f"vllm-{release}-*.whl"))
    return os.path.join(CACHE, found[0]) if found else ""


@pytest.fixture(scope="session")
def vllm_wheel():
    """A function from a release to the path of its wheel."""

    def get(release):
        if not _cached(release) and release != releases()[-1] and not os.environ.get("DRAFTERS_ALL_RELEASES"):
            pytest.skip(f"the wheel of vllm {release} (0.4 GB) is not in {CACHE}; DRAFTERS_ALL_RELEASES=1 fetches it")
        if not _cached(release):
            os.makedirs(CACHE, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:  # other processes see whole wheels only
                command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
                command += ["--platform", "manylinux1_x86_64", "--platform", "manylinux_2_31_x86_64"]
                command += ["--platform", "manylinux_2_28_x86_64", "--python-version", "3.12", "--dest", folder]
                done = subprocess.run([*command, f"vllm=={release}"], capture_output=True, text=True, check=False)
                if done.returncode:
                    pytest.skip(f"the wheel of vllm {release} cannot be downloaded: {done.stderr.strip()[-300:]}")
                for name in os.listdir(folder):
                    os.replace(os.path.join(folder, name), os.path.join(CACHE, name))
        return _cached(release)

    return get


@pytest.fixture(scope="session")
def sources_of(vllm_wheel):
    """A function from a release to the text of its files."""
    return functools.cache(lambda release: open_release(vllm_wheel(release)).sources())
