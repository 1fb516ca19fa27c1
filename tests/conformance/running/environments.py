"""Python environments in which the real releases run on a CPU, built once into a cache.

An environment is a virtual environment with what all releases share (`common`), a set of further packages in a
folder that comes before it on the path, a stand-in for the CUDA-only kernel package, and the release's own wheel,
unpacked. Nothing of it is installed beside the project. `$DRAFTERS_ENGINE_ENVS` moves the cache;
`$DRAFTERS_ENGINE_PYTHON` names the Python 3.11 to build with, where the one that runs the tests is another.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

from packaging.version import Version

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "requirements", "engines")
STANDIN = os.path.join(HERE, "standin")
CACHE = os.environ.get("DRAFTERS_ENGINE_ENVS") or os.path.expanduser("~/.cache/drafter-registry/engines")
WHEELS = os.environ.get("DRAFTERS_WHEEL_CACHE") or os.path.expanduser("~/.cache/drafter-registry/wheels")

#: Sets of packages, in the order of the path, from the release named on.
SETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.5", ("triton-3.2", "transformers-4.56")),
    ("0.4.9.post4", ("transformers-4.56",)),
    ("0.5.3", ("transformers-4.57",)),
    ("0.5.10", ("transformers-5.12",)),
    ("0.5.11", ("transformers-4.57",)),
    ("0.5.13", ("transformers-5.12",)),
    ("0.5.22", ("transformers-5.19",)),
)
#: First release that runs its own native operators on a CPU; those before need the stand-in's.
OWN_OPERATORS = "0.5.9"
#: Releases (from, up to and including) that compile Triton kernels when they are imported: its interpreter is used.
INTERPRETED = ("0.5.5", "0.5.17")


class EnvironmentUnavailable(Exception):  # noqa: N818 - a reason to skip
    """An environment could not be built, with the reason."""


class Environment(NamedTuple):
    """Where a release runs: the interpreter, variables to add to a process, and folders before its site-packages."""

    release: str
    python: str
    variables: dict[str, str]
    path: tuple[str, ...]

    def environ(self) -> dict[str, str]:
        """The whole environment of a process: nothing of the caller's but where programs and temporary files are."""
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG", "LC_ALL") if name in os.environ}
        return kept | self.variables | {"PYTHONPATH": os.pathsep.join(self.path)}


def sets_of(release: str) -> tuple[str, ...]:
    """Names of the package sets on top of `common` for a release."""
    found = [names for first, names in SETS if Version(first) <= Version(release)]
    if not found:
        raise EnvironmentUnavailable(f"no package set is declared for sglang {release}")
    return found[-1]


def environment_for(release: str) -> Environment:
    """The environment of a release, built now if it is not in the cache.

    Raises:
        EnvironmentUnavailable: No set is declared for it, its wheel is not cached, or the packages cannot be had.
    """
    names = sets_of(release)
    common = _built("common", _make_common)
    overlays = [_built(name, lambda folder, name=name: _make_overlay(common, name, folder)) for name in names]
    home = os.path.join(CACHE, "home")
    os.makedirs(home, exist_ok=True)
    variables = {
        "HOME": home,
        "XDG_CACHE_HOME": os.path.join(home, "cache"),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": os.path.join(home, "hub"),
        "TRITON_CACHE_DIR": os.path.join(home, "triton"),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
    }
    if Version(release) < Version(OWN_OPERATORS):
        variables["STANDIN_OPERATORS"] = "1"
    if Version(INTERPRETED[0]) <= Version(release) <= Version(INTERPRETED[1]):
        variables["TRITON_INTERPRET"] = "1"
    return Environment(release, _python_of(common), variables, (STANDIN, unpacked(release), *overlays))


def unpacked(release: str) -> str:
    """Folder of a release's unpacked wheel, in the cache."""
    wheels = sorted(glob.glob(os.path.join(glob.escape(WHEELS), f"sglang-{release}-*.whl")))
    if not wheels:
        raise EnvironmentUnavailable(f"the wheel of sglang {release} is not in the wheel cache")

    def make(folder: str) -> None:
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(folder)

    return once(f"sglang-{release}-{digest_of(wheels[0])}", make)


def digest_of(path: str) -> str:
    """Short digest of a file, for names in the cache."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def folder_of(name: str) -> str:
    """Folder of a package set, built or not."""
    return os.path.join(CACHE, f"{name}-{digest_of(_requirements(name))}")


def megabytes(folder: str) -> int:
    """Size of a folder on disk."""
    sizes = (os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names)
    return round(sum(sizes) / 2**20)


def _requirements(name: str) -> str:
    return os.path.join(REQUIREMENTS, f"{name}.txt")


def _python_of(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def _builder() -> str:
    """A Python 3.11, which the wheels with compiled parts are for."""
    named = os.environ.get("DRAFTERS_ENGINE_PYTHON")
    if named:
        return named
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise EnvironmentUnavailable("the engines' wheels are for Python 3.11: set $DRAFTERS_ENGINE_PYTHON to one")
    return found


def _built(name: str, make) -> str:
    """Folder of a package set: named after its requirements, so that a change of a pin builds another."""
    return once(f"{name}-{digest_of(_requirements(name))}", make)


def once(name: str, make) -> str:
    """Folder of that name in the cache, made by one process and renamed into place when it is whole."""
    os.makedirs(CACHE, exist_ok=True)
    place = os.path.join(CACHE, name)
    if os.path.isdir(place):
        return place
    with open(os.path.join(CACHE, f".{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(place):
            return place
        work = tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE)
        try:
            make(work)
            os.rename(work, place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return place


def _run(*command: str) -> None:
    variables = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PIP_TARGET", "PIP_PREFIX"}}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise EnvironmentUnavailable(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-1500:]}")


def _pip(python: str, *arguments: str) -> None:
    # Every package is pinned, the indirect ones too: nothing is resolved, and what conflicts is meant so.
    _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", *arguments)


def _make_common(folder: str) -> None:
    _run(_builder(), "-m", "venv", folder)
    _pip(_python_of(folder), "--only-binary", ":all:", "-r", _requirements("common"))


def _make_overlay(common: str, name: str, folder: str) -> None:
    _pip(_python_of(common), "--only-binary", ":all:", "--target", folder, "-r", _requirements(name))
