"""Manifest, files and release to flags: what comes out is what the gate lets pass, and nothing else does."""

from __future__ import annotations

import msgspec
import pytest

from drafter_contracts.errors import LaunchError
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Wishes
from drafter_contracts.manifest import Recommended

SPECULATIVE = (
    "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", PATH_PLACEHOLDER,
    "--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4",
)  # fmt: skip
AS_23_NEEDS = '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[3,31,59],"use_aux_hidden_state":true}}'


def codes(plan):
    return [finding.code for finding in plan.verdict.findings]


def test_the_incident_resolves_for_0_5_23_with_the_ids_that_release_needs(bench):
    made = bench.plan("0.5.23")
    assert made.resolved
    assert made.flags == (*SPECULATIVE, "--json-model-override-args", AS_23_NEEDS)
    assert made.config is None
    assert made.verdict.context["captures"] == "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"


def test_the_incident_is_refused_for_0_5_9_which_has_no_hook_for_the_class(bench):
    made = bench.plan("0.5.9")
    assert (made.resolved, made.flags, made.verdict.decision) == (False, (), "refuse")
    assert "CAPTURE_NO_HOOK" in codes(made)


def test_ids_that_are_right_as_they_are_stay(bench):
    made = bench.plan("0.5.12.post1")
    assert made.flags == SPECULATIVE


def test_where_only_graph_replay_is_wrong_graphs_go_off_and_nothing_else_changes(bench):
    made = bench.plan("0.5.9", bench.manifest(bench.deepseek))
    assert made.flags == (*SPECULATIVE, "--disable-cuda-graph")
    assert any("CUDA graphs are off" in notice for notice in made.notices)


def test_graphs_off_and_other_ids_come_together(bench):
    made = bench.plan("0.5.9", bench.manifest(bench.deepseek), bench.facts((3, 31, 59)))
    assert made.flags[-3:-1] == ("--disable-cuda-graph", "--json-model-override-args")
    assert "[2,30,58]" in made.flags[-1]


def test_a_config_is_made_where_the_targets_own_config_has_the_key(bench):
    target = bench.target(eagle_config={"theirs": 1})
    made = bench.plan("0.5.23", target=target)
    assert made.resolved
    assert made.flags == SPECULATIVE
    assert made.config["eagle_config"] == {
        "eagle_aux_hidden_state_layer_ids": [3, 31, 59], "use_aux_hidden_state": True,
    }  # fmt: skip
    assert {**made.config, "eagle_config": 0} == {**bench.facts().config, "eagle_config": 0}
    why = (
        "sglang 0.5.23 makes boundaries 3, 31, 59 (outputs of layers 2, 30, 58) of them for"
        " KimiK25ForConditionalGeneration"
    )
    assert made.config_changes == (f"eagle_config.eagle_aux_hidden_state_layer_ids is set to [3, 31, 59]: {why}",)


def test_a_switch_that_turns_capture_off_is_turned_on(bench):
    facts = bench.facts()
    config = msgspec.json.decode(msgspec.json.encode(facts.config))
    config["eagle_config"]["use_aux_hidden_state"] = False
    made = bench.plan("0.5.23", facts=msgspec.structs.replace(facts, config=config))
    assert made.resolved
    assert made.flags[-1] == AS_23_NEEDS


def test_a_switch_is_turned_on_in_a_config_that_is_made(bench):
    facts = bench.facts()
    own = {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": False}
    facts = msgspec.structs.replace(facts, config={**facts.config, "eagle_config": own})
    made = bench.plan("0.5.23", facts=facts, target=bench.target(eagle_config={"theirs": 1}))
    assert made.resolved
    assert made.config["eagle_config"]["use_aux_hidden_state"] is True
    assert [change.partition(" is ")[0] for change in made.config_changes] == [
        "eagle_config.use_aux_hidden_state", "eagle_config.eagle_aux_hidden_state_layer_ids",
    ]  # fmt: skip


def test_overrides_of_the_caller_are_kept(bench):
    made = bench.plan("0.5.23", wishes=Wishes(extra=("--json-model-override-args", '{"sliding_window": 7}')))
    assert msgspec.json.decode(made.flags[-1]).keys() == {"sliding_window", "eagle_config"}


def test_extra_options_are_judged(bench):
    assert bench.plan("0.5.12.post1", wishes=Wishes(extra=("--page-size", "64"))).flags == SPECULATIVE
    refused = bench.plan("0.5.12.post1", wishes=Wishes(extra=("--no-such-option",)))
    assert [one.code for one in refused.verdict.findings if one.severity == "refuse"] == ["ARGUMENT_REFUSED"]


@pytest.mark.parametrize(
    ("wishes", "stated"),
    [
        (Wishes(steps=5), (5, 1, 6)),
        (Wishes(draft_tokens=8), (7, 1, 8)),
        (Wishes(topk=4), (3, 4, 4)),
        (Wishes(steps=5, topk=4, draft_tokens=8), (5, 4, 8)),
        (Wishes(steps=5, draft_tokens=9), (5, 1, 6)),
    ],
)
def test_wishes_win_and_the_rest_follows_by_the_releases_own_rule(bench, wishes, stated):
    made = bench.plan("0.5.12.post1", wishes=wishes)
    assert tuple(int(made.flags[at]) for at in (5, 7, 9)) == stated
    assert "SPECULATION_ADJUSTED" not in codes(made), "what is printed is what will be in force"
    assert any("asked for" in notice for notice in made.notices) == (wishes.draft_tokens == 9)


def test_what_is_recommended_in_tokens_without_the_root_is_translated(bench):
    manifest = bench.manifest(recommended=Recommended(speculative_tokens=4))
    made = bench.plan("0.5.12.post1", manifest)
    assert made.flags[4:10:2] + made.flags[5:10:2] == (
        "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens", "4", "1", "5",
    )  # fmt: skip
    assert "COPIED_K" not in codes(made)


def test_nothing_is_made_up_where_the_release_has_a_default_of_its_own(bench):
    made = bench.plan("0.5.12.post1", bench.manifest(recommended=Recommended()))
    assert made.flags == SPECULATIVE[:4]
    assert any(
        "left to sglang 0.5.12.post1: num steps 3, eagle topk 1, num draft tokens 4" in told for told in made.notices
    )


def test_what_is_missing_is_named_where_the_release_has_no_default(bench):
    made = bench.plan("0.4.5", bench.manifest(recommended=Recommended()))
    assert made.missing == SPECULATIVE[4::2]
    partly = bench.plan("0.5.12.post1", bench.manifest(recommended=Recommended()), wishes=Wishes(steps=3))
    assert (partly.verdict.decision, partly.missing) == ("refuse", SPECULATIVE[6::2])


@pytest.mark.parametrize("name", ["steps", "topk", "draft_tokens"])
def test_a_number_below_one_is_no_wish(bench, name):
    with pytest.raises(LaunchError, match="not a possible number"):
        bench.plan("0.5.23", wishes=Wishes(**{name: 0}))


def test_a_draft_path_is_written_where_the_files_will_be(bench):
    assert bench.plan("0.5.12.post1", draft_path="/srv/a b").flags[3] == "/srv/a b"
    with pytest.raises(LaunchError, match="as an option"):
        bench.plan("0.5.12.post1", draft_path="--help")


@pytest.mark.parametrize(("method", "decision"), [("P-EAGLE", "refuse"), ("MEDUSA", "refuse"), ("UNKNOWN", "unknown")])
def test_a_method_that_no_algorithm_serves_has_no_flags(bench, method, decision):
    facts = msgspec.structs.replace(bench.facts(), method=method)
    made = bench.plan("0.5.23", bench.manifest(method=method), facts)
    assert (made.verdict.decision, made.flags, codes(made)) == (decision, (), ["METHOD_MISMATCH"])


def test_a_method_that_a_release_does_not_know_is_refused_with_every_other_finding(bench):
    from drafter_contracts.launch.others import others

    facts = msgspec.structs.replace(bench.facts(), method="DFLASH")
    made = bench.plan("0.5.9", bench.manifest(method="DFLASH"), facts, others=lambda s: others(s, "sglang", "0.5.9"))
    found = {finding.code: finding for finding in made.verdict.findings}
    assert made.verdict.decision == "refuse"
    assert "ALGORITHM_UNKNOWN" in found
    assert len(found) > 1
    assert "from 0.5.11 on" in found["ALGORITHM_UNKNOWN"].remedy


def test_an_unreachable_layout_is_refused_whatever_the_ids(bench):
    made = bench.plan("0.5.23", bench.manifest(boundaries=(3, 31, 61)))
    assert (made.verdict.decision, made.flags, made.config, made.weights.any) == ("refuse", (), None, False)


def test_a_target_that_contradicts_the_manifest_is_refused(bench):
    config = bench.target().config
    text = {**config["text_config"], "num_hidden_layers": 48}
    made = bench.plan("0.5.12.post1", target=bench.target(text_config=text))
    assert "TARGET_DEPTH" in codes(made)
    assert made.flags == ()


def test_what_was_believed_is_said(bench):
    told = "the target's config.json was not given: what the manifest records of it was believed"
    assert told in bench.plan("0.5.12.post1").notices
    assert told not in bench.plan("0.5.12.post1", target=bench.target()).notices


def test_a_target_without_a_record_is_unknown(bench):
    manifest = bench.manifest()
    bare = msgspec.structs.replace(manifest, target=msgspec.structs.replace(manifest.target, layers=None))
    made = bench.plan("0.5.12.post1", bare)
    assert (made.verdict.decision, made.flags) == ("unknown", ())


def test_overrides_of_a_config_that_was_not_given_are_undecided(bench):
    extra = ("--json-model-override-args", '{"text_config": {"num_hidden_layers": 2}}')
    made = bench.plan("0.5.12.post1", wishes=Wishes(extra=extra))
    assert made.verdict.decision == "unknown"
    assert "TARGET_UNREADABLE" in codes(made)


def test_ids_that_depend_on_an_unknown_model_type_are_undecided(bench):
    """0.5.19 and later add one to the ids of such a drafter, for Muse targets only."""
    facts = bench.facts()
    config = {**facts.config, "architectures": ["DFlash2DraftModel"]}
    facts = msgspec.structs.replace(facts, method="DFLASH2", config=config, architectures=("DFlash2DraftModel",))
    made = bench.plan("0.5.23", bench.manifest(method="DFLASH2"), facts)
    told = [finding.message for finding in made.verdict.findings if finding.code == "TARGET_UNREADABLE"]
    assert told
    assert "muse_glimmer" in told[0]
    assert made.flags == ()


def test_a_fault_that_the_targets_config_decides_is_undecided_without_it(bench):
    glm = "Glm5NextForConditionalGeneration"
    on_record = bench.plan("0.5.23", bench.manifest(glm))
    assert on_record.verdict.decision == "unknown"
    assert "SGLANG-GLM5-MHC-EAGLE3: whether mhc is true" in on_record.verdict.findings[0].message
    with_it = bench.plan("0.5.23", bench.manifest(glm), target=bench.target(glm, mhc=True))
    assert with_it.verdict.decision == "refuse"
    without_it = bench.plan("0.5.23", bench.manifest(glm), target=bench.target(glm))
    assert "ADVISORY" not in codes(without_it)


def test_a_context_that_the_manifest_does_not_record_is_undecided(bench):
    manifest = bench.manifest()
    target = msgspec.structs.replace(manifest.target, context_length=None)
    made = bench.plan("0.5.23", msgspec.structs.replace(manifest, target=target))
    assert [one.severity for one in made.verdict.findings if one.code == "CONTEXT"] == ["unknown"]
    assert made.flags == ()


def test_the_default_layout_is_reached_by_leaving_the_ids_out(bench):
    """0.5.9 replays the class's default layers: with those as the layout and other ids in the config, ids must go."""
    made = bench.plan("0.5.9", bench.manifest(bench.deepseek, (2, 30, 58)), bench.facts((7, 8, 9)))
    assert made.resolved
    effective = bench.situation(
        "0.5.9", bench.manifest(bench.deepseek, (2, 30, 58)), bench.facts((7, 8, 9)), made.flags,
        bench.target(bench.deepseek),
    )  # fmt: skip
    assert effective.capture.eager.taps == effective.stated.layout.taps
