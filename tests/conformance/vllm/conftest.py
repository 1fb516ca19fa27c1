"""Released wheels of vLLM: read in place where they are in the cache, else downloaded once; nothing is installed."""

from __future__ import annotations

import functools
import os
import sys

import pytest

from drafter_contracts.engines.vllm.store import releases
from drafter_contracts.engines.vllm.tree import open_release

_TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(_TESTS, "conformance"), os.path.join(_TESTS, "contracts", "launch")]  # imported one by one

from release_wheels import CACHE, cached, fetched  # noqa: E402 - in the folder above

FOLDER = os.path.join(CACHE, "vllm")
PLATFORMS = ("manylinux1_x86_64", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64")


@pytest.fixture(scope="session")
def vllm_wheel():
    """A function from a release to the path of its wheel; only the newest is downloaded unasked."""

    def get(release):
        wanted = release == releases()[-1] or os.environ.get("DRAFTERS_ALL_RELEASES")
        if not wanted and not cached(FOLDER, "vllm", release):
            pytest.skip(f"the wheel of vllm {release} (0.4 GB) is not in {FOLDER}; DRAFTERS_ALL_RELEASES=1 fetches it")
        return fetched(FOLDER, "vllm", release, PLATFORMS, "3.12")

    return get


@pytest.fixture(scope="session")
def sources_of(vllm_wheel):
    """A function from a release to the text of its files."""
    return functools.cache(lambda release: open_release(vllm_wheel(release)).sources())
