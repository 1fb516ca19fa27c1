"""Real engines with the plugin installed: where it lies, how a launch is started, and what is seen of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

import environments
import plan
import session

from drafter_contracts.checkpoint.skeleton import write_skeleton

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(environments.HERE)))
#: The first release with plugins, one whose options are resolved when they are made, and one that keeps them raw.
RELEASES = ("0.5.11", "0.5.15", "0.5.23")
#: A release before the plugins, for launchers in Python.
BEFORE = "0.5.9"
SECONDS = 600
#: Exit code of a launch that got as far as its first worker.
REACHED = 42
PORT = "31998"

#: Another plugin beside ours: it notes every process that is started, and ends the launch before the first worker.
TOLD = """
import multiprocessing.process
import os
import sys

STEP = "sglang.srt.entrypoints.engine.Engine._launch_scheduler_processes"


def note(text):
    with open(os.environ["TOLD_RECORD"], "a") as file:
        file.write(text + "\\n")


def reached(*_arguments, **_named):
    note("reached the workers")
    sys.stderr.flush()
    os._exit(42)


def register():
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    start = multiprocessing.process.BaseProcess.start

    def noted(self):
        note(f"started {self.name}")
        return start(self)

    multiprocessing.process.BaseProcess.start = noted
    HookRegistry.register(STEP, reached, HookType.BEFORE)
"""


class Outcome(NamedTuple):
    """What a launch did: exit code, standard output and error, what the other plugin noted, processes left behind."""

    code: int
    output: str
    talk: str
    noted: str
    left: list[str]


def site(folder: str) -> str:
    """A directory of packages with the project's own wheel in it, as an installer unpacks it, and the other plugin."""
    with tempfile.TemporaryDirectory() as built:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", built, ROOT]
        subprocess.run(build, check=True, capture_output=True, timeout=SECONDS)
        (wheel,) = os.listdir(built)
        with zipfile.ZipFile(os.path.join(built, wheel)) as archive:
            archive.extractall(folder)
    other = os.path.join(folder, "told-1.dist-info")
    os.makedirs(other)
    for path, text in (
        (os.path.join(folder, "told.py"), TOLD),
        (os.path.join(other, "METADATA"), "Metadata-Version: 2.1\nName: told\nVersion: 1\n"),
        (os.path.join(other, "entry_points.txt"), "[sglang.srt.plugins]\ntold = told:register\n"),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return folder


def drafter(folder: str, ids: list[int], boundaries: list[int]) -> str:
    """A tiny drafter with those capture ids, whose manifest says what it was trained on."""
    width, narrow, vocabulary = 64, 32, 320
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": vocabulary,
        "draft_vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True},
    }
    shapes = {
        "fc.weight": (width, 3 * width),
        "midlayer.hidden_norm.weight": (width,),
        "midlayer.input_layernorm.weight": (width,),
        "midlayer.self_attn.q_proj.weight": (width, 2 * width),
        "midlayer.self_attn.k_proj.weight": (narrow, 2 * width),
        "midlayer.self_attn.v_proj.weight": (narrow, 2 * width),
        "midlayer.self_attn.o_proj.weight": (width, width),
        "midlayer.post_attention_layernorm.weight": (width,),
        "midlayer.mlp.gate_proj.weight": (128, width),
        "midlayer.mlp.up_proj.weight": (128, width),
        "midlayer.mlp.down_proj.weight": (width, 128),
        "norm.weight": (width,),
        "lm_head.weight": (vocabulary, width),
    }
    write_skeleton(folder, config, {name: ("F32", shape) for name, shape in shapes.items()})
    manifest = {
        "schema": "drafters.manifest.v1",
        "target": {"model": "tiny", "layers": plan.LAYERS, "hidden_size": width},
        "layout": {"boundaries": boundaries},
    }
    with open(os.path.join(folder, "drafters-manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return folder


def target(folder: str, release: str) -> str:
    """The tiny Llama without its weights: whoever reads them fails."""
    made = os.path.join(session.models(environments.environment_for(release)), "llama")
    kept = (name for name in os.listdir(made) if name.endswith(".json"))
    os.makedirs(folder)
    for name in kept:
        shutil.copy(os.path.join(made, name), folder)
    return folder


class Plugged:
    """One release, with the plugin in its environment.

    Args:
        release: The release.
        folder: For its target, its drafters and what is noted.
        packages: From `site`.
    """

    def __init__(self, release: str, folder: str, packages: str) -> None:
        self.environment = environments.environment_for(release)
        self.folder, self.packages = folder, packages
        self.target = target(os.path.join(folder, "target"), release)
        self.drafters = {
            "right": drafter(os.path.join(folder, "right"), [0, 2, 4], [1, 3, 5]),
            "wrong": drafter(os.path.join(folder, "wrong"), [1, 3, 5], [1, 3, 5]),
        }

    def options(self, name: str, **more: object) -> dict[str, object]:
        """A launch's options, as keywords."""
        found: dict[str, object] = {"model_path": self.target, "device": "cpu", "attention_backend": "torch_native"}
        if name:
            found |= {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": self.drafters[name]}
            found |= {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
        return found | more

    def arguments(self, name: str) -> list[str]:
        """A launch's options, as arguments."""
        pairs = (self.options(name) | {"port": PORT}).items()
        return [word for key, value in pairs for word in ("--" + key.replace("_", "-"), str(value))]

    def run(self, *words: str, packages: str = "", **variables: str) -> Outcome:
        """`python WORDS...` in the release's environment."""
        record = os.path.join(self.folder, "record")
        if os.path.exists(record):
            os.remove(record)
        environ = self.environment.environ()
        environ["PYTHONPATH"] = (packages or self.packages) + os.pathsep + environ["PYTHONPATH"]
        cache = os.path.join(self.folder, "cache")
        process = subprocess.Popen(
            [self.environment.python, *words],
            env=environ | {"TOLD_RECORD": record, "DRAFTERS_CACHE": cache} | variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, talk = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        noted = ""
        if os.path.exists(record):
            with open(record, encoding="utf-8") as file:
                noted = file.read()
        return Outcome(process.returncode, output, talk, noted, in_session(process.pid))

    def serve(self, name: str, **variables: str) -> Outcome:
        """`python -m sglang.launch_server`."""
        return self.run("-m", "sglang.launch_server", *self.arguments(name), **variables)

    def console(self, name: str) -> Outcome:
        """`sglang serve`, as its console script starts it."""
        script = os.path.join(self.folder, "sglang")
        with open(script, "w", encoding="utf-8") as file:
            file.write(
                "import sys\nfrom sglang.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
            )
        return self.run(script, "serve", *self.arguments(name))

    def script(self, text: str, **variables: str) -> Outcome:
        """A launcher in Python; `options` in it makes a launch's keywords."""
        told = {name: self.options(name) for name in ("right", "wrong", "")}
        body = "\n".join("    " + line for line in text.strip().splitlines())
        path = os.path.join(self.folder, "launcher.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"import sys\noptions = {told!r}\nif __name__ == '__main__':\n{body}\n")
        return self.run(path, **variables)


def in_session(leader: int) -> list[str]:
    """Processes of a session that are still there."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(name)
    return found
