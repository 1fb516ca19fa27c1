"""A small engine on disk, and the profile of a release that it is."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from drafter_contracts.engines.local import installation, kept
from drafter_contracts.engines.local.contents import DirectoryContents
from drafter_contracts.engines.store import load_profile

RELEASE = "9.9.9"
FILES = {
    "models/llama.py": "class Llama: ...\nEntryClass = Llama\n",
    "models/helper.py": "# registers nothing\n",
    "server_args.py": "class ServerArgs: ...\n",
    "kernels/attention.py": "fast = True\n",
    "../version.py": f'__version__ = "{RELEASE}"\n',
    "../cli/serve.py": "def serve(): ...\n",
}
#: Files of which that release's scan executed something.
USED = ("models/llama.py", "server_args.py")


class Installation:
    """The package `sglang` of one test.

    Attributes:
        package: Its directory.
        scans: What was scanned, in order.
        told: What the gate said on the way.
    """

    def __init__(self, folder: str) -> None:
        self.package = os.path.join(folder, "site-packages", "sglang")
        self.root = os.path.join(self.package, "srt")
        self.scans: list[str] = []
        self.told: list[str] = []
        for name, text in FILES.items():
            self.write(name, text)
        self.age()

    def path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.root, name))

    def write(self, name: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> str:
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def age(self) -> None:
        """As if nothing had been written for an hour, as far as modification times go."""
        for folder, _, names in os.walk(self.package, topdown=False):
            for path in (*(os.path.join(folder, name) for name in names), folder):
                os.utime(path, (1_700_000_000, 1_700_000_000))

    def find(self, release: str = RELEASE, **options):
        return installation.profile_of_package(self.package, release, tell=self.told.append, **options)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> str:
    """Where profiles are kept."""
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    return str(tmp_path / "cache" / "profiles")


@pytest.fixture
def old_clock(monkeypatch):
    """All that was written counts as settled: change times cannot be set back."""
    import time

    real = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: real() + 60_000_000_000)


@pytest.fixture
def engine(tmp_path, monkeypatch, folder) -> Installation:
    """An installation of a release that is known, and a scan that answers at once."""
    made = Installation(str(tmp_path))

    def derive(path, release):
        made.scans.append(path)
        return replace(load_profile("sglang", "0.5.9"), release=release)

    monkeypatch.setattr(installation, "derive", derive)
    monkeypatch.setattr(kept, "scanner_digest", lambda _: "this scanner")
    digests = DirectoryContents(made.root, "").digests(USED)
    published = replace(load_profile("sglang", "0.5.9"), release=RELEASE, sources=digests)
    assert not kept.write_added(folder, published, "its wheel")
    return made
