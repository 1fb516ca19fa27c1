"""Every plan that resolves, on every release: its flags, read back as that release reads them, are right and enough."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts import check
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.engines.capture import effective_capture
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.engines.versions import version_key
from drafter_contracts.launch import options
from drafter_contracts.launch.corrections import Correction, seen_as
from drafter_contracts.launch.plan_records import Wishes
from drafter_contracts.manifest import Recommended
from drafter_contracts.serving.parse import parse_arguments
from drafter_contracts.solve import same_taps

KNOWN = releases("sglang")
#: Target classes by family: latent attention, dense, mixture of experts.
TARGETS = (
    "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM", "GptOssForCausalLM",
)  # fmt: skip
#: Boundaries trained on, and the ids in the drafter's config: the classes' default, and layouts of its own.
LAYOUTS = (((2, 30, 58), (2, 30, 58)), ((2, 30, 58), None), ((3, 31, 59), (2, 30, 58)), ((5, 20, 40), (7, 8, 9)))
RECOMMENDED = (Recommended(steps=3, topk=1, draft_tokens=4), Recommended(steps=4, topk=2, draft_tokens=6))
#: What an operator may have in the command already.
OWN = (
    (), ("--page-size", "64"), ("--quantization", "fp8"), ("--attention-backend", "flashmla"),
    ("--attention-backend", "triton"), ("--context-length", "4096"), ("--disable-cuda-graph",), ("--dtype", "half"),
    ("--speculative-num-steps", "2"), ("--json-model-override-args", '{"sliding_window": 7}'),
)  # fmt: skip


def mapped(facts):
    """The same drafter with a reduced vocabulary and its map: the form that the oldest releases insist on."""
    config = facts.config | {"draft_vocab_size": 32000}
    tensors = [tensor for tensor in facts.tensors if "lm_head" not in tensor.name]
    tensors += [TensorFact("d2t", "I64", (32000,)), TensorFact("lm_head.weight", "BF16", (32000, 7168))]
    return drafter_facts(
        config, tuple(sorted(tensors, key=lambda tensor: tensor.name)), path="d", weights="safetensors",
        target_layers=61, target_hidden_size=7168,
    )  # fmt: skip


@pytest.fixture(scope="module")
def drafters(bench):
    """One for each list of ids."""
    return {ids: mapped(bench.facts(ids)) for ids in (*(ids for _, ids in LAYOUTS), (4, 19, 39))}


def given_wishes(release, extra, **more):
    """The wishes, without an option that the release has not."""
    names = {name for flag in load_profile("sglang", release).launch.flags for name in flag.names}
    return Wishes(extra=extra if not extra or extra[0] in names else (), **more)


def assert_right(bench, release, manifest, facts, wishes, made):
    """The flags together with the operator's own, read by the gate's own parts."""
    profile = load_profile("sglang", release)
    alone = parse_arguments(profile.launch.flags, ("--model-path", "m", *made.flags))
    assert alone.problems == ()
    named = [word for word in made.flags if word.startswith("--")]
    assert len(named) == len(set(named)) == len(options.split(profile, made.flags)), "no option is printed twice"
    target = bench.target(manifest.target.architecture)
    seen = seen_as(facts, Correction(config=made.config, weights=made.weights), target)
    s = bench.situation(release, manifest, seen, (*wishes.extra, *made.flags), target)
    assert s.serving.arguments.problems == ()
    verdict = check.run(s)
    assert verdict.decision in {"allow", "warn"}, [(one.code, one.message) for one in verdict.findings]
    stated, effective = s.serving.speculation.stated, s.serving.speculation.effective
    assert all(number in {None, stated[at]} or stated[at] is None for at, number in enumerate(effective))
    assert_fed(s, profile)


def assert_fed(s, profile):
    """Eager execution and graph replay both feed the layout; replay is asked even where it looks like eager."""
    wanted = s.stated.layout.taps
    assert same_taps(wanted, s.capture.eager.taps)
    if s.serving.cuda_graphs:
        both = effective_capture(s.rule, profile.graphs.get(s.method), s.target.num_layers, s.ids, graphs_on=True)
        assert both.replay is None or same_taps(wanted, both.replay.taps)
        assert not both.undetermined


@pytest.mark.parametrize("release", KNOWN)
def test_every_target_and_layout(bench, drafters, release):
    for architecture in TARGETS:
        for boundaries, ids in LAYOUTS:
            manifest = bench.manifest(architecture, boundaries)
            made = bench.plan(release, manifest, drafters[ids], target=bench.target(architecture))
            assert made.resolved == bool(made.flags)
            if made.resolved:
                assert_right(bench, release, manifest, drafters[ids], Wishes(), made)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_the_operator_has_in_the_command_already(bench, drafters, data):
    release = data.draw(st.sampled_from(KNOWN))
    boundaries, ids = data.draw(st.sampled_from(LAYOUTS))
    manifest = bench.manifest(
        data.draw(st.sampled_from(TARGETS)), boundaries, recommended=data.draw(st.sampled_from(RECOMMENDED))
    )
    facts = drafters[ids]
    numbers = {"steps": data.draw(st.none() | st.integers(1, 6)), "topk": data.draw(st.none() | st.integers(1, 3))}
    extra = data.draw(st.sampled_from(OWN))
    if "--speculative-num-steps" in extra:
        numbers["steps"] = None
    wishes = given_wishes(release, extra, **numbers)
    made = bench.plan(release, manifest, facts, target=bench.target(manifest.target.architecture), wishes=wishes)
    if made.resolved:
        assert_right(bench, release, manifest, facts, wishes, made)
    else:
        assert made.flags == ()


def resolved(bench, architecture, boundaries, facts):
    """Releases on which it resolves, with the options printed beyond the drafter's own."""
    manifest = bench.manifest(architecture, boundaries)
    found = {}
    for release in KNOWN:
        made = bench.plan(release, manifest, facts, target=bench.target(architecture))
        if made.resolved:
            found[release] = tuple(word for word in made.flags[10:] if word.startswith("--"))
    return found


def test_a_layout_of_its_own_is_honest_on_every_release_that_has_the_hook(bench, drafters):
    """Ids are read from 0.4.9 on; up to 0.5.10.post1 graphs replay the default layers whatever they are."""
    honest = resolved(bench, "LlamaForCausalLM", (5, 20, 40), drafters[4, 19, 39])
    able = [release for release in KNOWN if version_key(release) >= version_key("0.4.9")]
    assert sorted(honest, key=version_key) == able
    for release, more in honest.items():
        old = version_key(release) < version_key("0.5.11")
        assert more == (("--disable-cuda-graph",) if old else ()), release


def test_ids_that_are_wrong_are_set_by_override_in_every_release_that_reads_ids(bench, drafters):
    told = resolved(bench, "LlamaForCausalLM", (5, 20, 40), drafters[7, 8, 9])
    assert len(told) == len([release for release in KNOWN if version_key(release) >= version_key("0.4.9")])
    assert all("--json-model-override-args" in more for more in told.values())


def test_the_default_layout_needs_no_flag_where_no_ids_are_stated(bench, drafters):
    """Also in the releases before ids were read, whose default is all they can do."""
    told = resolved(bench, "LlamaForCausalLM", (2, 30, 58), drafters[None])
    assert set(told) == set(KNOWN)
    assert set(told.values()) == {()}


def test_what_a_release_cannot_is_refused_with_those_that_can(bench, drafters):
    from drafter_contracts.launch.others import others

    for release in ("0.4.8", "0.5.4"):
        manifest, facts = bench.manifest("GptOssForCausalLM", (5, 20, 40)), drafters[4, 19, 39]
        if release == "0.5.4":
            manifest = bench.manifest(bench.kimi, (5, 20, 40))
        made = bench.plan(release, manifest, facts, others=lambda s, r=release: others(s, "sglang", r))
        assert made.flags == ()
        assert any("0.5.23" in one.remedy or " on" in one.remedy for one in made.verdict.findings)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_arguments_taken_apart_by_option_are_the_same_arguments(data):
    profile = load_profile("sglang", data.draw(st.sampled_from((KNOWN[0], KNOWN[-1]))))
    taking = [flag.names[-1] for flag in profile.launch.flags if flag.action == "store" and not flag.nargs]
    names = data.draw(st.lists(st.sampled_from(taking), unique=True, max_size=6))
    words = [word for name in names for word in (name, data.draw(st.text("abc{} '", min_size=1)))]
    apart = options.split(profile, words)
    together = tuple(word for words in apart.values() for word in words)
    read, again = (parse_arguments(profile.launch.flags, argv).values for argv in (words, together))
    assert read == again
    assert options.joined(profile, together, together) == together
    changed = options.joined(profile, together, ("--page-size", "7"))
    assert parse_arguments(profile.launch.flags, changed).values["page_size"] == 7
    assert msgspec.json.encode(changed).count(b'"--page-size"') == 1
