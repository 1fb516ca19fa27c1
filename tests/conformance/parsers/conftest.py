"""The real parsers, one process per release, and the file of results."""

from __future__ import annotations

import functools
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "programs"), os.path.join(os.path.dirname(HERE), "running")]

from environments import EnvironmentUnavailable, environment_for  # noqa: E402
from release_process import ReleaseProcess  # noqa: E402
from releases import RELEASES  # noqa: E402

from drafter_contracts.engines.store import load_profile  # noqa: E402

RESULTS = os.path.join(HERE, "results.json")
#: Set to write the results instead of comparing them.
WRITE = "DRAFTERS_WRITE_RESULTS"


@pytest.fixture(scope="session", params=RELEASES)
def release(request):
    """Each release, all tests of one before those of the next: its process is started once."""
    return request.param


@pytest.fixture(scope="session")
def profile_of():
    """A function from a release to its shipped profile."""
    return functools.cache(lambda release: load_profile("sglang", release))


@pytest.fixture(scope="session")
def ask(wheel):
    """A function from a release and a question to the answer of the release's own code; one process is kept."""
    running = {}

    def question(release, **about):
        if release not in running:
            while running:
                running.popitem()[1].close()
            wheel(release)  # downloads it where it is not cached
            try:
                running[release] = ReleaseProcess(environment_for(release))
            except EnvironmentUnavailable as reason:
                pytest.skip(str(reason))
        return running[release].ask(**about)

    yield question
    while running:
        running.popitem()[1].close()


@pytest.fixture(scope="session")
def on_file():
    """A function that holds what was counted against the file of results, or writes it there."""

    def compare(release, part, counted):
        with open(RESULTS, encoding="utf-8") as file:
            results = json.load(file)
        if os.environ.get(WRITE):
            results["releases"].setdefault(release, {})[part] = counted
            with open(RESULTS, "w", encoding="utf-8") as file:
                file.write(json.dumps(results, indent=1, sort_keys=True) + "\n")
        else:
            assert results["releases"][release][part] == counted, f"run with {WRITE}=1 if that is meant"

    return compare
