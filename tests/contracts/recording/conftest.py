"""Drafters of every shape for the tests of recording: small ones by method, and every stored config of the field."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.manifest import FileRecord
from drafter_contracts.serving.launch import TargetFacts

#: Importable for the tests, which in importlib mode can import no file beside them.
_PATH = Path(__file__).parent / "recorded_facts.py"
_SPEC = importlib.util.spec_from_file_location("recorded_facts", _PATH)
sys.modules["recorded_facts"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["recorded_facts"])

CONFIGS = Path(__file__).parents[2] / "data" / "configs"
H, N = 64, 31
DTYPES = {"d2t": "I64", "t2d": "BOOL"}
LAYER = {
    "midlayer.self_attn.q_proj.weight": (H, 2 * H),
    "midlayer.hidden_norm.weight": (H,),
    "midlayer.post_attention_layernorm.weight": (H,),
    "norm.weight": (H,),
}
EAGLE3 = {**LAYER, "fc.weight": (H, 3 * H), "lm_head.weight": (100, H), "d2t": (100,), "t2d": (1000,)}
EAGLE3_CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": H,
    "num_hidden_layers": 1,
    "vocab_size": 1000,
    "draft_vocab_size": 100,
    "max_position_embeddings": 4096,
    "rope_theta": 500000.0,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 14, 27]},
}
DFLASH = {"fc.weight": (H, 5 * H), "hidden_norm.weight": (H,), "layers.0.self_attn.q_proj.weight": (H, H)}
DFLASH_CONFIG = {
    "architectures": ["DFlashDraftModel"],
    "hidden_size": H,
    "num_hidden_layers": 1,
    "vocab_size": 1000,
    "block_size": 16,
    "num_target_layers": N,
    "target_hidden_size": H,
    "dflash_config": {"target_layer_ids": [1, 7, 14, 20, 27], "mask_token_id": 7},
}
DECLARED = {**DFLASH_CONFIG, "aux_hidden_state_layer_ids": [2, 8, 15, 21, 28]}
EAGLE1 = {"fc.weight": (H, 2 * H), "layers.0.self_attn.q_proj.weight": (H, H), "embed_tokens.weight": (1000, H)}
NEXTN = {"model.layers.31.eh_proj.weight": (H, 2 * H), "model.embed_tokens.weight": (1000, H)}
WHOLE = {
    "model.embed_tokens.weight": (1000, H),
    "model.layers.0.mlp.up_proj.weight": (H, H),
    "lm_head.weight": (1000, H),
}
YARN = {"rope_type": "yarn", "factor": 4.0}

#: Name to (config, tensors).
SHAPES = {
    "eagle3": (EAGLE3_CONFIG, EAGLE3),
    "eagle3 config alone": (EAGLE3_CONFIG, {}),
    "eagle3 norm": ({**EAGLE3_CONFIG, "norm_before_fc": True}, {**EAGLE3, "input_norm.weight": (3 * H,)}),
    "eagle3 norm per tap": (EAGLE3_CONFIG, {**EAGLE3, **{f"fc_norm.{i}.weight": (H,) for i in range(3)}}),
    "eagle3 flags": (
        {**EAGLE3_CONFIG, "norm_output": True, "norm_before_residual": True, "rope_scaling": YARN},
        {**EAGLE3, "embed_tokens.weight": (1000, H)},
    ),
    "eagle3 quantised": ({**EAGLE3_CONFIG, "quantization_config": {"quant_method": "fp8"}}, EAGLE3),
    "eagle3 of a wider target": (
        {**EAGLE3_CONFIG, "target_hidden_size": 2 * H},
        {**EAGLE3, "fc.weight": (H, 6 * H), "embed_tokens.weight": (1000, H)},
    ),
    "p-eagle": (EAGLE3_CONFIG, {**EAGLE3, "mask_hidden": (1, 3 * H)}),
    "dflash": (DFLASH_CONFIG, DFLASH),
    "dflash declared": (DECLARED, DFLASH),
    "dflash2": (DFLASH_CONFIG, {**DFLASH, "candidate_selector.hidden_projection": (4, H)}),
    "dspark": ({**DFLASH_CONFIG, "architectures": ["DSparkDraftModel"]}, {**DFLASH, "markov_head.markov_w1": (100, 8)}),
    "eagle": ({"architectures": ["LlamaForCausalLMEagle"], "hidden_size": H, "vocab_size": 1000}, EAGLE1),
    "nextn": ({"architectures": ["DeepseekV3ForCausalLMNextN"], "num_nextn_predict_layers": 1}, NEXTN),
    "standalone": ({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "vocab_size": 1000}, WHOLE),
    "medusa": ({"medusa_num_heads": 5, "architectures": ["MedusaModel"]}, {}),
}


def read(config, tensors, *, layers=N, width=None):
    headers = tuple(TensorFact(name, DTYPES.get(name, "BF16"), tuple(shape)) for name, shape in tensors.items())
    kind = "safetensors" if tensors else "none"
    return drafter_facts(config, headers, path="head", weights=kind, target_layers=layers, target_hidden_size=width)


def stored(path):
    """A stored config as facts: symbolic tensor names made plain, the target as deep as the config says or 96."""
    document = json.loads(path.read_text(encoding="utf-8"))
    config = {key: value for key, value in document.items() if not key.startswith("_")}
    tensors = {}
    for name, shape in document.get("_tensors", {}).items():
        symbol, times = next(
            ((s, t) for s, t in ((".N.", config.get("num_hidden_layers")), (".K.", 5)) if s in name), ("", 1)
        )
        tensors |= {name.replace(symbol, f".{i}.") if symbol else name: tuple(shape) for i in range(times)}
    derived = document.get("_derived", {})
    depth = read(config, tensors, layers=None).target_layers or 96
    return read(config, tensors, layers=depth, width=derived.get("target_hidden_size"))


def target_for(facts):
    """The target that such a drafter was made for."""
    fused = facts.fc.in_width // facts.fc.taps if facts.fc is not None and facts.fc.taps else None
    return TargetFacts(
        path="org/Target",
        architecture="TargetForCausalLM",
        num_layers=facts.target_layers,
        hidden_size=facts.target_hidden_size or fused or facts.hidden_size or H,
        vocab_size=1000,
        tokenizer_sha256="5" * 64,
    )


@pytest.fixture(scope="session")
def drafters():
    """Name to facts of every shape and every stored config."""
    found = {name: read(*shape) for name, shape in SHAPES.items()}
    return found | {path.stem: stored(path) for path in sorted(CONFIGS.glob("*.json"))}


@pytest.fixture(scope="session")
def reading():
    """`read(config, tensors, layers=31, width=None)`: facts of a drafter made of these."""
    return read


@pytest.fixture(scope="session")
def shapes():
    """Name to (config, tensors)."""
    return SHAPES


@pytest.fixture
def incident():
    """Facts of the small EAGLE-3 drafter."""
    return read(*SHAPES["eagle3"])


@pytest.fixture(scope="session")
def fitting_target():
    """`fitting_target(facts)`: the target that a drafter was made for."""
    return target_for


@pytest.fixture(scope="session")
def listed():
    """Two files, in the wrong order."""
    return (
        FileRecord(path="model.safetensors", size=9, sha256="b" * 64),
        FileRecord(path="config.json", size=2, sha256="a" * 64),
    )
