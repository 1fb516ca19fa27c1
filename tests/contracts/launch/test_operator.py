"""The operator's own options: they beat recommendations, and are refused where they contradict the contract."""

from __future__ import annotations

import msgspec
import pytest

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.errors import LaunchError
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Wishes
from drafter_contracts.launch.target_facts import target_of_record
from drafter_contracts.manifest import Provenance, Recommended

COMMIT = "a" * 40
IDS = "eagle_config.eagle_aux_hidden_state_layer_ids"
TREE = Recommended(steps=3, topk=4, draft_tokens=8)
CHAIN = Recommended(steps=3, topk=1)
OVERRIDES = "--json-model-override-args"


def own(*extra, **more):
    return Wishes(extra=extra, **more)


def overrides(document):
    return "--json-model-override-args", msgspec.json.encode(document).decode()


def contradictions(plan):
    """(what the operator states, what is needed) of each, and that nothing is printed beside them."""
    found = [one for one in plan.verdict.findings if one.code == "OPTION_CONTRADICTS"]
    if found:
        assert (plan.flags, plan.verdict.decision) == ((), "refuse")
    return [(one.actual, one.expected) for one in found]


def stated(plan, option):
    """The value of a printed option, or None."""
    return plan.flags[plan.flags.index(option) + 1] if option in plan.flags else None


def numbers(plan):
    return tuple(
        stated(plan, f"--speculative-{name}") for name in ("num-steps", "eagle-topk", "num-draft-tokens")
    )  # fmt: skip


@pytest.mark.parametrize(
    "extra", [("--speculative-num-steps", "5"), ("--speculative-num-st=5",), ("--speculative-num-draft-tokens", "6")]
)
def test_numbers_count_like_wishes_however_they_are_spelled(bench, extra):
    assert numbers(bench.plan("0.5.12.post1", wishes=own(*extra))) == ("5", "1", "6")


def test_a_number_stated_twice_is_one_number(bench):
    made = bench.plan("0.5.12.post1", wishes=own("--speculative-num-steps", "5", steps=5))
    assert made.flags.count("--speculative-num-steps") == 1
    with pytest.raises(LaunchError) as caught:
        bench.plan(
            "0.5.12.post1",
            wishes=own("--speculative-num-steps", "5", "--speculative-eagle-topk", "2", steps=3, topk=4),
        )
    assert caught.value.actual == "steps 3 and --speculative-num-steps 5; topk 4 and --speculative-eagle-topk 2"


@pytest.mark.parametrize("extra", [("--",), ("--speculative-num-steps", "0"), ("--page-size", "64", "--", "x")])
def test_what_no_launch_can_have_is_an_error(bench, extra):
    with pytest.raises(LaunchError):
        bench.plan("0.5.23", wishes=own(*extra))


@pytest.mark.parametrize("name", ["EAGLE3", "eagle3"])
def test_the_same_algorithm_and_path_are_no_contradiction(bench, name):
    extra = ("--speculative-algorithm", name, "--speculative-draft-model-path", "/srv/d")
    made = bench.plan("0.5.23", wishes=own(*extra), draft_path="/srv/d/")
    assert contradictions(made) == []
    assert made.flags[:4] == ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/srv/d/")


def test_another_name_of_the_same_algorithm_is_no_contradiction(bench):
    facts = msgspec.structs.replace(bench.facts(), method="EAGLE")
    for name in ("EAGLE", "NEXTN"):
        made = bench.plan("0.5.23", bench.manifest(method="EAGLE"), facts, wishes=own("--speculative-algorithm", name))
        assert contradictions(made) == []


def test_every_contradiction_is_named_with_both_sides(bench):
    extra = ("--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "/x")
    document = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}}
    made = bench.plan("0.5.23", wishes=own(*extra, *overrides(document)), draft_path="/srv/d")
    assert contradictions(made) == [
        ("--speculative-algorithm EAGLE", "--speculative-algorithm EAGLE3"),
        ("--speculative-draft-model-path /x", "--speculative-draft-model-path /srv/d"),
        (f"--json-model-override-args {IDS} = [1,2,3]", f"{IDS} = [3,31,59]"),
    ]


def test_another_path_is_refused_where_none_is_known_yet(bench):
    made = bench.plan("0.5.23", wishes=own("--speculative-draft-model-path", "/x"))
    assert len(contradictions(made)) == 1
    assert "--draft-path /x" in made.verdict.findings[0].remedy
    assert contradictions(bench.plan("0.5.23", wishes=own("--speculative-draft-model-path", PATH_PLACEHOLDER))) == []


def test_a_contradiction_stands_beside_whatever_else_is_wrong(bench):
    from drafter_contracts.launch.others import others

    facts = msgspec.structs.replace(bench.facts(), method="DFLASH")
    manifest = bench.manifest(method="DFLASH")
    made = bench.plan(
        "0.5.9", manifest, facts, wishes=own("--speculative-algorithm", "EAGLE3"),
        others=lambda s: others(s, "sglang", "0.5.9"),
    )  # fmt: skip
    assert contradictions(made) == [("--speculative-algorithm EAGLE3", "--speculative-algorithm DFLASH")]
    unknown = next(one for one in made.verdict.findings if one.code == "ALGORITHM_UNKNOWN")
    assert "from 0.5.11 on" in unknown.remedy


def test_overrides_are_merged_and_the_drafters_object_stays_whole(bench):
    made = bench.plan("0.5.23", wishes=own(*overrides({"sliding_window": 7, "eagle_config": {
        "eagle_aux_hidden_state_layer_ids": [3, 31, 59], "use_aux_hidden_state": True, "theirs": 1,
    }})))  # fmt: skip
    assert made.resolved
    assert "--json-model-override-args" not in made.flags, "theirs says it all"
    bare = msgspec.structs.replace(bench.facts(None), config=bench.facts(None).config | {"eagle_config": {}})
    made = bench.plan("0.5.23", facts=bare, wishes=own(*overrides({"eagle_config": {"theirs": 1}})))
    assert msgspec.json.decode(stated(made, "--json-model-override-args")) == {
        "eagle_config": {"theirs": 1, "eagle_aux_hidden_state_layer_ids": [3, 31, 59]}
    }


def test_an_object_that_drops_keys_of_the_drafters_is_refused(bench):
    made = bench.plan("0.5.23", wishes=own(*overrides({"eagle_config": {"theirs": 1}})))
    assert contradictions(made) == [
        ('--json-model-override-args eagle_config = {"theirs":1}', f"{IDS} = [3,31,59]"),
        ('--json-model-override-args eagle_config = {"theirs":1}', "eagle_config.use_aux_hidden_state = true"),
    ]


def test_a_value_in_place_of_the_drafters_object_is_refused(bench):
    made = bench.plan("0.5.23", wishes=own(*overrides({"eagle_config": 7})))
    assert [actual for actual, _ in contradictions(made)] == ["--json-model-override-args eagle_config = 7"]


def test_the_targets_own_key_is_left_alone_also_in_its_text_config(bench):
    text = bench.target().config["text_config"]
    for target in (bench.target(eagle_config={}), bench.target(text_config=text | {"eagle_config": {"theirs": 1}})):
        made = bench.plan("0.5.23", target=target)
        assert made.resolved
        assert "--json-model-override-args" not in made.flags
        assert made.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]


def test_the_targets_own_key_is_left_alone_when_the_operator_overrides_it(bench):
    document = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}}
    made = bench.plan("0.5.23", target=bench.target(eagle_config={}), wishes=own(*overrides(document)))
    assert not made.resolved
    assert any(one.code == "CAPTURE_LAYERS" for one in made.verdict.findings)


@pytest.mark.parametrize(
    ("release", "option"), [("0.5.9", "--enable-piecewise-cuda-graph"), ("0.5.10", "--enforce-piecewise-cuda-graph")]
)
def test_graphs_that_the_operator_turns_on_are_refused_where_they_must_be_off(bench, release, option):
    made = bench.plan(release, bench.manifest(bench.deepseek), wishes=own(option))
    assert contradictions(made) == [(option, "no CUDA graphs")]
    assert bench.plan("0.5.11", bench.manifest(bench.deepseek)).resolved, "a release that needs them not off"


def test_graphs_that_the_operator_turns_off_are_off(bench):
    made = bench.plan("0.5.9", bench.manifest(bench.deepseek), wishes=own("--disable-cuda-graph"))
    assert made.resolved
    assert "--disable-cuda-graph" not in made.flags


def limited(bench, context=999_999, **draft):
    manifest = bench.manifest()
    target = msgspec.structs.replace(manifest.target, context_length=context)
    return msgspec.structs.replace(manifest, target=target, draft=msgspec.structs.replace(manifest.draft, **draft))


@pytest.mark.parametrize(
    ("extra", "decision", "printed"),
    [
        ((), "allow", "262144"),
        (("--context-length", "4096"), "allow", None),
        (("--context-length", "262144"), "allow", None),
        (("--context-length", "262145"), "refuse", None),
    ],
)
def test_the_context_is_limited_to_the_drafters_positions_unless_the_operator_limits_it_more(
    bench, extra, decision, printed
):
    made = bench.plan("0.5.23", limited(bench), wishes=own(*extra))
    assert (made.verdict.decision, stated(made, "--context-length")) == (decision, printed)
    if decision == "refuse":
        assert "262144 positions and the launch serves 262145" in made.verdict.findings[0].message


@pytest.mark.parametrize(
    ("extra", "decision", "printed"),
    [((), "allow", "4096"), (("--context-length", "8192"), "warn", None), (("--context-length", "100"), "allow", None)],
)
def test_the_context_trained_on_is_recommended_and_the_operators_own_beats_it(bench, extra, decision, printed):
    made = bench.plan("0.5.23", limited(bench, 262144, trained_context=4096), wishes=own(*extra))
    assert (made.verdict.decision, stated(made, "--context-length")) == (decision, printed)
    told = [notice for notice in made.notices if "--context-length" in notice]
    assert len(told) == (printed is not None)


def test_flags_that_rules_ask_for_come_with_a_render_too(bench):
    crash = bench.plan("0.5.23", limited(bench), wishes=own(prefer="render"))
    worse = bench.plan("0.5.23", wishes=own("--quantization", "fp8", prefer="render"))
    for made, option in ((crash, "--context-length"), (worse, "--speculative-draft-model-quantization")):
        assert made.verdict.decision == "allow"
        assert made.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]
        assert made.flags[10:-1] == (option,)


def test_of_two_limits_the_lower_is_printed_once(bench):
    made = bench.plan("0.5.23", limited(bench, trained_context=4096))
    assert stated(made, "--context-length") == "4096"
    assert made.flags.count("--context-length") == 1


@pytest.mark.parametrize(
    ("stated_by", "decision", "printed"),
    [((), "allow", "unquant"), (("unquant",), "allow", None), (("fp8",), "refuse", None)],
)
def test_an_unquantised_drafter_is_not_quantised_with_its_target(bench, stated_by, decision, printed):
    option = "--speculative-draft-model-quantization"
    extra = ("--quantization", "fp8", *((option, *stated_by) if stated_by else ()))
    made = bench.plan("0.5.23", wishes=own(*extra))
    assert (made.verdict.decision, stated(made, option)) == (decision, printed)
    older = bench.plan("0.5.5", bench.manifest("LlamaForCausalLM"), wishes=own("--quantization", "fp8"))
    assert (older.verdict.decision, stated(older, option)) == ("warn", None), "0.5.5 has no such option"


def test_an_mla_backend_is_not_left_to_a_drafter_without_latent_attention(bench):
    option = "--speculative-draft-attention-backend"
    assert stated(bench.plan("0.5.23", wishes=own("--attention-backend", "flashmla")), option) == "triton"
    theirs = bench.plan("0.5.23", wishes=own("--attention-backend", "flashmla", option, "flashmla"))
    assert (theirs.verdict.decision, stated(theirs, option)) == ("warn", None), "only worse: the operator decides"


def test_a_backend_is_named_where_pages_and_branches_need_one(bench):
    llama = bench.manifest("LlamaForCausalLM", recommended=TREE)
    made = bench.plan("0.5.15", llama, wishes=own("--page-size", "64"))
    assert (stated(made, "--attention-backend"), numbers(made)) == ("flashinfer", ("3", "4", "8"))
    kimi = bench.plan("0.5.15", bench.manifest(recommended=TREE), wishes=own("--page-size", "64"))
    assert stated(kimi, "--attention-backend") == "triton", "flashinfer refuses branches for latent attention"


def test_recommended_branches_give_way_to_the_operators_backend_but_the_operators_do_not(bench):
    llama, backend = bench.manifest("LlamaForCausalLM", recommended=TREE), ("--attention-backend", "trtllm_mha")
    made = bench.plan("0.5.15", llama, wishes=own(*backend))
    assert (made.resolved, numbers(made)) == (True, ("3", "1", "4"))
    refused = bench.plan("0.5.15", llama, wishes=own(*backend, topk=4))
    assert (refused.flags, {"TOPK_BACKEND"} <= {one.code for one in refused.verdict.findings}) == ((), True)


def test_numbers_that_pages_change_are_printed_as_they_will_be(bench):
    manifest = bench.manifest("LlamaForCausalLM", (2, 30, 58), recommended=TREE)
    for release in ("0.4.5", "0.4.6"):
        made = bench.plan(release, manifest, bench.facts(None), wishes=own("--page-size", "64"))
        assert any("topk: 4 asked for, 1 will be in force: page size above 1" in one for one in made.notices)
        assert not {"SPECULATION_ADJUSTED", "SPECULATION_TREE"} & {one.code for one in made.verdict.findings}


def test_a_tree_that_wishes_made_too_small_holds_fewer_tokens(bench):
    llama = bench.manifest("LlamaForCausalLM", recommended=TREE)
    assert numbers(bench.plan("0.5.23", llama, wishes=own(steps=1))) == ("1", "4", "5")
    assert bench.plan("0.5.23", llama, wishes=own(steps=1, draft_tokens=8)).flags == ()


def five_taps(bench):
    """A drafter that reads five layers, and what it was trained on."""
    ids = (2, 19, 30, 44, 58)
    facts = bench.facts(ids)
    tensors = [one for one in facts.tensors if one.name != "fc.weight"]
    tensors.append(TensorFact("fc.weight", "BF16", (7168, 5 * 7168)))
    facts = drafter_facts(
        facts.config | {"num_aux_hidden_states": 5}, tuple(sorted(tensors, key=lambda one: one.name)), path="d",
        weights="safetensors", target_layers=61, target_hidden_size=7168,
    )  # fmt: skip
    return bench.manifest("LlamaForCausalLM", tuple(i + 1 for i in ids)), facts


def test_buffers_that_the_targets_config_sizes_get_room_by_override(bench):
    """0.5.12 to 0.5.14 size those of the draft-extend graphs by the target's config."""
    manifest, facts = five_taps(bench)
    made = bench.plan("0.5.12", manifest, facts, target=bench.target("LlamaForCausalLM"))
    assert msgspec.json.decode(stated(made, "--json-model-override-args")) == {"num_aux_hidden_states": 5}
    render = bench.plan("0.5.12", manifest, facts, target=bench.target("LlamaForCausalLM"), wishes=own(prefer="render"))
    assert "--json-model-override-args" in render.flags, "no render of the drafter changes its target"
    assert "--disable-cuda-graph" not in render.flags
    theirs = {"num_aux_hidden_states": 3}
    fixed = bench.plan("0.5.12", manifest, facts, target=bench.target("LlamaForCausalLM", **theirs))
    assert fixed.resolved
    assert "--json-model-override-args" not in fixed.flags, "the target's own number is not changed"
    assert fixed.flags[-1] == "--disable-cuda-graph"
    refused = bench.plan(
        "0.5.12", manifest, facts, target=bench.target("LlamaForCausalLM"), wishes=own(*overrides(theirs))
    )
    assert contradictions(refused) == [
        ("--json-model-override-args num_aux_hidden_states = 3", "num_aux_hidden_states = 5")
    ]


def test_room_in_the_drafters_own_config_is_made_by_flag_or_by_render_as_preferred(bench):
    manifest, facts = five_taps(bench)
    facts = msgspec.structs.replace(facts, config=facts.config | {"num_aux_hidden_states": 3})
    flagged = bench.plan("0.5.23", manifest, facts, target=bench.target("LlamaForCausalLM"))
    assert (flagged.config, flagged.flags[-1]) == (None, '{"num_aux_hidden_states":5}')
    rendered = bench.plan(
        "0.5.23", manifest, facts, target=bench.target("LlamaForCausalLM"), wishes=own(prefer="render")
    )
    assert rendered.config["num_aux_hidden_states"] == 5
    assert "--json-model-override-args" not in rendered.flags


def test_a_k_that_was_copied_into_the_recommendation_is_put_right(bench):
    wrong = Recommended(steps=3, topk=1, draft_tokens=4, speculative_tokens=4)
    assert numbers(bench.plan("0.5.12.post1", bench.manifest(recommended=wrong))) == ("4", "1", "5")
    assert bench.plan("0.5.12.post1", bench.manifest(recommended=wrong), wishes=own(draft_tokens=4)).flags == ()


def of_blocks(bench):
    """A DFLASH drafter of blocks of 8, recommended with 8 draft tokens."""
    config = {
        "architectures": ["DFlashDraftModel"], "num_hidden_layers": 1, "hidden_size": 7168, "vocab_size": 163840,
        "dflash_config": {"target_layer_ids": [2, 30, 58]}, "block_size": 8, "num_target_layers": 61,
    }  # fmt: skip
    tensors = (TensorFact("fc.weight", "BF16", (7168, 3 * 7168)),)
    facts = drafter_facts(config, tensors, path="d", weights="safetensors", target_layers=61, target_hidden_size=7168)
    recommended = Recommended(draft_tokens=8)
    manifest = bench.manifest("Qwen3ForCausalLM", method="DFLASH", recommended=recommended)
    return manifest, msgspec.structs.replace(facts, method="DFLASH")


def test_a_block_size_of_the_operators_beats_recommended_draft_tokens(bench):
    manifest, facts = of_blocks(bench)
    target = bench.target("Qwen3ForCausalLM")
    assert numbers(bench.plan("0.5.23", manifest, facts, target=target)) == (None, None, "8")
    block = "--speculative-dflash-block-size", "4"
    made = bench.plan("0.5.23", manifest, facts, target=target, wishes=own(*block))
    assert numbers(made) == (None, None, "4")
    both = bench.plan("0.5.23", manifest, facts, target=target, wishes=own(*block, draft_tokens=8))
    assert "SPECULATION_FAILS" in {one.code for one in both.verdict.findings}


def test_numbers_that_blocks_set_are_printed_as_they_will_be(bench):
    manifest, facts = of_blocks(bench)
    made = bench.plan("0.5.23", manifest, facts, target=bench.target("Qwen3ForCausalLM"), wishes=own(steps=3, topk=2))
    assert numbers(made) == ("1", "1", "8")
    assert sum("asked for" in notice for notice in made.notices) == 2


def from_hub(bench, architecture="LlamaForCausalLM"):
    provenance = Provenance(source="hf://org/kimi", revision=COMMIT)
    return msgspec.structs.replace(bench.manifest(architecture), provenance=provenance)


def test_a_repository_of_the_hub_is_loaded_at_the_recorded_commit(bench):
    option = "--speculative-draft-model-revision"
    assert stated(bench.plan("0.5.23", from_hub(bench), draft_path="org/kimi"), option) == COMMIT
    for path in ("", "/srv/org/kimi", "./org/kimi", "org/other"):
        assert stated(bench.plan("0.5.23", from_hub(bench), draft_path=path), option) is None
    unknown = msgspec.structs.replace(from_hub(bench), provenance=Provenance(source="hf://org/kimi"))
    assert stated(bench.plan("0.5.23", unknown, draft_path="org/kimi"), option) is None
    older = bench.plan("0.5.1", from_hub(bench), draft_path="org/kimi")
    assert older.resolved
    assert option not in older.flags
    assert any(COMMIT in notice for notice in older.notices)


def test_another_revision_is_refused(bench):
    option = "--speculative-draft-model-revision"
    made = bench.plan("0.5.23", from_hub(bench), draft_path="org/kimi", wishes=own(option, "main"))
    assert contradictions(made) == [(f"{option} main", f"{option} {COMMIT}")]
    assert bench.plan("0.5.23", from_hub(bench), draft_path="org/kimi", wishes=own(option, COMMIT)).resolved


@pytest.mark.parametrize("option", ["--model-path", "--model"])
def test_another_target_than_the_one_that_is_judged_is_a_contradiction(bench, option):
    made = bench.plan("0.5.23", target=bench.target(), wishes=own(option, "/models/other"))
    assert contradictions(made) == [(f"{option} /models/other", "--model-path /models/target")]
    assert bench.plan("0.5.23", target=bench.target(), wishes=own(option, "/models/target/")).flags


def test_a_target_that_is_believed_may_have_any_name_and_no_two(bench):
    record = bench.manifest().target
    made = bench.plan("0.5.23", wishes=own("--model-path", "/models/k25"))
    assert made.flags
    assert any("believed" in notice for notice in made.notices)
    named = target_of_record(record, "/models/named")
    made = bench.plan("0.5.23", target=named, wishes=own("--model-path", "/models/k25"))
    assert contradictions(made) == [("--model-path /models/k25", "--model-path /models/named")]


@pytest.mark.parametrize("text", ["x{", "[1]", '{"a":' * 5000 + "1" + "}" * 5000, "[" * 5000])
def test_an_override_that_cannot_be_read_is_not_replaced_by_another_in_silence(bench, text):
    ((stated, _),) = contradictions(bench.plan("0.5.23", facts=bench.facts(None), wishes=own(OVERRIDES, text)))
    assert stated == f"{OVERRIDES} {text}"


def test_a_tree_whose_tokens_nobody_counts_is_refused_with_what_is_missing(bench):
    made = bench.plan("0.5.23", wishes=own("--speculative-eagle-topk", "4"), manifest=bench.manifest(recommended=CHAIN))
    assert made.flags == ()
    assert made.missing == ("--speculative-num-draft-tokens",)
