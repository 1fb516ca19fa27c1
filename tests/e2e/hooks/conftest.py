"""Shells that source the hook, and an engine that must not start."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

SHELLS = ("bash", "zsh", "dash")

#: Programs that start another one, as far as a launch goes; torchrun names its interpreter by the path.
NUMACTL = 'while case $1 in -*) true ;; *) false ;; esac; do shift; done\nexec "$@"'
TORCHRUN = "import os, sys\nos.execv(sys.executable, [sys.executable, *sys.argv[sys.argv.index('-m'):]])"


def shell_named(name):
    """Path of a shell; the test is skipped where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture(params=SHELLS)
def shell(request):
    """Each shell."""
    shell_named(request.param)
    return request.param


class Yard:
    """One test's engine, hook and scripts."""

    def __init__(self, bench, command, cache):
        self.bench, self.command = bench, command
        self.cache, self.marker = cache, os.path.join(bench.folder, "fell-through")
        for name, starts, text in (
            ("numactl", "/bin/sh", NUMACTL),
            ("torchrun", bench.python, TORCHRUN),
            ("accelerate", bench.python, TORCHRUN),
        ):
            path = os.path.join(bench.binaries, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!{starts}\n{text}\n")
            os.chmod(path, 0o700)
        os.symlink("python", os.path.join(bench.binaries, "python3"))
        os.symlink("python", os.path.join(bench.binaries, "python3.11"))
        self.hook = os.path.join(bench.folder, "drafters-hook.sh")
        with open(self.hook, "w", encoding="utf-8") as file:
            subprocess.run([command, "hook", "shell"], stdout=file, check=True, timeout=30)

    def variables(self, does="exit 0", **more):
        """Environment of a script."""
        path = os.pathsep.join((self.bench.binaries, "/usr/local/bin", "/usr/bin", "/bin"))
        own = {"PATH": path, "VENV": os.path.dirname(self.bench.binaries), "HOOK": self.hook, "MARKER": self.marker}
        own |= {"DRAFTERS_ENGINE": "sglang==0.5.12.post1", "DRAFTERS_OUTPUT_IDS": "2,30,58"}
        own |= {"DRAFTERS_CACHE": self.cache, "HOME": self.bench.folder}
        own |= {"FOLDER": self.bench.folder} | {
            k: v for k, v in os.environ.items() if k.startswith(("COVERAGE", "LANG"))
        }
        all_of_it = own | self.bench.variables(does) | more
        return {name: value for name, value in all_of_it.items() if value is not None}

    def script(self, text):
        """A script that sources the hook first; its path."""
        path = os.path.join(self.bench.folder, "start.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'. "$HOOK"\n{text}\n')
        return path

    def arguments(self, drafter, *more):
        """What follows `python -m sglang.launch_server` in a launch with this drafter."""
        return self.bench.launch(drafter, *more)[3:]

    def run(self, shell, text, drafter, *more, options=(), does="exit 0", variables=None, **keywords):
        """Run a script of this text; "$@" are the launch's arguments."""
        argv = [shell_named(shell), *options, self.script(text), *self.arguments(drafter, *more)]
        keywords.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            argv,
            env=self.variables(does, **(variables or {})),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **keywords,
        )

    @property
    def went_on(self):
        """Whether the script did something after the launch."""
        return os.path.exists(self.marker)

    def running(self):
        """Processes that a script of this test has left."""
        mark = f"ENGINE_RECORD={self.bench.record}".encode()
        found = []
        for number in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(number))
            except OSError:
                continue
        return found


@pytest.fixture
def yard(bench, command, cache):
    own = Yard(bench, command, cache)
    yield own
    deadline = time.monotonic() + 20  # an engine in the background may just be ending
    while own.running():
        assert time.monotonic() < deadline, f"left behind: {own.running()}"
        time.sleep(0.05)
