"""The incident's drafter and manifest, and a reader that takes emitted flags apart again."""

from __future__ import annotations

import os
import sys

import pytest

from drafter_cli.demo_files import DEEPSEEK, KIMI, LAYERS, VOCABULARY, WIDTH, target_config, write_drafter
from drafter_contracts import check
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile
from drafter_contracts.launch.plan import plan
from drafter_contracts.manifest import SCHEMA, LayoutRecord, Manifest, Recommended, TargetRecord
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.read import read_serving
from drafter_contracts.serving.target import target_from_config

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # for vllm_bench: files are imported one by one

RECOMMENDED = Recommended(steps=3, topk=1, draft_tokens=4)


class Bench:
    """Asks for plans, and asks the gate's own parts about what comes out."""

    kimi, deepseek = KIMI, DEEPSEEK

    def __init__(self, folder):
        self.folder = folder

    def facts(self, ids=(2, 30, 58)):
        """The drafter with these ids in its config."""
        path = str(self.folder / "-".join(map(str, ids or ("none",))))
        return read_drafter(write_drafter(path, ids=ids), target_layers=LAYERS, target_hidden_size=WIDTH)

    def manifest(self, architecture=KIMI, boundaries=(3, 31, 59), recommended=RECOMMENDED, **more):
        """What it was trained on."""
        target = TargetRecord(
            model="moonshotai/Kimi-K2.5",
            architecture=architecture,
            layers=LAYERS,
            hidden_size=WIDTH,
            vocab_size=VOCABULARY,
            context_length=262144,
        )
        layout = LayoutRecord(boundaries=boundaries)
        fields = {"name": "kimi-eagle3", "version": "1.0.0", "method": "EAGLE3", "target": target, "layout": layout}
        return Manifest(schema=SCHEMA, recommended=recommended, **(fields | more))

    def target(self, architecture=KIMI, **more):
        """The target by its config.json."""
        return target_from_config(target_config(architecture) | more, "/models/target", source="config.json")

    def plan(self, release, manifest=None, facts=None, **more):
        """The plan on a shipped release."""
        return plan(
            manifest=manifest or self.manifest(),
            facts=facts or self.facts(),
            profile=load_profile("sglang", release),
            advisories=advisories_for(load_advisories("sglang"), release),
            **more,
        )

    def situation(self, release, manifest, facts, flags, target):
        """The launch of these flags, as the gate assembles it: without a word of the planner."""
        profile = load_profile("sglang", release)
        argv = ("python", "-m", "sglang.launch_server", "--model-path", "/models/target", *flags)
        serving = read_serving(read_invocation(argv), profile)
        serving = with_target(
            serving, profile, target=target, draft_architecture=facts.architectures[0], draft_config=facts.config
        )
        return check.assemble(
            serving=serving, profile=profile, drafter=facts, target=target, manifest=manifest, drafter_name="d"
        )


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("drafters"))
