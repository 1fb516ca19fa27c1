"""What every test may use: the real command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Profiles that tests derive are kept here, and those of whoever runs the tests stay out of them."""
    folder = str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAFTERS_CACHE", folder)
        yield folder


@pytest.fixture(scope="session")
def command() -> str:
    """The console script of the environment under test."""
    path = os.path.join(os.path.dirname(sys.executable), "drafters")
    assert os.access(path, os.X_OK), f"{path}: install the project first (make test does)"
    return path


@pytest.fixture
def drafters(command):
    """Runs `drafters ARGS...`; keywords as of `subprocess.run`, plus `variables` to set (None: to unset)."""

    def run(*arguments, variables=None, **keywords):
        environment = {k: v for k, v in os.environ.items() if k not in {"DRAFTERS_GUARD", "NO_COLOR"}}
        for name, value in (variables or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        keywords.setdefault("stdin", subprocess.DEVNULL)
        keywords.setdefault("timeout", 60)
        return subprocess.run(
            [command, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False, **keywords
        )

    return run
