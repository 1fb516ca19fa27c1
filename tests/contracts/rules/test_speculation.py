from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.engines.store import load_profile
from drafter_contracts.manifest import DraftRecord, Manifest, Recommended
from drafter_contracts.serving.launch import Adjustment, ArgumentProblem, Arguments
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN


def test_an_algorithm_that_the_release_does_not_have_is_refused(scene):
    scene.edit("speculation", algorithm="EAGLE9", stated_algorithm="eagle9", known=False)
    assert "has no speculative algorithm eagle9" in scene.finding("ALGORITHM_UNKNOWN").message
    scene.edit("speculation", known=None)
    assert "ALGORITHM_UNKNOWN" not in scene.codes()


def test_a_launch_without_a_drafter_is_refused_unless_the_target_brings_one(scene):
    scene.edit("speculation", draft_path="", stated_draft_path="")
    scene.facts = None
    assert scene.codes()["DRAFT_PATH"] == REFUSE
    scene.target = None
    assert scene.codes()["DRAFT_PATH"] == UNKNOWN


def test_another_drafter_at_the_launch_s_draft_path_is_refused(scene):
    assert "DRAFT_OTHER" not in scene.codes()
    scene.served = "its config.json differs in eagle_config"
    found = scene.finding("DRAFT_OTHER")
    assert found.severity == REFUSE
    assert "differs in eagle_config" in found.message
    assert "than head" in found.message
    scene.served = None
    assert "DRAFT_OTHER" not in scene.verdict().checked


def test_a_partial_triple_is_refused_with_what_is_missing(scene):
    scene.edit("speculation", stated=(1, None, None), effective=(None,) * 3, failure="TypeError", failure_source="a.py")
    found = scene.finding("SPECULATION_FAILS")
    assert found.severity == REFUSE
    assert "steps 1 given and topk, draft tokens left out" in found.message
    assert "Give all three" in found.remedy


def test_numbers_that_a_block_drafter_cannot_have_are_to_be_left_out(scene):
    scene.edit("speculation", algorithm="DSPARK", stated=(None, None, 16), failure="ValueError")
    scene.launch = load_profile("sglang", "0.5.23").launch
    assert "Leave" in scene.finding("SPECULATION_FAILS").remedy
    scene.edit("speculation", stated=(None,) * 3)
    assert scene.finding("SPECULATION_FAILS").remedy == "Change the arguments named."


def test_a_silent_change_of_a_stated_number_warns_and_a_choice_is_noted(scene):
    changed = Adjustment("num_draft_tokens", "24", "5", "topk is 1", "server_args.py:10")
    scene.edit("speculation", adjustments=(changed,))
    found = scene.finding("SPECULATION_ADJUSTED")
    assert found.severity == WARN
    assert "from 24 to 5" in found.message
    scene.edit("speculation", adjustments=(Adjustment("num_draft_tokens", "", "4", "none given"),))
    assert scene.codes() == {"SPECULATION_ADJUSTED": NOTE}
    scene.edit("speculation", adjustments=(Adjustment("algorithm", "NEXTN", "EAGLE", "alias"),))
    assert scene.codes() == {"SPECULATION_ADJUSTED": NOTE}


def test_more_tokens_than_the_tree_holds_are_refused(scene):
    scene.edit("speculation", effective=(1, 4, 16))
    found = scene.finding("SPECULATION_TREE")
    assert found.severity == REFUSE
    assert "4 candidates and the root" in found.message
    assert "at most 5" in found.expected
    scene.flags = ("--speculative-num-draft-tokens",)
    assert scene.finding("SPECULATION_TREE").flags == (("--speculative-num-draft-tokens", "5"),)


@given(st.integers(1, 8), st.integers(1, 10))
def test_the_bound_is_what_a_tree_of_best_branches_really_holds(steps, topk):
    """Grow the tree as EAGLE-2 does: every step expands the best `topk` nodes by `topk` children each."""
    from drafter_contracts.rules.speculation import tree
    from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation
    from drafter_contracts.situation import Situation

    nodes, frontier = topk, topk
    for _ in range(steps - 1):
        nodes += min(frontier, topk) * topk
        frontier = min(frontier, topk) * topk

    def refused(tokens):
        speculation = Speculation("EAGLE", effective=(steps, topk, tokens))
        return bool(tree(Situation(ServingConfig(Invocation(()), speculation=speculation))))

    assert not refused(nodes + 1)
    assert refused(nodes + 2)


@pytest.mark.parametrize(
    ("method", "tokens", "block", "severity"),
    [
        ("DFLASH", 17, 16, WARN),
        ("DFLASH", 16, 16, None),
        ("DSPARK", 8, 7, None),
        ("DSPARK", 9, 7, WARN),
        ("EAGLE3", 4, 2, NOTE),
        ("EAGLE3", 4, 3, None),
    ],
)
def test_no_more_than_the_trained_block(scene, method, tokens, block, severity):
    scene.manifest = Manifest(schema="drafters.manifest.v1", draft=DraftRecord(block_size=block))
    scene.edit("facts", method=method)
    scene.edit("speculation", effective=(3, 1, tokens))
    assert scene.codes().get("TRAINED_BLOCK") == severity


@pytest.mark.parametrize(
    ("stated", "severity"),
    [((7, 1, 8), None), ((6, 1, 7), REFUSE), ((5, 1, 6), NOTE), ((9, 1, 10), WARN), ((None, None, 7), REFUSE)],
)
def test_k_counts_no_root(scene, stated, severity):
    scene.manifest = Manifest(schema="drafters.manifest.v1", recommended=Recommended(speculative_tokens=7))
    effective = (stated[2] - 1, 1, stated[2])
    scene.edit("speculation", stated=stated, effective=effective)
    assert scene.codes().get("COPIED_K") == severity
    if severity:
        scene.flags = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
        right = tuple(word for flag, n in zip(scene.flags, "718", strict=True) for word in (flag, n))
        assert scene.finding("COPIED_K").flags == ((right,) if severity == REFUSE else ())


def test_an_override_that_both_configs_have_warns(scene):
    scene.overrides = {"num_hidden_layers": 1}
    scene.given = {"json_model_override_args": "command line"}
    found = scene.finding("OVERRIDE_SHARED")
    assert found.severity == WARN
    assert "num_hidden_layers" in found.message
    scene.overrides = {"eagle_config": scene.config["eagle_config"]}
    scene.edit("target", config={**scene.target.config, **scene.overrides})
    assert scene.verdict().decision == "allow"


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        ({"rms_norm_eps": 5}, True),
        ({"rms_norm_eps": 1e-5}, False),
        ({"quantization_config": {"quant_method": "fp8"}}, True),
        ({"no_key_of_the_drafter": 1}, False),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 28], "note": 1}}, False),
    ],
)
def test_an_override_that_changes_what_the_drafter_computes_is_said(scene, overrides, warned):
    scene.config["rms_norm_eps"] = 1e-5
    scene.overrides = overrides
    scene.given = {"json_model_override_args": "command line"}
    assert ("OVERRIDE_SHARED" in scene.codes()) == warned


def test_arguments_that_the_parser_refuses_are_all_named(scene):
    problems = (
        ArgumentProblem("unknown_flag", "--speculative-num-step", nearest="--speculative-num-steps"),
        ArgumentProblem("bad_choice", "--attention-backend", "fa9", expected="fa3, triton"),
    )
    scene.arguments = Arguments(problems=problems, deprecated={"tp": "use --tp-size"}, spelled={"tp": "--tp"})
    verdict = scene.verdict()
    refused = [finding for finding in verdict.findings if finding.code == "ARGUMENT_REFUSED"]
    assert len(refused) == 2
    assert "does not know --speculative-num-step" in refused[0].message
    assert refused[0].remedy == "Did you mean --speculative-num-steps?"
    assert refused[1].expected == "fa3, triton"
    assert "calls --tp deprecated" in scene.finding("ARGUMENT_DEPRECATED").message


def test_numbers_that_cannot_be_told_are_said_and_not_checked(scene):
    scene.edit("speculation", effective=(None, None, None), unknown="adaptive steps")
    verdict = scene.verdict()
    assert scene.codes() == {"SPECULATION_UNTOLD": WARN}
    assert "SPECULATION_TREE" not in verdict.checked


def test_an_option_without_effect_is_said(scene):
    scene.arguments = Arguments(
        ignored={"enable_beta_spec": "removed"}, spelled={"enable_beta_spec": "--enable-beta-spec"}
    )
    assert "does nothing with --enable-beta-spec" in scene.finding("ARGUMENT_IGNORED").message


def test_a_tree_without_a_number_of_tokens_fails_once_it_drafts(scene):
    scene.edit("speculation", stated=(3, 4, None), effective=(3, 4, None))
    assert scene.codes() == {"SPECULATION_FAILS": REFUSE}
    scene.edit("speculation", effective=(3, 4, None), unknown="a plugin chooses")
    assert "SPECULATION_FAILS" not in scene.codes()
    scene.edit("speculation", effective=(None, 4, None), unknown="")
    assert "SPECULATION_FAILS" not in scene.codes()
