"""The real releases: wheels downloaded once into a cache, read in place, never installed."""

from __future__ import annotations

import functools
import os
import sys

import pytest

from drafter_contracts.engines.scan.tree import open_tree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # files are imported one by one

from release_wheels import CACHE, fetched


@pytest.fixture(scope="session")
def wheel():
    """A function from a release to the path of its wheel."""
    return lambda release: fetched(CACHE, "sglang", release, ("manylinux_2_34_x86_64",), "3.11")


@pytest.fixture(scope="session")
def tree_of(wheel):
    """A function from a release to its opened source tree."""
    return functools.cache(lambda release: open_tree(wheel(release)))
