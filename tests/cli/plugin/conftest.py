"""A tiny target, drafters that match a release and that do not, and the stand-in engine with the plugin in it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib

import pytest

from drafter_contracts.checkpoint.skeleton import write_skeleton

#: Importable for the tests, which in importlib mode can import no file beside them.
_PATH = os.path.join(os.path.dirname(__file__), "stand_in.py")
_SPEC = importlib.util.spec_from_file_location("plugin_stand_in", _PATH)
sys.modules["plugin_stand_in"] = stand_in = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(stand_in)

WIDTH, LAYERS, VOCABULARY = 64, 8, 320
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "model_type": "llama",
}
TENSORS = {
    "fc.weight": (WIDTH, 3 * WIDTH),
    "midlayer.hidden_norm.weight": (WIDTH,),
    "midlayer.input_layernorm.weight": (WIDTH,),
    "midlayer.self_attn.q_proj.weight": (WIDTH, 2 * WIDTH),
    "midlayer.self_attn.k_proj.weight": (WIDTH, 2 * WIDTH),
    "midlayer.self_attn.v_proj.weight": (WIDTH, 2 * WIDTH),
    "midlayer.self_attn.o_proj.weight": (WIDTH, WIDTH),
    "midlayer.post_attention_layernorm.weight": (WIDTH,),
    "midlayer.mlp.gate_proj.weight": (128, WIDTH),
    "midlayer.mlp.up_proj.weight": (128, WIDTH),
    "midlayer.mlp.down_proj.weight": (WIDTH, 128),
    "norm.weight": (WIDTH,),
    "lm_head.weight": (VOCABULARY, WIDTH),
}


def write_tiny_target(folder):
    """A Llama's config, without weights."""
    config = SHAPE | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS}
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return str(folder)


def write_tiny_drafter(folder, ids, boundaries):
    """A drafter with those capture ids, whose manifest says what it was trained on."""
    config = SHAPE | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    config |= {"draft_vocab_size": VOCABULARY}
    config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True}
    write_skeleton(str(folder), config, {name: ("BF16", shape) for name, shape in TENSORS.items()})
    manifest = {
        "schema": "drafters.manifest.v1",
        "target": {"model": "tiny", "layers": LAYERS, "hidden_size": WIDTH},
        "layout": {"boundaries": boundaries},
    }
    if boundaries:
        with open(os.path.join(folder, "drafters-manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
    return str(folder)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Folder of `target`, and of the drafters `right` and `wrong`, both trained on boundaries 1, 3, 5."""
    folder = tmp_path_factory.mktemp("files")
    write_tiny_target(folder / "target")
    write_tiny_drafter(folder / "right", [0, 2, 4], [1, 3, 5])
    write_tiny_drafter(folder / "wrong", [1, 3, 5], [1, 3, 5])
    return str(folder)


@pytest.fixture(scope="session")
def entry_point():
    """The plugin's entry point as the project declares it."""
    with open(os.path.join(stand_in.ROOT, "pyproject.toml"), "rb") as file:
        (found,) = tomllib.load(file)["project"]["entry-points"]["sglang.srt.plugins"].items()
    assert found[0] == "drafters"
    return found[1]


@pytest.fixture
def engine(tmp_path, files, entry_point):
    """The stand-in engine, ready to be started."""
    return Engine(tmp_path, files, stand_in.Site(str(tmp_path / "site"), entry_point))


class Engine:
    """Starts the stand-in as a process of its own."""

    def __init__(self, folder, files, site):
        self.folder, self.files, self.site = str(folder), files, site

    def options(self, drafter, **more):
        """The launch's options, as keywords."""
        found = {
            "model_path": os.path.join(self.files, "target"),
            "speculative_algorithm": "EAGLE3",
            "speculative_draft_model_path": os.path.join(self.files, drafter),
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
        }
        return found | more

    def arguments(self, drafter, **more):
        """The launch's options, as arguments."""
        pairs = self.options(drafter, **more).items()
        return [word for name, value in pairs for word in ("--" + name.replace("_", "-"), str(value))]

    def run(self, *words, **variables):
        """`python WORDS...` in the engine's environment."""
        return subprocess.run(
            [sys.executable, *words],
            env=self.site.environ(**variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def serve(self, *arguments, **variables):
        """`python -m sglang.launch_server ARGUMENTS...`."""
        return self.run("-m", "sglang.launch_server", *arguments, **variables)

    def script(self, text, **variables):
        """A launcher in Python; `options` in it makes keywords for `right` and `wrong`."""
        path = os.path.join(self.folder, "launcher.py")
        told = {name: self.options(name) for name in ("right", "wrong")}
        body = "\n".join("    " + line for line in text.strip().splitlines())
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"import sys\nimport sglang as sgl\noptions = {told!r}\nif __name__ == '__main__':\n{body}\n")
        return self.run(path, **variables)

    @property
    def started(self):
        """Whether a worker process ever ran."""
        return self.site.started
