"""A registry with a small drafter, a stand-in engine, and a lock between them."""

from __future__ import annotations

import json
import os
import shlex
import shutil

import pytest

from drafter_contracts.engines.local import kept
from drafter_contracts.engines.local.contents import DirectoryContents
from drafter_contracts.engines.store import load_profile

RELEASE = "0.5.12.post1"
NUMBERS = ("--steps", "3", "--topk", "1", "--draft-tokens", "4")


class Site:
    """One test's machine: what is published, what is installed, and what is locked."""

    def __init__(self, shop, bench):
        self.shop, self.bench = shop, bench
        self.target = shop.target
        self.file = os.path.join(shop.folder, "drafters.lock")

    def know(self, profile):
        """As if the engine's files, as they are now, had been scanned, with this outcome."""
        source = os.path.join(self.bench.package, "srt")
        key = kept.key_of(profile.release, DirectoryContents(source, "").everything())
        assert not kept.write_installed(os.path.join(self.shop.cache, "profiles"), key, profile, source)

    def publish(self, version="1.0", name="drafter", fill=b"", alias="prod"):
        """Publish a drafter whose weights begin with `fill`; returns its directory."""
        directory = self.shop.drafter(name)
        with open(os.path.join(directory, "model.safetensors"), "r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(fill)
        more = ("--output-ids", "2,30,58", *NUMBERS, *(("--alias", alias) if alias else ()))
        done = self.shop.publish(directory, *more, version=version)
        assert done.returncode == 0, done.stderr
        return directory

    def run(self, *arguments, variables=None, **keywords):
        keywords.setdefault("cwd", self.shop.folder)
        return self.shop.run(*arguments, variables={**self.bench.variables(), **(variables or {})}, **keywords)

    def lock(self, *arguments, reference="tiny@prod", launch=None, **keywords):
        """`drafters lock` for this engine and target."""
        named = ("--engine", self.bench.package, "--target", self.target)
        launch = ("--", *launch) if launch else ()
        return self.run("lock", reference, *named, *arguments, *launch, **keywords)

    def locked(self, *arguments, **keywords):
        """The document that `lock` wrote."""
        done = self.lock(*arguments, **keywords)
        assert done.returncode == 0, done.stderr
        return self.document()

    def document(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def flags(self, *arguments, **keywords):
        """What `resolve --locked` prints."""
        done = self.run("resolve", "--locked", *arguments, variables=OFFLINE, **keywords)
        assert done.returncode == 0, done.stderr
        return shlex.split(done.stdout)

    def launch(self, flags, *more, target=None):
        engine = [self.bench.python, "-m", "sglang.launch_server", "--model-path", target or self.target]
        return [*engine, *more, *flags]

    def guard(self, launch, *arguments, variables=None, **keywords):
        """`drafters guard --locked`, with no registry and no network."""
        asked = ("--locked", *arguments)
        return self.run("guard", *asked, "--", *launch, variables={**OFFLINE, **(variables or {})}, **keywords)

    def check(self, launch, *arguments, **keywords):
        """The verdict document of `drafters check --locked`."""
        done = self.run("check", "--locked", "--json", *arguments, "--", *launch, variables=OFFLINE, **keywords)
        document = json.loads(done.stdout)
        assert done.returncode == document["exit_code"], done.stderr
        return document

    def drift(self, launch, *arguments, **keywords):
        """What `check --locked` says differs: (code, severity) of each such finding, sorted."""
        document = self.check(launch, *arguments, **keywords)
        return sorted((one["code"], one["severity"]) for one in document["findings"] if one["code"].startswith("LOCK_"))

    def copy_of(self, flags, name="copy"):
        """A copy of the drafter's directory, and the flags that name it."""
        directory = flags[flags.index("--speculative-draft-model-path") + 1]
        copy = os.path.join(self.shop.folder, name)
        shutil.copytree(directory, copy)
        return copy, [copy if flag == directory else flag for flag in flags]


#: No registry anywhere: a directory that is none, and proxies that lead nowhere.
OFFLINE = {
    "DRAFTERS_DATA": "/nowhere/registry",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "HF_ENDPOINT": "http://127.0.0.1:9",
}


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A folder for what is made once: a registry, what was pulled from it, and a lock of the release as published."""
    return str(tmp_path_factory.mktemp("locked"))


@pytest.fixture
def site(own_shop, bench, template, drafters):
    """A machine with a registry that has tiny@1.0, alias prod; nothing is locked or pulled."""
    if not os.path.exists(os.path.join(template, "drafters.lock")):
        first = Site(type(own_shop)(template, drafters), bench)
        first.publish()
        done = first.run("lock", "tiny@prod", "--engine", f"sglang=={RELEASE}", "--target", first.target)
        assert done.returncode == 0, done.stderr
    shutil.copytree(os.path.join(template, "data"), own_shop.data)
    made = Site(own_shop, bench)
    made.know(load_profile("sglang", RELEASE))
    return made


@pytest.fixture
def flags(site, template):
    """The flags of a lock that lies there, of tiny@prod for the release that is installed."""
    shutil.copytree(os.path.join(template, "cache", "drafters"), os.path.join(site.shop.cache, "drafters"))
    shutil.copy(os.path.join(template, "drafters.lock"), site.file)
    lock = site.document()
    digest = lock["drafter"]["digest"].removeprefix("sha256:")
    directory = os.path.join(site.shop.cache, "drafters", "tiny", digest)
    return [directory if flag == "{drafter}" else flag for flag in lock["flags"]]
