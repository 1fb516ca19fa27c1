"""A stand-in for an engine with plugins: the same functions in the same order, the same faults passed over in silence.

It has of SGLang (0.5.11 to 0.5.23) what a plugin sees: a loader that logs and ignores what a plugin raises, a registry
of hooks that logs and ignores hooks that it cannot apply, options that are made from a command line or from keywords,
and an engine whose check of its options comes before its first process. `tests/conformance/test_plugin_path.py` holds
that order against the real releases.
"""

from __future__ import annotations

import os
import sys

from drafter_contracts.engines.local import kept
from drafter_contracts.engines.local.contents import DirectoryContents
from drafter_contracts.engines.local.folder import profiles_folder
from drafter_contracts.engines.store import load_profile

RELEASE = "0.5.12.post1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

PACKAGE = """
def __getattr__(name):
    from sglang.srt.entrypoints.engine import Engine

    return Engine
"""

PLUGINS = """
import logging
import os
from importlib.metadata import entry_points

from sglang.srt.plugins.hook_registry import HookRegistry

log = logging.getLogger(__name__)
loaded = False


def load_plugins():
    global loaded
    if loaded:
        return
    loaded = True
    wanted = {name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",") if name.strip()}
    plugins = {}
    for point in entry_points(group="sglang.srt.plugins"):
        if wanted and point.name not in wanted:
            continue
        try:
            plugins[point.name] = point.load()
        except Exception:
            log.exception("Failed to load plugin %s", point.name)
    for name, plugin in plugins.items():
        try:
            plugin()
        except Exception:
            log.exception("Failed to execute plugin %s", name)
    HookRegistry.apply_hooks()
"""

REGISTRY = """
import enum
import functools
import logging
import pkgutil
import sys

log = logging.getLogger(__name__)


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


class HookRegistry:
    hooks = {}
    done = set()

    @classmethod
    def register(cls, target, hook, hook_type=HookType.AFTER, *, source=None):
        cls.hooks.setdefault(target, []).append((hook_type, hook))

    @classmethod
    def apply_hooks(cls):
        for target, hooks in sorted(cls.hooks.items()):
            if target in cls.done:
                continue
            try:
                place, _, name = target.rpartition(".")
                owner = pkgutil.resolve_name(place)
                original = found = getattr(owner, name)
                for kind, hook in sorted(hooks, key=lambda pair: pair[0] != HookType.REPLACE):
                    found = wrapped(found, hook, kind)
                setattr(owner, name, found)
                for module in list(sys.modules.values()):
                    for key, value in list(getattr(module, "__dict__", {}).items()):
                        if value is original and module is not owner:
                            setattr(module, key, found)
                cls.done.add(target)
            except Exception:
                log.exception("Failed to apply hooks to %s", target)


def wrapped(function, hook, kind):
    @functools.wraps(function)
    def run(*arguments, **named):
        if kind == HookType.REPLACE:
            return hook(*arguments, **named)
        if kind == HookType.AROUND:
            return hook(function, *arguments, **named)
        if kind == HookType.BEFORE:
            changed = hook(*arguments, **named)
            if changed is not None:
                arguments, named = changed
            return function(*arguments, **named)
        result = function(*arguments, **named)
        changed = hook(result, *arguments, **named)
        return result if changed is None else changed

    return run
"""

SERVER_ARGS = """
import argparse
import dataclasses

OPTIONS = (
    ("model_path", str), ("json_model_override_args", str), ("speculative_algorithm", str),
    ("speculative_draft_model_path", str), ("speculative_num_steps", int), ("speculative_eagle_topk", int),
    ("speculative_num_draft_tokens", int), ("tp_size", int), ("config", str),
)


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    json_model_override_args: str = "{}"
    speculative_algorithm: str = None
    speculative_draft_model_path: str = None
    speculative_num_steps: int = None
    speculative_eagle_topk: int = None
    speculative_num_draft_tokens: int = None
    tp_size: int = 1
    config: str = None
    own_object: object = None

    def check_server_args(self):
        assert self.tp_size > 0


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    for name, kind in OPTIONS:
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=getattr(ServerArgs, name, None))
    return ServerArgs(**vars(parser.parse_args(argv)))
"""

ENGINE = """
import multiprocessing
import os

from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs


def work():
    load_plugins()
    import sys

    ours = [name for name in sys.modules if name.partition(".")[0] in ("drafter_cli", "drafter_contracts", "msgspec")]
    with open(os.environ["ENGINE_RECORD"], "w") as file:
        file.write("\\n".join(sorted(ours)))


class Engine:
    def __init__(self, **named):
        load_plugins()
        self._launch_subprocesses(named.get("server_args") or ServerArgs(**named))

    @classmethod
    def _launch_subprocesses(cls, server_args):
        load_plugins()
        server_args.check_server_args()
        worker = multiprocessing.get_context("spawn").Process(target=work)
        worker.start()
        worker.join()
        print("engine output", flush=True)
"""

LAUNCH_SERVER = """
import sys

from sglang.srt.server_args import prepare_server_args


def run_server(server_args):
    from sglang.srt.entrypoints.engine import Engine

    Engine._launch_subprocesses(server_args)


if __name__ == "__main__":
    from sglang.srt.plugins import load_plugins

    load_plugins()
    run_server(prepare_server_args(sys.argv[1:]))
"""

SERVE = """
def main():
    import sys

    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args

    load_plugins()
    words = [word for word in sys.argv[2:] if word not in ("--model-type", "llm")]
    if words and not words[0].startswith("-"):
        words = ["--model-path", *words]
    run_server(prepare_server_args(words))
"""

FILES = {
    "sglang/__init__.py": PACKAGE,
    "sglang/launch_server.py": LAUNCH_SERVER,
    "sglang/serve.py": SERVE,
    "sglang/srt/__init__.py": "",
    "sglang/srt/server_args.py": SERVER_ARGS,
    "sglang/srt/entrypoints/__init__.py": "",
    "sglang/srt/entrypoints/engine.py": ENGINE,
    "sglang/srt/plugins/__init__.py": PLUGINS,
    "sglang/srt/plugins/hook_registry.py": REGISTRY,
    f"sglang-{RELEASE}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: sglang\nVersion: {RELEASE}\n",
}


class Site:
    """A directory of packages with the stand-in, and what makes this project's plugin installed in it.

    Args:
        folder: Where to make it.
        entry: The plugin's entry point; the project's own unless a test wants another.
    """

    def __init__(self, folder: str, entry: str) -> None:
        self.folder = folder
        self.record = os.path.join(os.path.dirname(folder), "record")
        for name, text in FILES.items():
            self.write(name, text)
        distribution = "drafter_registry-0.dist-info"
        self.write(f"{distribution}/METADATA", "Metadata-Version: 2.1\nName: drafter-registry\nVersion: 0\n")
        self.write(f"{distribution}/entry_points.txt", f"[sglang.srt.plugins]\ndrafters = {entry}\n")
        self.profile()

    def write(self, name: str, text: str) -> None:
        """A file below it."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def change(self, name: str, before: str, after: str) -> None:
        """One change in one file; the profile stays that of the release."""
        path = os.path.join(self.folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert text.count(before) >= 1
        self.write(name, text.replace(before, after))
        self.profile()

    def profile(self) -> None:
        """As if these very files had been scanned before, and did what the release does."""
        source = os.path.join(self.folder, "sglang", "srt")
        key = kept.key_of(RELEASE, DirectoryContents(source, "").everything())
        assert not kept.write_installed(profiles_folder(), key, load_profile("sglang", RELEASE), source)

    def environ(self, **variables: str) -> dict[str, str]:
        """The environment of a process that imports from here first."""
        kept_out = ("DRAFTERS_GUARD", "SGLANG_PLUGINS", "NO_COLOR", "DRAFTERS_GUARDED")
        own = {name: text for name, text in os.environ.items() if name not in kept_out}
        path = os.pathsep.join([self.folder, *sys.path[1:]])
        return own | {"PYTHONPATH": path, "ENGINE_RECORD": self.record} | variables

    @property
    def started(self) -> bool:
        """Whether a worker process ever ran."""
        return os.path.exists(self.record)

    @property
    def worker_modules(self) -> list[str]:
        """Modules of this project that were loaded in the worker."""
        with open(self.record, encoding="utf-8") as file:
            return file.read().split()
