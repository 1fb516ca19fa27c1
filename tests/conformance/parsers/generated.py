"""Drafters of many kinds with their targets, drawn with a seed, and the manifests that publishing them records."""

from __future__ import annotations

import json
import os
import random
from typing import NamedTuple

from speculation_cases import COMMON, TARGETS

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.launch.plan_records import Wishes
from drafter_contracts.manifest import FileRecord, Manifest
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement
from drafter_contracts.serving.launch import TargetFacts
from drafter_contracts.serving.target import read_target

COUNT = 200
SEED = "manifests"
WIDTH, HEADS, KV_HEADS, HEAD, NARROW = 64, 4, 2, 16, 128
VOCABULARY, DRAFTED = COMMON["vocab_size"], 160
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
#: Targets of `speculation_cases` and more: name to class, model type and what the config says beside `COMMON`.
CLASSES = {name: given for name, given in TARGETS.items() if name not in {"other", "glm4_moe"}} | {
    "kimi_k2": ("DeepseekV3ForCausalLM", "kimi_k2", TARGETS["deepseek_v3"][2]),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text", {"sliding_window": 8, "query_pre_attn_scalar": 16}),
    "mistral": ("MistralForCausalLM", "mistral", {}),
}
#: What is drawn, and how often.
TARGET_ODDS = {
    "llama": 5, "qwen3": 5, "qwen3_moe": 4, "deepseek_v3": 4, "kimi_k2": 1, "gpt_oss": 3, "qwen2": 2, "gemma3": 1,
    "mistral": 1,
}  # fmt: skip
METHOD_ODDS = {"EAGLE3": 13, "EAGLE": 2, "STANDALONE": 2, "DFLASH": 3, "DSPARK": 1}
TAPS_ODDS = {3: 8, 2: 1, 4: 1, 5: 1}
LAYOUTS = {"as the class's default": 3, "of any layers": 6, "in another order": 1}
#: Positions of drafters; those of targets are 2048 or 4096.
POSITIONS = {1024: 1, 2048: 1, 4096: 8}
IDS = {"outputs": 6, "missing": 1, "boundaries": 2}
RECOMMENDED = (
    {"steps": 3, "topk": 1, "draft_tokens": 4},
    {"steps": 5, "topk": 1, "draft_tokens": 6},
    {"steps": 5, "topk": 4, "draft_tokens": 8},
    {"steps": 3, "topk": 8, "draft_tokens": 16},
    {"steps": 4, "topk": 1, "draft_tokens": 5},
    {"speculative_tokens": 3},
    {},
)
#: More of an operator's launch.
EXTRAS = (
    ("--page-size", "64"),
    ("--mem-fraction-static", "0.8"),
    ("--attention-backend", "triton"),
    ("--attention-backend", "fa3"),
    ("--max-running-requests", "16"),
    ("--chunked-prefill-size=4096",),
    ("--dtype", "bfloat16"),
    ("--disable-cuda-graph",),
    ("--disable-radix-cache",),
    ("--trust-remote-code",),
    ("--json-model-override-args", '{"rope_theta": 20000.0}'),
    ("--context-length", "1024"),
)


class Generated(NamedTuple):
    """A drafter with its contract.

    Attributes:
        number: Which of all.
        target: The target's directory.
        drafter: Its own.
        manifest: What is recorded of it.
        facts: What its files say.
        seen: What the target's config says.
        wishes: What the operator adds.
    """

    number: int
    target: str
    drafter: str
    manifest: Manifest
    facts: DrafterFacts
    seen: TargetFacts
    wishes: Wishes


def drawn(chance: random.Random, odds: dict) -> object:
    """One of the keys."""
    return chance.choices(list(odds), list(odds.values()))[0]


def generate(folder: str, numbers: range = range(COUNT)) -> list[Generated]:
    """The drafters, written below a folder; each is drawn by its number alone."""
    return [_one(folder, number, random.Random(f"{SEED} {number}")) for number in numbers]  # noqa: S311 - no secret


def _one(folder: str, number: int, chance: random.Random) -> Generated:
    layers = chance.choice((12, 24, 36, 61))
    name, method = drawn(chance, TARGET_ODDS), drawn(chance, METHOD_ODDS)
    target = _target(os.path.join(folder, f"{number}-target"), name, layers, chance)
    place = os.path.join(folder, f"{number}-drafter")
    boundaries = None
    if method in {"EAGLE3", "DFLASH", "DSPARK"}:
        boundaries = _layout(chance, layers, drawn(chance, TAPS_ODDS), plain=method != "EAGLE3")
    config, tensors = _DRAFTERS[method](chance, layers, boundaries)
    write_skeleton(place, config, tensors)
    seen = read_target(target)
    facts = read_drafter(
        place,
        target_layers=seen.num_layers,
        target_hidden_size=seen.hidden_size,
        target_model_type=seen.text_model_type,
    )
    recommended = chance.choice(RECOMMENDED)
    said = Statement(
        name=f"drafter-{number}",
        version="1.0.0",
        method=method,
        boundaries=boundaries,
        option="" if boundaries is None else f"--boundaries {','.join(map(str, boundaries))}",
        target_model=f"org/{name}",
        trained_context=chance.choice((None, None, 2048)),
        **recommended,
    )
    recorded = record(facts, said, seen, (FileRecord(path="config.json", size=1, sha256="0" * 64),))
    assert recorded.manifest is not None, (number, recorded.obstacles)
    return Generated(number, target, place, recorded.manifest, facts, seen, Wishes(extra=_extras(chance)))


def _extras(chance: random.Random) -> tuple[str, ...]:
    chosen = chance.sample(EXTRAS, chance.choice((0, 0, 1, 1, 2)))
    given = {option[0].partition("=")[0]: option for option in chosen}  # each option once
    return tuple(word for option in given.values() for word in option)


def _target(place: str, name: str, layers: int, chance: random.Random) -> str:
    architecture, model_type, more = CLASSES[name]
    config = {"architectures": [architecture], "model_type": model_type, **COMMON, **more, "num_hidden_layers": layers}
    config["max_position_embeddings"] = chance.choice((2048, 4096))
    if chance.random() < 0.15:
        config["quantization_config"] = FP8
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return place


def _layout(chance: random.Random, layers: int, taps: int, *, plain: bool) -> tuple[int, ...]:
    kind = drawn(chance, LAYOUTS)
    if kind == "as the class's default" and not plain:
        return (2, layers // 2, layers - 3)
    found = tuple(sorted(chance.sample(range(1, layers), taps)))
    if kind == "in another order" and not plain:
        return tuple(chance.sample(found, taps))
    return found


def _layer(prefix: str, *, inputs: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD, inputs * WIDTH),
        "self_attn.k_proj": (KV_HEADS * HEAD, inputs * WIDTH),
        "self_attn.v_proj": (KV_HEADS * HEAD, inputs * WIDTH),
        "self_attn.o_proj": (WIDTH, HEADS * HEAD),
        "mlp.gate_proj": (NARROW, WIDTH),
        "mlp.up_proj": (NARROW, WIDTH),
        "mlp.down_proj": (WIDTH, NARROW),
        "post_attention_layernorm": (WIDTH,),
    }
    return {f"{prefix}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}


def _plain(more: dict[str, tuple[int, ...]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: ("BF16", shape) for name, shape in more.items()}


def _config(architecture: str, model_type: str, chance: random.Random, **more: object) -> dict[str, object]:
    config = {"architectures": [architecture], "model_type": model_type, **COMMON, **more}
    config["max_position_embeddings"] = drawn(chance, POSITIONS)
    if chance.random() < 0.08:
        config["quantization_config"] = FP8
    return config


def _eagle3(chance, layers, boundaries):
    narrow = chance.random() < 0.6
    config = _config("LlamaForCausalLMEagle3", "llama", chance, num_hidden_layers=1)
    config["draft_vocab_size"] = DRAFTED if narrow else VOCABULARY
    written = {
        "outputs": [boundary - 1 for boundary in boundaries],
        "boundaries": list(boundaries),
        "missing": None,
    }[drawn(chance, IDS)]
    if written is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": written, "use_aux_hidden_state": True}
    if len(boundaries) != 3 and chance.random() < 0.7:
        config["num_aux_hidden_states"] = len(boundaries)
    tensors = _plain({
        "fc.weight": (WIDTH, len(boundaries) * WIDTH),
        "midlayer.hidden_norm.weight": (WIDTH,),
        "midlayer.input_layernorm.weight": (WIDTH,),
        "norm.weight": (WIDTH,),
        "lm_head.weight": (config["draft_vocab_size"], WIDTH),
    })  # fmt: skip
    if narrow:
        tensors |= {"d2t": ("I64", (DRAFTED,)), "t2d": ("BOOL", (VOCABULARY,))}
    return config, tensors | _layer("midlayer", inputs=2)


def _eagle(chance, _layers, _boundaries):
    config = _config("LlamaForCausalLMEagle", "llama", chance, num_hidden_layers=1)
    return config, _plain({"fc.weight": (WIDTH, 2 * WIDTH)}) | _layer("layers.0", inputs=1)


def _standalone(chance, _layers, _boundaries):
    config = _config("LlamaForCausalLM", "llama", chance, num_hidden_layers=2)
    ends = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    tensors = _plain(ends | {"lm_head.weight": (VOCABULARY, WIDTH)})
    for number in range(2):
        tensors |= _layer(f"model.layers.{number}", inputs=1)
        tensors |= _plain({f"model.layers.{number}.input_layernorm.weight": (WIDTH,)})
    return config, tensors


def _block(chance, layers, boundaries, architecture, block):
    config = _config(architecture, "qwen3", chance, num_hidden_layers=2, block_size=block)
    ids = [boundary - 1 for boundary in boundaries]
    config |= {"num_target_layers": layers, "dflash_config": {"mask_token_id": 3, "target_layer_ids": ids}}
    tensors = _plain({
        "fc.weight": (WIDTH, len(boundaries) * WIDTH), "hidden_norm.weight": (WIDTH,), "norm.weight": (WIDTH,),
    })  # fmt: skip
    for number in range(2):
        tensors |= _layer(f"layers.{number}", inputs=1)
        tensors |= _plain({f"layers.{number}.input_layernorm.weight": (WIDTH,)})
    return config, tensors


def _dflash(chance, layers, boundaries):
    return _block(chance, layers, boundaries, "DFlashDraftModel", chance.choice((8, 16)))


def _dspark(chance, layers, boundaries):
    config, tensors = _block(chance, layers, boundaries, "DSparkDraftModel", 7)
    config["dflash_config"] |= {"projector_type": "dspark", "markov_rank": 16, "markov_head_type": "vanilla"}
    tensors |= _plain({"markov_head.w1.weight": (16, WIDTH), "markov_head.w2.weight": (VOCABULARY, 16)})
    return config, tensors


_DRAFTERS = {"EAGLE3": _eagle3, "EAGLE": _eagle, "STANDALONE": _standalone, "DFLASH": _dflash, "DSPARK": _dspark}
