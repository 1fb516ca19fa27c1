"""A narrow EAGLE-3 drafter in the forms of several trainers, and what a release makes of it."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile
from drafter_contracts.launch.plan import plan
from drafter_contracts.launch.plan_records import Wishes
from drafter_contracts.manifest import SCHEMA, DraftRecord, LayoutRecord, Manifest, Recommended, TargetRecord

WIDTH, DRAFTED, VOCABULARY, LAYERS = 256, 1024, 4096, 24
IN_LAYER = {
    "hidden_norm.weight": (WIDTH,),
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (WIDTH, 2 * WIDTH),
    "self_attn.k_proj.weight": (WIDTH, 2 * WIDTH),
    "self_attn.v_proj.weight": (WIDTH, 2 * WIDTH),
    "self_attn.o_proj.weight": (WIDTH, WIDTH),
    "mlp.gate_proj.weight": (512, WIDTH),
    "mlp.up_proj.weight": (512, WIDTH),
    "mlp.down_proj.weight": (WIDTH, 512),
}
DTYPES = {"d2t": "I64", "t2d": "BOOL"}
TRANSFORMER = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


class Small:
    """Makes drafters and asks for plans."""

    width, drafted, transformer = WIDTH, DRAFTED, TRANSFORMER
    flat: ClassVar = {
        **TRANSFORMER,
        "rope_theta": 10000.0,
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": DRAFTED,
    }
    speculators: ClassVar = {
        "architectures": ["Eagle3Speculator"],
        "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"},
        "draft_vocab_size": DRAFTED,
        "eagle_aux_hidden_state_layer_ids": [3, 11, 19],
        "norm_before_residual": False,
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "X", "architectures": ["Y"]}},
        "speculators_model_type": "eagle3",
        "speculators_version": "0.5.0",
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformer_layer_config": {**TRANSFORMER, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    }

    def tensors(self, layer="layers.0.", *, taps=3, head=True, top="", more=None):
        """Tensors by name and shape; `top` is put before all but head and maps."""
        found = {
            "fc.weight": (WIDTH, taps * WIDTH),
            "norm.weight": (WIDTH,),
            "embed_tokens.weight": (VOCABULARY, WIDTH),
        }
        found |= {f"{layer}{name}": shape for name, shape in IN_LAYER.items()}
        named = {f"{top}{name}": shape for name, shape in found.items()}
        if head:
            named |= {"lm_head.weight": (DRAFTED, WIDTH), "d2t": (DRAFTED,), "t2d": (VOCABULARY,)}
        return tuple(TensorFact(n, DTYPES.get(n, "BF16"), s) for n, s in sorted((named | (more or {})).items()))

    def facts(self, config, tensors=None):
        return drafter_facts(
            config,
            self.tensors() if tensors is None else tensors,
            path="/d",
            weights="safetensors",
            target_layers=LAYERS,
            target_hidden_size=WIDTH,
        )

    def manifest(self, boundaries=(3, 11, 19), architecture="LlamaForCausalLM", draft=None, **more):
        target = TargetRecord(
            model="meta/L",
            architecture=architecture,
            layers=LAYERS,
            hidden_size=WIDTH,
            vocab_size=VOCABULARY,
            context_length=4096,
        )
        fields = {"name": "d", "version": "1", "method": "EAGLE3", "layout": LayoutRecord(boundaries=boundaries)}
        fields["recommended"] = Recommended(steps=3, topk=1, draft_tokens=4)
        return Manifest(schema=SCHEMA, target=target, draft=draft or DraftRecord(), **(fields | more))

    def plan(self, release, config, tensors=None, *, prefer="render", manifest=None, profile=None):
        """What is answered for a shipped release."""
        return plan(
            manifest=manifest or self.manifest(),
            facts=self.facts(config, tensors),
            profile=profile or load_profile("sglang", release),
            advisories=advisories_for(load_advisories("sglang"), release),
            wishes=Wishes(prefer=prefer),
        )

    def changed(self, made):
        """Keys that were set or left out."""
        return [change.partition(" is ")[0] for change in made.config_changes]

    def without(self, config, *keys):
        return {key: value for key, value in config.items() if key not in keys}

    def profile(self, release, name, **more):
        """A release whose class does something else."""
        found = load_profile("sglang", release)
        known = msgspec.structs.replace(found.drafters[name], **more)
        return msgspec.structs.replace(found, drafters={**found.drafters, name: known})


@pytest.fixture(scope="session")
def small():
    return Small()
