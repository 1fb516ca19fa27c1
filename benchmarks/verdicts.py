"""What a verdict and a plan cost: medians of wall milliseconds in one process, nothing kept between rounds.

python benchmarks/verdicts.py [--rounds 300] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time

import msgspec

from drafter_cli.demo_files import KIMI, LAYERS, VOCABULARY, WIDTH, target_config, write_drafter
from drafter_contracts import check
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile
from drafter_contracts.launch.options import effective, read_launch
from drafter_contracts.launch.plan import plan
from drafter_contracts.manifest import SCHEMA, LayoutRecord, Manifest, Recommended, TargetRecord
from drafter_contracts.serving.target import target_from_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ENGINE = "sglang"
TARGET_VERDICT_MS = 1.0
#: Ids right as they are; ids found and given by override; refused.
RELEASES = ("0.5.12.post1", "0.5.23", "0.5.9")


def median(function: Callable[[], object], rounds: int) -> float:
    """Median wall milliseconds of a call."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def manifest() -> Manifest:
    """The incident's contract."""
    return Manifest(
        schema=SCHEMA,
        name="kimi-eagle3",
        version="1.0.0",
        method="EAGLE3",
        target=TargetRecord(
            architecture=KIMI, layers=LAYERS, hidden_size=WIDTH, vocab_size=VOCABULARY, context_length=262144
        ),
        layout=LayoutRecord(boundaries=(3, 31, 59)),
        recommended=Recommended(steps=3, topk=1, draft_tokens=4),
    )


def measure(rounds: int) -> dict[str, float]:
    """Case to milliseconds."""
    times = {}
    contract = manifest()
    target = target_from_config(target_config(), "/models/target", source="config.json")
    with tempfile.TemporaryDirectory() as folder:
        facts = read_drafter(write_drafter(folder, ids=(2, 30, 58)), target_layers=LAYERS, target_hidden_size=WIDTH)
    for release in RELEASES:
        profile = load_profile(ENGINE, release)
        advisories = advisories_for(load_advisories(ENGINE), release)
        task = {"manifest": contract, "facts": facts, "profile": profile, "target": target, "advisories": advisories}
        made = plan(**task)
        flags = made.flags or ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/d")
        serving = effective(read_launch(profile, flags, target.path), profile, target, facts)
        situation = check.assemble(
            serving=serving, profile=profile, drafter=facts, target=target, manifest=contract, advisories=advisories
        )
        word = made.verdict.decision
        times[f"verdict alone, {release}: {word}"] = median(lambda s=situation: check.run(s), rounds)
        times[f"plan, {release}: {word}"] = median(lambda t=task: plan(**t), rounds)
    times["encode a verdict as JSON"] = median(lambda: msgspec.json.encode(check.run(situation)), rounds)
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times = measure(options.rounds)
    if options.json:
        print(json.dumps(times, indent=2))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    for name, value in times.items():
        print(f"{name:<46}{value:>10.3f} ms")
    slowest = max(value for name, value in times.items() if name.startswith("verdict"))
    print(f"\nslowest verdict alone: {slowest:.3f} ms (target {TARGET_VERDICT_MS:.0f} ms)")


if __name__ == "__main__":
    main()
