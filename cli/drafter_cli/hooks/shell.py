"""The file that a shell sources: made of `hook.sh`, with `stand_in.sh` inside it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys

from drafter_contracts.serving.wrappers import WRAPPERS

#: Interpreters that engines run in, and the engine's own command.
ENGINES = ("python", "python3", *(f"python3.{minor}" for minor in range(8, 16)), "sglang")
#: Wrappers that the hook leaves alone: the shell's own, and those that start the engine in a container or on another
#: machine, with that place's files and environment. Hook or guard it there.
LEFT_ALONE = frozenset(
    ("exec", "command", "docker", "podman", "nerdctl", "singularity", "apptainer", "kubectl", "sudo", "doas")
)
PROGRAM = "drafters"


def names() -> tuple[str, ...]:
    """Every program that a stand-in is made for, where it exists."""
    return (*ENGINES, *(name for name in WRAPPERS if name not in LEFT_ALONE))


def program() -> str:
    """Absolute path of the `drafters` that a hook calls: the one that runs; "" if it has no place of its own."""
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == PROGRAM and os.access(own, os.X_OK):
        return own
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    return beside if os.access(beside, os.X_OK) else shutil.which(PROGRAM) or ""


def script(called: str) -> str:
    """The file's text.

    Args:
        called: Absolute path of `drafters`. Where it is gone later, the one on PATH is taken, and without one no
            launch starts.
    """
    stand_in = _part("stand_in.sh").replace("@DRAFTERS@", shlex.quote(called or f"/nowhere/{PROGRAM}"))
    hook = _part("hook.sh").replace("@NAMES@", " ".join(names()))
    hook = hook.replace("@DIGEST@", hashlib.sha256(stand_in.encode()).hexdigest()[:12])
    return hook.replace("@STAND_IN@", stand_in.rstrip("\n"))


def _part(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
