"""vLLM profiles and plans against the released wheels: the same bytes again, and the release's own functions as judge.

For thousands of drafters with configs of every kind, the config that a plan gives out is read by the release's own V1
and V2 functions and built by the release's own drafter class. The functions run in the sandbox; nothing is installed.
"""

from __future__ import annotations

import os
import random

import pytest
import vllm_bench

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.scan.sandbox import run_probe
from drafter_contracts.engines.vllm import reading
from drafter_contracts.engines.vllm.scan import encode, scan
from drafter_contracts.engines.vllm.store import document, load_profile, releases

pytestmark = [pytest.mark.conformance]
#: `make rescan`: every release; else the newest, and of the others what is in the cache.
ALL = bool(os.environ.get("DRAFTERS_ALL_RELEASES"))
PROBES = "drafter_contracts.engines.vllm.probes"
IDS, WIDTH = vllm_bench.IDS, vllm_bench.WIDTH
TARGETS = ("LlamaForCausalLM", "Qwen3ForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM")
#: Plans on each release.
DRAFTERS = 1500


@pytest.mark.parametrize("release", releases() if ALL else releases()[-1:])
def test_a_wheel_gives_the_shipped_profile_again(vllm_wheel, release):
    assert encode(scan(vllm_wheel(release))) == document(release)


def random_config(dice):
    """A drafter's config with ids at some of the keys that engines and producers use."""
    config = {}

    def ids():
        return sorted(dice.sample(range(37), dice.randrange(1, 6)))

    if dice.random() < 0.4:
        config[IDS] = ids()
    if dice.random() < 0.6:
        config["eagle_config"] = {IDS: ids()} if dice.random() < 0.8 else {"use_aux_hidden_state": True}
    if dice.random() < 0.2:
        config["num_aux_hidden_states"] = dice.randrange(1, 6)
    if dice.random() < 0.1:
        config["dflash_config"] = {"target_layer_ids": ids()}
    if dice.random() < 0.1:
        config["target_layer_ids"] = ids()
    return config


def drafters(release):
    """Plans that resolve: target, layout in the order of the render, and the config that the release would see."""
    dice = random.Random(f"drafters {release}")  # noqa: S311 - experiments, the same each time
    for _ in range(DRAFTERS):
        depth = dice.choice((24, 36, 61))
        boundaries = dice.sample(range(depth + 1), dice.choice((1, 2, 3, 3, 3, 4, 5)))
        if dice.random() < 0.7:
            boundaries.sort()
        if dice.random() < 0.2:
            boundaries = [2, depth // 2, depth - 3]
        architecture, config = dice.choice(TARGETS), vllm_bench.FLAT | random_config(dice)
        made = vllm_bench.planned(
            release,
            vllm_bench.manifest_of(boundaries, architecture=architecture, layers=depth),
            vllm_bench.facts_of(config, len(boundaries), layers=depth),
        )
        if made.resolved:
            order = made.weights.order or range(len(boundaries))
            wanted = tuple(boundaries[place] for place in order)
            yield architecture, depth, wanted, made.config or config


@pytest.mark.parametrize("release", releases())
def test_the_releases_own_code_reads_every_config_that_a_plan_gives_out(sources_of, release):
    found = list(drafters(release))
    assert len(found) > (20 if release == "0.11.0" else 200)
    configs = [config for *_, config in found]
    told = run_probe("readings", sources_of(release), {"configs": configs}, package="vllm", probes=PROBES)
    profile = load_profile(release)
    assert set(told["runners"]) == set(profile.runners)
    for answer in told["runners"].values():
        for (architecture, depth, wanted, config), ids in zip(found, answer["outcomes"], strict=True):
            rule = profile.rules[profile.targets[architecture]]
            captured = capture_once(rule, depth, ids)
            assert tuple(tap.boundary for tap in captured.taps) == wanted, (config, ids)
    build = {"only": ["LlamaForCausalLMEagle3"], "configs": {"LlamaForCausalLMEagle3": configs}}
    built = run_probe("drafters", sources_of(release), build, package="vllm", probes=PROBES)
    columns = built["classes"]["LlamaForCausalLMEagle3"]["columns"]
    assert columns == [len(wanted) * WIDTH for _, _, wanted, _ in found]


@pytest.mark.parametrize("release", releases())
def test_the_interpreter_reads_what_the_releases_own_functions_read(sources_of, release):
    dice = random.Random(f"configs {release}")  # noqa: S311 - experiments, the same each time
    configs = [random_config(dice) for _ in range(3000)]
    told = run_probe("readings", sources_of(release), {"configs": configs}, package="vllm", probes=PROBES)
    for name, runner in load_profile(release).runners.items():
        for config, ids in zip(configs, told["runners"][name]["outcomes"], strict=True):
            got = reading.read_ids(runner, config)[0]
            assert (None if got is None else list(got)) == ids, config


def test_a_target_captures_at_the_ends_what_its_profile_says(sources_of):
    names = ["LlamaForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"]
    told = run_probe("targets", sources_of("0.33.0"), {"architectures": names}, package="vllm", probes=PROBES)
    profile = load_profile("0.33.0")
    for name, one in told["architectures"].items():
        rule = profile.rules[profile.targets[name]]
        assert one["study"]["cases"]
        for case in one["study"]["cases"]:
            got = capture_once(rule, case["n"], case["ids"])
            assert got.error == case.get("error", ""), case
            assert [[tap.boundary, ""] for tap in got.taps] == case.get("taps", []), case
