"""Launches with speculation, on tiny targets and drafters (configs alone): a grid of what is given, and random ones."""

from __future__ import annotations

import itertools
import json
import os
import random

from drafter_contracts.engines.launch_rules import flag_dest

COMMON = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 320,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
LATENT = {
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_shared_experts": 1,
    "moe_layer_freq": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "num_nextn_predict_layers": 1,
}
#: Name to class, model type and what the config says beside `COMMON`.
TARGETS = {
    "llama": ("LlamaForCausalLM", "llama", {}),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", {}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", {}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe", EXPERTS),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "deepseek_v3", LATENT),
    "gpt_oss": (
        "GptOssForCausalLM",
        "gpt_oss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "glm4_moe": (
        "Glm4MoeForCausalLM",
        "glm4_moe",
        {**EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1},
    ),
    "other": ("NoSuchModelForCausalLM", "llama", {}),
}
DRAFTERS = {
    "eagle3": ("LlamaForCausalLMEagle3", "llama", {"num_hidden_layers": 1, "draft_vocab_size": 160}),
    "eagle": ("LlamaForCausalLMEagle", "llama", {"num_hidden_layers": 1}),
    "standalone": ("LlamaForCausalLM", "llama", {"num_hidden_layers": 2}),
    "dflash": (
        "DFlashDraftModel",
        "qwen3",
        {"num_hidden_layers": 2, "block_size": 6, "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]}},
    ),
    "dflash_without_size": (
        "DFlashDraftModel",
        "qwen3",
        {"num_hidden_layers": 2, "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]}},
    ),
    "dspark": (
        "DSparkDraftModel",
        "qwen3",
        {"num_hidden_layers": 2, "block_size": 7, "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]}},
    ),
}
#: What usually goes with an algorithm.
USUAL = {
    "EAGLE": "eagle",
    "NEXTN": "eagle",
    "EAGLE3": "eagle3",
    "STANDALONE": "standalone",
    "DFLASH": "dflash",
    "DSPARK": "dspark",
}
NUMBERS = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
RANDOM = 150


def write_configs(folder: str) -> None:
    """Write every target and drafter below a folder."""
    for name, (architecture, model_type, more) in {**TARGETS, **DRAFTERS}.items():
        place = os.path.join(folder, name)
        os.makedirs(place, exist_ok=True)
        config = {"architectures": [architecture], "model_type": model_type, **COMMON, **more}
        with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)


def numbers(*values: str) -> list[str]:
    """Options for steps, topk and draft tokens."""
    return [token for pair in zip(NUMBERS, values, strict=True) for token in pair]


class Launches:
    """Argument lists for one release.

    Args:
        profile: Of the release, for its algorithms and choices.
        folder: Where the configs are.
    """

    def __init__(self, profile, folder: str) -> None:
        self.folder = folder
        self.algorithms = profile.launch.speculative.algorithms
        self.flags = {flag_dest(flag): flag for flag in profile.launch.flags}
        self.chance = random.Random(f"speculation of {profile.release}")  # noqa: S311 - the same every time

    def all(self) -> list[list[str]]:
        """The grid, then random ones."""
        return [*self.grid(), *(self.random() for _ in range(RANDOM))]

    def base(self, target: str, device: str) -> list[str]:
        """A launch without speculation."""
        return ["--model-path", os.path.join(self.folder, target), "--device", device]

    def drafter(self, name: str) -> list[str]:
        """The draft path."""
        return ["--speculative-draft-model-path", os.path.join(self.folder, name)] if name else []

    def grid(self) -> list[list[str]]:
        """Every algorithm with each of the three numbers given or not."""
        launches = []
        for algorithm, given in itertools.product(self.algorithms, itertools.product((False, True), repeat=3)):
            argv = [*self.base("llama", "cuda"), "--speculative-algorithm", algorithm]
            argv += self.drafter(USUAL.get(algorithm, "eagle3" if algorithm != "NGRAM" else ""))
            for option, value, stated in zip(NUMBERS, ("3", "2", "6"), given, strict=True):
                argv += [option, value] if stated else []
            launches.append(argv)
        return launches

    def random(self) -> list[str]:
        """Any target, drafter, numbers, page size and backend."""
        chance = self.chance
        algorithm = chance.choice((*self.algorithms, *(("EAGLE3", "EAGLE") * 2)))
        argv = self.base(chance.choice(list(TARGETS)), chance.choice(("cuda", "cuda", "cuda", "cpu")))
        argv += ["--speculative-algorithm", algorithm.lower() if chance.random() < 0.05 else algorithm]
        usual = USUAL.get(algorithm, "eagle3")
        some = chance.choice(list(DRAFTERS))
        argv += self.drafter(chance.choice((*[usual] * 6, some, some, "", "not_there")))
        shape = chance.random()
        for option, values in zip(
            NUMBERS, (("1", "2", "3", "5"), ("1", "1", "2", "4"), ("2", "4", "8", "16")), strict=True
        ):
            if shape < 0.5 or (shape < 0.75 and chance.random() < 0.5):
                argv += [option, chance.choice(values)]
        if chance.random() < 0.4:
            argv += ["--page-size", chance.choice(("1", "16", "32", "64", "128"))]
        for dest, odds in (
            ("attention_backend", 0.5),
            ("decode_attention_backend", 0.1),
            ("prefill_attention_backend", 0.1),
        ):
            choices = self.flags[dest].choices if dest in self.flags else None
            if choices and chance.random() < odds:
                argv += ["--" + dest.replace("_", "-"), str(chance.choice(choices))]
        for switch, odds in (
            ("--disable-overlap-schedule", 0.1),
            ("--disable-cuda-graph", 0.1),
            ("--disable-radix-cache", 0.1),
        ):
            argv += [switch] if chance.random() < odds else []
        if "speculative_dflash_block_size" in self.flags and chance.random() < 0.15:
            argv += ["--speculative-dflash-block-size", chance.choice(("4", "6", "8"))]
        return argv
