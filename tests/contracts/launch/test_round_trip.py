"""Every plan that resolves, read back by the gate's own parts; and every release, class and method there is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts import check
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.engines.profile import METHODS
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.launch.corrections import Correction, seen_as
from drafter_contracts.launch.plan_records import Wishes
from drafter_contracts.launch.target_facts import target_of_record
from drafter_contracts.manifest import LayoutRecord, Recommended
from drafter_contracts.solve import serves

KNOWN = releases("sglang")
#: One of each behaviour: the oldest, those around every change of ids, graphs and flags, the newest.
SAMPLE = tuple(r for r in ("0.4.5", "0.4.9", "0.5.4.post2", "0.5.9", "0.5.11", "0.5.16", "0.5.19") if r in KNOWN)
SAMPLE = (*SAMPLE, KNOWN[-1])


def classes(release):
    """Each kind of capture that the release has, by one target class and method."""
    profile = load_profile("sglang", release)
    seen = {}
    for architecture, methods in profile.targets.items():
        for method, rule in methods.items():
            if architecture not in profile.drafters:
                seen.setdefault((method, rule), (architecture, method))
    return sorted(seen.values())


def asked(bench, release, architecture, method, boundaries, ids):
    """Manifest and facts of a drafter of that method for such a target."""
    manifest = bench.manifest(architecture, boundaries, method=method)
    facts = bench.facts(ids)
    if method != "EAGLE3":  # the block size is the config's
        manifest = msgspec.structs.replace(manifest, recommended=Recommended())
        profile = load_profile("sglang", release)
        drafter = next((name for name, one in profile.drafters.items() if one.kind == method), "Unknown")
        config = {"architectures": [drafter], "num_hidden_layers": 1, "hidden_size": 7168, "vocab_size": 163840}
        config |= {"dflash_config": {"target_layer_ids": list(ids)}, "block_size": 8, "markov_rank": 64}
        config |= {"num_target_layers": 61}
        tensors = (TensorFact("fc.weight", "BF16", (7168, 3 * 7168)),)
        facts = drafter_facts(
            config, tensors, path="d", weights="safetensors", target_layers=61, target_hidden_size=7168
        )
        facts = msgspec.structs.replace(facts, method=method)
    return manifest, facts


@pytest.mark.parametrize("release", SAMPLE)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_resolves_feeds_the_layout_when_its_flags_are_read_again(bench, release, data):
    architecture, method = data.draw(st.sampled_from(classes(release)))
    boundaries = tuple(sorted(data.draw(st.sets(st.integers(0, 61), min_size=3, max_size=3))))
    start = tuple(sorted(data.draw(st.sets(st.integers(0, 60), min_size=3, max_size=3))))
    ids = data.draw(st.sampled_from([start, tuple(b - 1 for b in boundaries), boundaries]))
    manifest, facts = asked(bench, release, architecture, method, boundaries, ids)
    made = bench.plan(release, manifest, facts)
    if not made.resolved:
        assert made.flags == ()
        assert made.config is None
        return
    target = target_of_record(manifest.target)
    seen = seen_as(facts, Correction(config=made.config, weights=made.weights), target)
    again = bench.situation(release, manifest, seen, made.flags, target)
    assert not again.serving.arguments.problems
    assert serves(again.capture, again.stated.layout)
    assert check.run(again).decision in {"allow", "warn"}
    # The same flags never pass for another layout.
    other = tuple(b + 1 if b + 1 not in boundaries and b < 61 else b for b in boundaries)
    if other != boundaries:
        changed = msgspec.structs.replace(manifest, layout=LayoutRecord(boundaries=other))
        wrong = bench.situation(release, changed, seen, made.flags, target)
        assert check.run(wrong).decision not in {"allow", "warn"}


def test_some_of_every_kind_resolve(bench):
    """The property above is not about nothing."""
    resolved = set()
    for release in SAMPLE:
        for architecture, method in classes(release):
            manifest, facts = asked(bench, release, architecture, method, (3, 31, 59), (7, 8, 9))
            made = bench.plan(release, manifest, facts)
            if made.resolved:
                resolved.add((method, "--json-model-override-args" in made.flags))
    assert {(method, True) for method in METHODS} <= resolved


@pytest.mark.parametrize("release", KNOWN)
def test_no_release_is_given_an_option_it_does_not_know(bench, release):
    for architecture in (bench.kimi, bench.deepseek, "LlamaForCausalLM"):
        made = bench.plan(release, bench.manifest(architecture), wishes=Wishes(steps=4))
        known = {name for flag in load_profile("sglang", release).launch.flags for name in flag.names}
        assert {flag for flag in made.flags if flag.startswith("--")} <= known
        assert made.resolved == bool(made.flags)
        assert made.resolved == (made.verdict.decision in {"allow", "warn"})
