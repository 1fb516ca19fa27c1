"""An environment with an engine to launch: a real process, whose `sglang` only writes down what it was given."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest

from drafter_cli.demo_files import DEEPSEEK, EVERY_OPTION, write_drafter, write_target
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.local import kept
from drafter_contracts.engines.local.contents import DirectoryContents
from drafter_contracts.engines.local.folder import profiles_folder
from drafter_contracts.engines.store import load_profile

#: Importable for the tests of this folder, which in importlib mode can import no file beside them; in this order.
for _name, _path in (
    ("small_drafter", "small_drafter.py"),
    ("hub_stand_in", "hub/stand_in.py"),
    ("small_registry", "registry_commands/small_registry.py"),
):
    _spec = importlib.util.spec_from_file_location(_name, os.path.join(os.path.dirname(__file__), _path))
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])

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


@pytest.fixture(scope="session")
def runner(command):
    """A function that runs the real command with variables set, or unset where they are None."""

    def run(*arguments, variables):
        environment = {k: v for k, v in os.environ.items() if variables.get(k, "") is not None}
        environment |= {k: v for k, v in variables.items() if v is not None}
        return subprocess.run(
            [command, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip

    return run


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


SMALL_WIDTH, SMALL_VOCABULARY = 64, 512


def small_config(ids, vocabulary=SMALL_VOCABULARY, **more):
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": SMALL_WIDTH,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "vocab_size": vocabulary,
        "draft_vocab_size": vocabulary,
        "max_position_embeddings": 4096,
        "rope_theta": 50000.0,
        "torch_dtype": "bfloat16",
        **more,
    }
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(ids), "use_aux_hidden_state": True}
    return config


def small_tensors(vocabulary=SMALL_VOCABULARY):
    width = SMALL_WIDTH
    shapes = {
        "fc.weight": (width, 3 * width),
        "midlayer.hidden_norm.weight": (width,),
        "midlayer.input_layernorm.weight": (width,),
        "midlayer.self_attn.q_proj.weight": (64, 2 * width),
        "midlayer.self_attn.k_proj.weight": (64, 2 * width),
        "midlayer.self_attn.v_proj.weight": (64, 2 * width),
        "midlayer.self_attn.o_proj.weight": (width, 64),
        "midlayer.post_attention_layernorm.weight": (width,),
        "midlayer.mlp.gate_proj.weight": (128, width),
        "midlayer.mlp.up_proj.weight": (128, width),
        "midlayer.mlp.down_proj.weight": (width, 128),
        "norm.weight": (width,),
        "lm_head.weight": (vocabulary, width),
    }
    return {name: ("BF16", shape) for name, shape in shapes.items()}


class Shop:
    """One test's registry, in the command's own process or behind a real server, and small drafters for it."""

    def __init__(self, folder, drafters, server=None):
        self.folder, self._drafters, self.server = folder, drafters, server
        self.data, self.cache = os.path.join(folder, "data"), os.path.join(folder, "cache")
        self.target = os.path.join(folder, "shop-target")
        os.mkdir(self.target)
        config = {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            "hidden_size": SMALL_WIDTH,
            "num_hidden_layers": 61,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "kv_lora_rank": 8,
            "vocab_size": SMALL_VOCABULARY,
            "max_position_embeddings": 4096,
            "torch_dtype": "bfloat16",
        }
        with open(os.path.join(self.target, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)

    @property
    def variables(self):
        """Environment of the commands."""
        own = {"DRAFTERS_CACHE": self.cache, "DRAFTERS_CONFIG": None, "HOME": self.folder, "XDG_CONFIG_HOME": None}
        if self.server is None:
            return own | {"DRAFTERS_DATA": self.data, "DRAFTERS_URL": None, "DRAFTERS_TOKEN": None}
        return own | {"DRAFTERS_URL": self.server.url, "DRAFTERS_TOKEN": self.server.token, "DRAFTERS_DATA": None}

    def run(self, *arguments, variables=None, **keywords):
        """Run a command on the registry."""
        return self._drafters(*arguments, variables={**self.variables, **(variables or {})}, **keywords)

    def drafter(self, name="drafter", ids=(2, 30, 58), vocabulary=SMALL_VOCABULARY, **more):
        """A small drafter; returns its directory. Its weights are a hole of `vocabulary` * 128 bytes and more."""
        directory = os.path.join(self.folder, name)
        write_skeleton(directory, small_config(ids, vocabulary, **more), small_tensors(vocabulary))
        return directory

    def publish(self, directory, *more, version="1.0", **keywords):
        """Publish a directory as tiny@VERSION."""
        named = ("--name", "tiny", "--version", version, "--target", self.target)
        return self.run("publish", directory, *named, *more, **keywords)

    def versions(self):
        """What the registry lists: "NAME@VERSION"."""
        done = self.run("list", "--json")
        if "there is no registry at" in done.stdout:
            return []
        assert done.returncode == 0, done.stderr
        return [f"{item['name']}@{item['version']}" for item in json.loads(done.stdout).get("items", [])]

    def requests(self, method, path):
        """The server's log: requests of that method below that path."""
        lines = [json.loads(line) for line in self.server.log.splitlines() if line.startswith("{")]
        told = [line for line in lines if line.get("event") == "request"]
        return [line for line in told if line["method"] == method and line["path"].startswith(path)]


@pytest.fixture
def own_shop(tmp_path, drafters) -> Shop:
    """A registry in the command's own process."""
    return Shop(str(tmp_path), drafters)


@pytest.fixture
def served_shop(tmp_path, drafters, live_server) -> Shop:
    """A registry behind a real server."""
    from drafter_registry.settings import Settings

    return Shop(str(tmp_path), drafters, live_server(Settings(data=str(tmp_path / "data"))))


@pytest.fixture(params=["own_shop", "served_shop"])
def shop(request) -> Shop:
    """Either."""
    return request.getfixturevalue(request.param)
