"""What is run: releases, shapes of targets, the ways to run them, and lists of capture ids drawn at random."""

from __future__ import annotations

import random

from drafter_contracts.engines.versions import version_key

#: Depth of the tiny targets; `programs/make_models.py` makes them so.
LAYERS = 8
PROMPT = (1, *range(10, 40))
#: What the launch's own drafter asks for.
DRAFTER_IDS = (0, 2, 4)
#: Shape to the architecture that its config names.
SHAPES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
}
RELEASES = (
    "0.4.8",
    "0.4.10.post2",
    "0.5.1",
    "0.5.2",
    "0.5.5.post3",
    "0.5.7",
    "0.5.9",
    "0.5.10",
    "0.5.12.post1",
    "0.5.14",
    "0.5.16",
    "0.5.18",
    "0.5.20",
    "0.5.22",
    "0.5.23",
)
#: Releases whose float32 rotary embedding wants a library that is not there: they run in bfloat16.
BFLOAT16 = ("0.5.5", "0.5.5.post3")
#: From this release on, the `intel_amx` attention backend calls its operators as the stand-in defines them.
AMX_DRAFTING = "0.5.22"

#: Ways to run a target, as what is said to the program; the first that works is kept.
OWN = {"backend": "torch_native", "attention": "own"}
STANDIN = {"backend": "intel_amx", "attention": "own"}
REFERENCE = {"backend": "torch_native", "attention": "reference"}
#: Where a release runs latent attention on a CPU with that backend alone.
LATENT = {"backend": "intel_amx", "attention": "reference"}
#: First release without that condition.
LATENT_ANYWHERE = "0.5.9"
#: The backend that is named to the release's own check where it refuses the one that runs.
DECLARED = {"gpt_oss": {"declared": "triton"}}
#: What a way is called in the results.
NAMES = {
    ("torch_native", "own"): "engine",
    ("intel_amx", "own"): "engine, attention operators of the stand-in",
    ("torch_native", "reference"): "engine, attention of the tests",
    ("intel_amx", "reference"): "engine, attention of the tests",
}


def ways(release: str, shape: str) -> list[dict[str, str]]:
    """Ways to run a shape in a release, in the order in which they are tried."""
    found = [OWN]
    if shape in {"deepseek_v3", "gpt_oss"}:
        found = [STANDIN] if version_key(release) >= version_key(AMX_DRAFTING) else []
    latent = shape == "deepseek_v3" and version_key(release) < version_key(LATENT_ANYWHERE)
    return [*found, LATENT if latent else REFERENCE | DECLARED.get(shape, {})]


def dtype(release: str) -> str:
    """Type in which the release runs."""
    first, last = map(version_key, BFLOAT16)
    return "bfloat16" if first <= version_key(release) <= last else "float32"


def id_lists(release: str, shape: str) -> list[list[int] | None]:
    """Lists of ids: none given, one of each kind that engines treat differently, some of any kind; seeded by name."""
    draw = random.Random(f"{release} {shape}")  # noqa: S311 - no secret
    n = LAYERS
    inner = range(1, n - 1)
    three = sorted(draw.sample(inner, 3))
    pair = draw.sample(range(2, n - 1), 2)
    lists: list[list[int] | None] = [
        None,
        [],
        three,
        three[::-1],
        [1, *sorted(pair)],
        [0, *sorted(pair)],
        [*sorted(pair), draw.choice(pair)],
        [*sorted(pair), n - 1],
        [*sorted(pair), n],
        [*sorted(pair), n + 1],
        [-1, *sorted(pair)],
        [n - 1],
        [draw.choice(inner)],
        draw.sample(range(n - 1), 5),
    ]
    lists += [[draw.randint(-2, n + 1) for _ in range(draw.randint(1, 5))] for _ in range(6)]
    return lists
