"""Wheels of releases: downloaded once into a cache, read in place, never installed."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import tempfile

import pytest

CACHE = os.environ.get("DRAFTERS_WHEEL_CACHE") or os.path.expanduser("~/.cache/drafter-registry/wheels")


def cached(folder: str, engine: str, release: str) -> str:
    """Path of a release's wheel in a folder; "" if it is not there."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = sorted(fnmatch.filter(names, f"{engine}-{release}-*.whl"))
    return os.path.join(folder, found[0]) if found else ""


def fetched(folder: str, engine: str, release: str, platforms: tuple[str, ...], python: str) -> str:
    """Path of a release's wheel, downloaded now if it is not in the folder; the test is skipped if it cannot be had."""
    if not cached(folder, engine, release):
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:  # other processes see whole wheels only
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
            command += [word for platform in platforms for word in ("--platform", platform)]
            command += ["--python-version", python, "--dest", place, f"{engine}=={release}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the wheel of {engine} {release} cannot be downloaded: {done.stderr.strip()[-300:]}")
            for name in os.listdir(place):
                os.replace(os.path.join(place, name), os.path.join(folder, name))
    return cached(folder, engine, release)
