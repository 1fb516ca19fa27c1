"""The package index, asked through the user's own pip: configuration, mirrors and credentials are the user's.

Nothing is installed, and nothing of a package is executed: only wheels are fetched, and they are read as archives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from drafter_cli.errors import UnreachableError, UsageError
from drafter_contracts.engines.versions import version_key

PROJECT = "sglang"
_TIMEOUT_SECONDS = 1800
_COMMON = ("--disable-pip-version-check", "--no-input", "--no-python-version-warning")
_WHEELS = ("--no-deps", "--only-binary", ":all:")
#: Where the index has no wheel for this machine, one for another will do: all hold the same Python files.
_PLATFORMS = tuple(f"manylinux_2_{glibc}_x86_64" for glibc in (17, 28, 31, 34, 35, 39))
_PYTHONS = ("3.12", "3.11", "3.10", "3.13")
_NONE = "(from versions: none)"


def stable_releases() -> tuple[str, ...]:
    """Stable releases that the index has, oldest first.

    Raises:
        UnreachableError: It does not answer, or has none.
        UsageError: There is no pip.
    """
    found: set[str] = set()
    said = ""
    for more in ((), _foreign(_PYTHONS[0])):
        done = _pip("index", "versions", PROJECT, *more)
        for line in done.stdout.splitlines():
            label, colon, listed = line.partition(":")
            if colon and label.strip() == "Available versions":
                found.update(version.strip() for version in listed.split(",") if version.strip())
        said = said or done.stderr
    if not found:
        raise UnreachableError(f"the package index names no release of {PROJECT}{_last(said)}", _ELSEWHERE)
    return tuple(sorted((version for version in found if is_stable(version)), key=version_key))


_ELSEWHERE = "see that pip reaches it, or fetch the wheel elsewhere: drafters engine update --from FILE.whl"


def is_stable(version: str) -> bool:
    """Whether a version is a release or a post-release: no candidate, no nightly."""
    plain, _, post = version.partition(".post")
    return all(part.isdecimal() for part in plain.split(".")) and (not post or post.isdecimal())


def download(release: str, folder: str) -> str:
    """Fetch the wheel of a release.

    Args:
        release: Version as published.
        folder: Where to put it.

    Returns:
        Its path.

    Raises:
        UnreachableError: The index does not answer.
        UsageError: It has no such release, or there is no pip.
    """
    said = ""
    for more in ((), *(_foreign(python) for python in _PYTHONS)):
        done = _pip(
            "download", "--quiet", *_WHEELS, "--ignore-requires-python", *more, "--dest", folder, _exact(release)
        )
        wheels = sorted(name for name in os.listdir(folder) if name.endswith(".whl"))
        if not done.returncode and wheels:
            return os.path.join(folder, wheels[0])
        said = said or done.stderr
        # pip says the same of an index that it cannot reach and of one that has nothing for this machine; of this
        # project an index always has old releases for every machine.
        if "from versions:" not in done.stderr or (_NONE in done.stderr and not more):
            raise UnreachableError(f"the wheel of {PROJECT} {release} cannot be fetched{_last(said)}", _ELSEWHERE)
    raise UsageError(
        f"the package index has no wheel of {PROJECT} {release}",
        "drafters engine update without a release looks for newer ones",
    )


def _exact(release: str) -> str:
    return f"{PROJECT}=={release}"


def _foreign(python: str) -> tuple[str, ...]:
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    return (*platforms, "--python-version", python, "--only-binary", ":all:")


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the user's pip with arguments of our own
        [*_command(), *arguments, *_COMMON],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )


def _command() -> list[str]:
    """How pip is started: this interpreter's, else the one on PATH.

    Raises:
        UsageError: There is none.
    """
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    program = shutil.which("pip") or shutil.which("pip3")
    if program is None:
        raise UsageError("there is no pip to fetch a release with", "fetch its wheel and give --from FILE.whl")
    return [program]


def _last(said: str) -> str:
    """What pip said last, for a message."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return f": pip says {errors[0][:300]!r}" if errors else ""
