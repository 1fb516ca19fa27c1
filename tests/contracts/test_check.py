"""`assemble` and `run`: what is computed before the rules, and what follows from them."""

from __future__ import annotations

from msgspec.structs import replace

from drafter_contracts import check
from drafter_contracts.checkpoint.facts import DrafterFacts, LayoutReading
from drafter_contracts.engines.launch_rules import LaunchRules, Overrides
from drafter_contracts.engines.profile import CaptureMethod, GraphReplay, IdReading, Profile, ReadingShift, Shift
from drafter_contracts.layout import layout_from_boundaries
from drafter_contracts.rules import RULES
from drafter_contracts.serving.launch import (
    ArgumentProblem,
    Arguments,
    Invocation,
    ServingConfig,
    Speculation,
    TargetFacts,
)

KEY = "dflash_config.target_layer_ids"
RULE = CaptureMethod("fitted", shifts=(Shift(1),))
TARGET = TargetFacts("/t", architecture="Target", model_type="muse", num_layers=12, hidden_size=8)


def profile(reading, method="DFLASH", **changes):
    return Profile(
        "drafters.engine-profile.v1",
        "sglang",
        "9.9.9",
        readings={method: reading},
        graphs={method: GraphReplay()},
        rules=(RULE,),
        targets={"Target": {method: 0}},
        launch=LaunchRules(overrides=Overrides(drafter=True)),
        **changes,
    )


def facts(config, **changes):
    layout = LayoutReading("declared", layout_from_boundaries([3, 9]), (2, 8), KEY)
    return DrafterFacts("/d", "DFLASH", config=config, architectures=("Draft",), layout=layout, **changes)


def serving(algorithm="DFLASH", **changes):
    return ServingConfig(
        Invocation(()), speculation=Speculation(algorithm, draft_path="/d", stated_draft_path="/d"), **changes
    )


def assembled(reading, config, **changes):
    return check.assemble(serving=serving(**changes), profile=profile(reading), drafter=facts(config), target=TARGET)


def test_ids_are_read_as_the_release_reads_them_and_become_a_capture():
    situation = assembled(IdReading(keys=(KEY,)), {"dflash_config": {"target_layer_ids": [2, 8]}})
    assert (situation.ids, situation.ids_key, situation.ids_error) == ((2, 8), KEY, "")
    assert situation.capture.eager.taps == layout_from_boundaries([3, 9]).taps
    assert situation.method == "DFLASH"


def test_an_override_merges_where_the_release_merges_that_key():
    reading = IdReading(keys=(KEY,))
    config = {"dflash_config": {"target_layer_ids": [2, 8]}, "rope_scaling": {"factor": 8.0, "rope_type": "yarn"}}
    made = profile(reading)
    made = replace(made, launch=LaunchRules(overrides=Overrides(drafter=True, merged=("rope_scaling",))))
    situation = check.assemble(
        serving=serving(overrides={"rope_scaling": {"factor": 4.0}}),
        profile=made,
        drafter=facts(config),
        target=TARGET,
    )
    assert situation.draft_config["rope_scaling"] == {"factor": 4.0, "rope_type": "yarn"}


def test_overrides_reach_the_drafters_config_whole_where_the_release_applies_them():
    reading = IdReading(keys=(KEY,), missing="error", error="KeyError")
    config = {"dflash_config": {"target_layer_ids": [2, 8], "block_size": 16}}
    situation = assembled(reading, config, overrides={"dflash_config": {"target_layer_ids": [3, 9]}})
    assert situation.ids == (3, 9)
    assert situation.draft_config == {"dflash_config": {"target_layer_ids": [3, 9]}}
    assert situation.drafter.config == config
    dropped = assembled(reading, config, overrides={"dflash_config": {}})
    assert dropped.ids_error == "KeyError"


def test_ids_that_the_release_moves_reach_the_setter_moved():
    reading = IdReading(keys=(KEY,), shifts=(ReadingShift(1, "muse", ("Draft",)),))
    situation = assembled(reading, {"dflash_config": {"target_layer_ids": [2, 8]}})
    assert situation.ids == (3, 9)


def test_a_formula_spreads_ids_over_the_target():
    situation = assembled(IdReading(keys=(KEY,), missing="formula"), {"num_hidden_layers": 3})
    assert (situation.ids, situation.ids_key) == ((1, 5, 9), "formula")


def test_a_launch_without_speculation_is_allowed_at_once():
    situation = check.assemble(serving=ServingConfig(Invocation(())), profile=profile(IdReading()))
    verdict = check.run(situation)
    assert verdict.decision == "allow"
    assert verdict.checked == ("NO_SPECULATION",)


def test_an_algorithm_that_the_parser_refuses_is_no_launch_without_speculation():
    """0.4.6.post5 and STANDALONE: the refused value leaves no algorithm, and the engine exits."""
    problem = ArgumentProblem("bad_choice", "--speculative-algorithm", "STANDALONE", "EAGLE, EAGLE3, NEXTN")
    serving = ServingConfig(Invocation(()), Arguments(problems=(problem,)))
    verdict = check.run(check.assemble(serving=serving, profile=profile(IdReading())))
    assert verdict.decision == "refuse"
    assert [finding.code for finding in verdict.findings] == ["ARGUMENT_REFUSED"]


def test_an_unknown_release_is_unknown_even_if_nothing_else_can_be_said():
    verdict = check.run(check.assemble(serving=ServingConfig(Invocation(())), engine="sglang 0.0.1"))
    assert verdict.decision == "unknown"
    assert verdict.findings[0].code == "ENGINE_UNKNOWN"
    assert "sglang 0.0.1" in verdict.findings[0].message


def test_a_profile_with_nothing_in_it_never_allows_a_speculating_launch():
    empty = Profile("drafters.engine-profile.v1", "sglang", "9.9.9")
    for algorithm in ("EAGLE3", "DFLASH", "DSPARK"):
        situation = check.assemble(serving=serving(algorithm), profile=empty, drafter=facts({}), target=TARGET)
        verdict = check.run(situation)
        assert verdict.decision != "allow", algorithm


def test_a_drafter_inside_the_target_is_recognised_by_its_path():
    speculation = Speculation("EAGLE", draft_path="/t")
    config = ServingConfig(Invocation(()), speculation=speculation, target_path="/t")
    assert check.assemble(serving=config, profile=profile(IdReading())).bundled
    named = ServingConfig(Invocation(()), speculation=Speculation("EAGLE", draft_path="/t", stated_draft_path="/t"))
    assert not check.assemble(serving=named, profile=profile(IdReading())).bundled


def test_findings_come_worst_first_and_all_of_them():
    situation = assembled(IdReading(keys=(KEY,)), {"dflash_config": {"target_layer_ids": [3, 3]}})
    verdict = check.run(situation)
    assert verdict.decision == "refuse"
    severities = [finding.severity for finding in verdict.findings]
    assert severities == sorted(severities, key=["refuse", "unknown", "warn", "note"].index)
    assert {"CAPTURE_COUNT", "CAPTURE_DROPPED"} <= {finding.code for finding in verdict.findings}
    assert set(verdict.checked) <= {rule.code for rule in RULES}
