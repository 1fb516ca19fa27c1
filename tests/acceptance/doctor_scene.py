"""A small drafter and target on disk, and engines that say that they serve them."""

from __future__ import annotations

import json
import os
import shlex

from drafter_cli.doctor import running
from drafter_cli.doctor.examine import Patient, examine
from drafter_cli.doctor.seen import Seen
from drafter_cli.gate_options import Request
from drafter_contracts.acceptance.records import AS_PROMISED, EngineState, Judgement
from drafter_contracts.acceptance.server_info import read_state
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.read import read_serving

WIDTH, VOCABULARY, LAYERS = 64, 256, 32
RELEASE = "0.5.23"
SPECULATION = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")
#: Nothing was seen: for tests of everything else.
BLIND = Seen()


def judgement(word=AS_PROMISED, **values):
    values = {"alpha": 0.01, "readings": 40, "seen": 2.8, "promised": 2.8, "reason": f"{word}, as a test says"} | values
    return Judgement(word=word, **values)


class Scene:
    """One pair of drafter and target, right in every respect, to be spoilt in one respect per test."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.release = RELEASE
        self.config = {
            "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": WIDTH,
            "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
            "head_dim": 16, "vocab_size": VOCABULARY, "draft_vocab_size": VOCABULARY, "torch_dtype": "bfloat16",
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28], "use_aux_hidden_state": True},
        }  # fmt: skip
        self.tensors = {
            "fc.weight": (WIDTH, 3 * WIDTH),
            "midlayer.hidden_norm.weight": (WIDTH,),
            "midlayer.input_layernorm.weight": (WIDTH,),
            "midlayer.self_attn.q_proj.weight": (64, 2 * WIDTH),
            "midlayer.self_attn.k_proj.weight": (64, 2 * WIDTH),
            "midlayer.self_attn.v_proj.weight": (64, 2 * WIDTH),
            "midlayer.self_attn.o_proj.weight": (WIDTH, 64),
            "midlayer.mlp.gate_proj.weight": (128, WIDTH),
            "midlayer.mlp.up_proj.weight": (128, WIDTH),
            "midlayer.mlp.down_proj.weight": (WIDTH, 128),
            "midlayer.post_attention_layernorm.weight": (WIDTH,),
            "norm.weight": (WIDTH,),
            "lm_head.weight": (VOCABULARY, WIDTH),
        }
        self.target = {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 4,
            "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
        }  # fmt: skip
        self.manifest = {
            "schema": "drafters.manifest.v1",
            "name": "head",
            "version": "1.0",
            "method": "EAGLE3",
            "target": {"model": "Org/target", "layers": LAYERS, "hidden_size": WIDTH},
            "layout": {"boundaries": [2, 16, 29]},
            "acceptance": [{"length": 2.8, "engine": "sglang 0.5.23", "steps": 3, "topk": 1, "draft_tokens": 4}],
        }
        self.flags = ["--speculative-algorithm", "EAGLE3", *SPECULATION]
        self.info = {}
        self.states = [{"avg_spec_accept_length": 2.8}]
        self.named = ""
        self.dtype = "BF16"

    @property
    def drafter(self):
        return os.path.join(self.folder, "head")

    @property
    def target_path(self):
        return os.path.join(self.folder, "target")

    def write(self):
        """The files."""
        os.makedirs(self.target_path, exist_ok=True)
        with open(os.path.join(self.target_path, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.target, file)
        write_skeleton(self.drafter, self.config, {name: (self.dtype, shape) for name, shape in self.tensors.items()})
        with open(os.path.join(self.drafter, "drafters-manifest.json"), "w", encoding="utf-8") as file:
            json.dump(self.manifest, file)

    def launch(self):
        own = ["--model-path", self.target_path, "--speculative-draft-model-path", self.drafter, *self.flags]
        return ["python3", "-m", "sglang.launch_server", *own]

    def server_info(self):
        """What the engine says: the arguments of its launch, as the release's own parser reads them."""
        profile = load_profile("sglang", self.release)
        read = read_serving(read_invocation(self.launch()), profile)
        assert not read.arguments.problems, read.arguments.problems
        own = {"launch_command": shlex.join(self.launch())} if self.release == RELEASE else {}
        document = {**read.arguments.values, **own, "version": self.release, **self.info}
        return document | {"internal_states": self.states}

    def state(self) -> EngineState:
        return read_state(json.loads(json.dumps(self.server_info())), where="http://engine/server_info")

    def examine(self, seen=BLIND, *, environment=None, monkeypatch=None, judged=None):
        """The diagnosis, with acceptance as the test says."""
        self.write()
        state = self.state()
        asked = Request((), drafter=self.named)
        patient = Patient(
            "http://engine",
            running.of_state(state, asked, environment),
            state,
            seen,
            "http://engine",
            digests=os.path.join(self.folder, "digests"),
        )
        if judged is not None:
            monkeypatch.setattr("drafter_cli.doctor.examine.judged", lambda *_: judged)
        return examine(patient)
