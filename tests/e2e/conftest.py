"""An environment with an engine to launch: a real process, whose `sglang` only writes down what it was given."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from drafter_cli.demo_files import DEEPSEEK, EVERY_OPTION, write_drafter, write_target
from drafter_contracts.engines.local import kept
from drafter_contracts.engines.local.contents import DirectoryContents
from drafter_contracts.engines.local.folder import profiles_folder
from drafter_contracts.engines.store import load_profile

RELEASE = "0.5.12.post1"

#: The stand-in engine. It writes what it was started with, and then does what ENGINE_DOES says.
LAUNCH_SERVER = """
import json, os, signal, sys

def main():
    record = os.environ["ENGINE_RECORD"]
    does = os.environ.get("ENGINE_DOES", "exit 0")
    told = {"pid": os.getpid(), "argv": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}
    if does == "read":
        told["stdin"] = sys.stdin.read()
    if does == "wait":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(43))
    with open(record + ".part", "w") as file:
        json.dump(told, file)
    os.replace(record + ".part", record)
    print("engine output")
    if does == "wait":
        signal.pause()
    sys.exit(int(does.split()[1]) if does.startswith("exit") else 0)

if __name__ == "__main__":
    main()
"""


def make_environment(folder: str, release: str) -> str:
    """A virtual environment by hand, with the stand-in engine of that release in it; returns its `bin`."""
    site = os.path.join(folder, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    package = os.path.join(site, "sglang")
    source = os.path.join(package, "srt")
    metadata = os.path.join(site, f"sglang-{release}.dist-info")
    binaries = os.path.join(folder, "bin")
    for directory in (source, metadata, binaries):
        os.makedirs(directory)
    base = os.path.realpath(sys.executable)
    files = {
        os.path.join(folder, "pyvenv.cfg"): f"home = {os.path.dirname(base)}\nversion = {sys.version.split()[0]}\n",
        os.path.join(package, "__init__.py"): "",
        os.path.join(package, "launch_server.py"): LAUNCH_SERVER,
        os.path.join(source, "stand_in.py"): "# what captures stands in for the release's\n",
        os.path.join(metadata, "METADATA"): f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n",
        os.path.join(metadata, "RECORD"): "sglang/__init__.py,,\n",
        os.path.join(metadata, "INSTALLER"): "pip\n",
        os.path.join(binaries, "sglang"): f"#!{binaries}/python\nfrom sglang.launch_server import main\nmain()\n",
    }
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(binaries, "sglang"), 0o700)
    os.symlink(base, os.path.join(binaries, "python"))
    profile_as(source, release)
    return binaries


def profile_as(source: str, release: str) -> None:
    """As if these very files had been scanned before, and did what that release does."""
    folder = profiles_folder()
    key = kept.key_of(release, DirectoryContents(source, "").everything())
    assert not kept.write_installed(folder, key, load_profile("sglang", release), source)


class Bench:
    """One test's drafters, targets and engine."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.target = write_target(os.path.join(folder, "target"))
        self.plain_target = write_target(os.path.join(folder, "deepseek"), DEEPSEEK)
        self.right = write_drafter(os.path.join(folder, "right"), ids=[2, 30, 58])
        self.wrong = write_drafter(os.path.join(folder, "wrong"), ids=[-1, 2, 30])
        self.binaries = make_environment(os.path.join(folder, "environment"), RELEASE)
        self.python = os.path.join(self.binaries, "python")
        library = os.path.join(folder, "environment", "lib")
        self.package = os.path.join(library, os.listdir(library)[0], "site-packages", "sglang")
        self.record = os.path.join(folder, "record.json")

    def launch(self, drafter: str, *more: str, python: str = "") -> list[str]:
        """A speculating launch with this drafter."""
        engine = [python or self.python, "-m", "sglang.launch_server", "--model-path", self.target]
        return [*engine, "--speculative-draft-model-path", drafter, *EVERY_OPTION, *more]

    def script(self, name: str, text: str, mode: int = 0o700) -> str:
        """An executable shell script; returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, mode)
        return path

    def plain(self, *more: str) -> list[str]:
        """A launch without speculative decoding, of a target that does not exist: nothing may look at it."""
        return [self.python, "-m", "sglang.launch_server", "--model-path", "/nowhere/model", *more]

    def variables(self, does: str = "exit 0", **more: str | None) -> dict[str, str | None]:
        """Environment of the engine."""
        return {"ENGINE_RECORD": self.record, "ENGINE_DOES": does, **more}

    @property
    def started(self) -> bool:
        """Whether the engine was ever started."""
        return os.path.exists(self.record)

    def told(self, wait: float = 20.0) -> dict:
        """What the engine wrote down, once it has."""
        deadline = time.monotonic() + wait
        while not self.started:
            assert time.monotonic() < deadline, "the engine never started"
            time.sleep(0.01)
        with open(self.record, encoding="utf-8") as file:
            return json.load(file)


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(str(tmp_path))
