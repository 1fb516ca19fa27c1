"""Drafters, targets and manifests for plans on vLLM, made of the few facts that decide them."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.engines.store import load_profile as load_sglang
from drafter_contracts.engines.store import releases as sglang_releases
from drafter_contracts.engines.vllm.store import load_profile
from drafter_contracts.launch.vllm_plan import plan
from drafter_contracts.manifest import SCHEMA, DraftRecord, LayoutRecord, Manifest, Recommended, TargetRecord

WIDTH, VOCABULARY, DRAFT_VOCABULARY = 64, 1000, 500
IDS = "eagle_aux_hidden_state_layer_ids"
FLAT = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": 1,
    "vocab_size": VOCABULARY, "draft_vocab_size": DRAFT_VOCABULARY, "num_attention_heads": 4,
    "intermediate_size": 128, "rms_norm_eps": 1e-5,
}  # fmt: skip
SPECULATORS = {
    "speculators_config": {
        "proposal_methods": [{"speculative_tokens": 3}], "verifier": {"name_or_path": "target"},
    },
    "speculators_model_type": "eagle3",
    "transformer_layer_config": {
        "model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": 1, "vocab_size": VOCABULARY,
    },
    "architectures": ["Eagle3Speculator"],
    "draft_vocab_size": DRAFT_VOCABULARY,
    "norm_before_residual": False,
}  # fmt: skip
TENSORS = {
    "midlayer.self_attn.q_proj.weight": (64, 2 * WIDTH), "norm.weight": (WIDTH,), "d2t": (DRAFT_VOCABULARY,),
    "lm_head.weight": (DRAFT_VOCABULARY, WIDTH), "t2d": (VOCABULARY,),
}  # fmt: skip


def manifest_of(boundaries, *, architecture="LlamaForCausalLM", layers=32, method="EAGLE3", norm="none", **draft):
    """What a drafter was trained on."""
    target = TargetRecord(model="T", architecture=architecture, layers=layers, hidden_size=WIDTH, vocab_size=VOCABULARY)
    return Manifest(
        schema=SCHEMA, name="d", version="1.0.0", method=method, target=target, draft=DraftRecord(**draft),
        layout=LayoutRecord(boundaries=tuple(boundaries), norm=norm), recommended=Recommended(speculative_tokens=3),
    )  # fmt: skip


def facts_of(config, taps, *, layers=32, **tensors):
    """What the files of a drafter of so many taps say."""
    shapes = {"fc.weight": (WIDTH, WIDTH * taps)} | TENSORS | tensors
    facts = [TensorFact(name, "BF16", shape) for name, shape in sorted(shapes.items())]
    return drafter_facts(
        config, tuple(facts), path="/d", weights="safetensors", target_layers=layers, target_hidden_size=WIDTH,
        target_model_type="llama",
    )  # fmt: skip


def planned(release, manifest, facts, **more):
    """The plan on a shipped release."""
    newest = load_sglang("sglang", sglang_releases("sglang")[-1])
    return plan(manifest=manifest, facts=facts, profile=load_profile(release), sglang=newest, **more)


def codes(made):
    """Codes of findings that stand against it."""
    return {one.code for one in made.verdict.findings if one.severity in {"refuse", "unknown"}}
