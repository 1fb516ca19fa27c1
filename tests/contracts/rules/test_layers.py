from __future__ import annotations

import json
import shlex

import pytest
from msgspec.structs import replace

from drafter_contracts.checkpoint.facts import LayoutReading
from drafter_contracts.engines.profile import CaptureRule, GraphReplay, IdReading, Region, Shift
from drafter_contracts.layout import CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.manifest import LayoutRecord, Manifest, TargetRecord
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def written(scene, ids):
    scene.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = ids
    return scene


def test_a_launch_that_is_right_is_allowed_and_names_what_was_checked(scene):
    verdict = scene.verdict()
    assert verdict.decision == "allow", verdict.findings
    assert verdict.findings == ()
    assert {"CAPTURE_LAYERS", "CAPTURE_ORDER", "CAPTURE_COUNT", "CAPTURE_GRAPHS", "FC_WIDTH", "FC_SIZE"} <= set(
        verdict.checked
    )
    assert verdict.context["captures"] == "boundaries 3, 17, 29 (outputs of layers 2, 16, 28)"
    assert verdict.context["stated by"] == "option: --boundaries"


def test_layers_one_off_are_refused_each_in_both_numberings(scene):
    found = written(scene, [3, 17, 29]).finding("CAPTURE_LAYERS")
    assert found.severity == REFUSE
    assert "head" in found.message
    assert "sglang 9.9.9" in found.message
    assert "boundary 3 (output of layer 2) becomes boundary 4 (output of layer 3)" in found.message
    assert "boundary 17 (output of layer 16) becomes boundary 18 (output of layer 17)" in found.message
    assert found.expected == "boundaries 3, 17, 29 (outputs of layers 2, 16, 28), by --boundaries"
    assert "models/llama.py:10" in found.source


def test_the_remedy_is_a_config_edit_and_a_complete_override(scene):
    remedy = written(scene, [3, 17, 29]).finding("CAPTURE_LAYERS").remedy
    assert f"set {KEY} to [2, 16, 28]".lower() in remedy.lower()
    words = shlex.split(remedy.split("launch with ")[1].rstrip("."))
    assert words[0] == "--json-model-override-args"
    assert json.loads(words[1]) == {
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 28], "use_aux_hidden_state": True}
    }


def test_the_override_of_the_remedy_makes_the_verdict_allow(scene):
    remedy = written(scene, [3, 17, 29]).finding("CAPTURE_LAYERS").remedy
    scene.overrides = json.loads(shlex.split(remedy.split("launch with ")[1].rstrip("."))[1])
    assert scene.verdict().decision == "allow"


def test_overrides_already_in_the_launch_stay_in_the_remedy(scene):
    scene.overrides = {"rope_theta": 10000}
    remedy = written(scene, [3, 17, 29]).finding("CAPTURE_LAYERS").remedy
    document = json.loads(shlex.split(remedy.split("launch with ")[1].rstrip("."))[1])
    assert document["rope_theta"] == 10000


def test_no_override_where_it_does_not_reach_the_drafter_or_would_change_the_target(scene):
    written(scene, [3, 17, 29])
    launch = scene.launch
    scene.edit("launch", overrides=replace(launch.overrides, drafter=False))
    assert "--json-model-override-args" not in scene.finding("CAPTURE_LAYERS").remedy
    scene.launch = launch
    scene.edit("target", config={"eagle_config": {}})
    assert "--json-model-override-args" not in scene.finding("CAPTURE_LAYERS").remedy


def test_the_embedding_and_two_layers_are_named(scene):
    written(scene, [-1, 2, 16])
    found = scene.finding("CAPTURE_LAYERS")
    assert "becomes boundary 0 (embedding output)" in found.message
    assert "FC_WIDTH" not in scene.codes()


def test_another_order_of_the_trained_layers_is_its_own_code(scene):
    scene.boundaries = (17, 3, 29)
    codes = scene.codes()
    assert codes["CAPTURE_ORDER"] == REFUSE
    assert "CAPTURE_LAYERS" not in codes
    assert "ascending" in scene.finding("CAPTURE_ORDER").remedy


def test_fewer_layers_than_trained_on_are_named(scene):
    written(scene, [2, 16])
    found = scene.finding("CAPTURE_COUNT")
    assert found.severity == REFUSE
    assert "missing boundary 29 (output of layer 28)" in found.message
    assert scene.finding("FC_WIDTH").severity == REFUSE


def test_duplicates_and_layers_out_of_reach_are_dropped_and_refused(scene):
    written(scene, [2, 2, 31])
    found = scene.finding("CAPTURE_DROPPED")
    assert found.severity == REFUSE
    assert "boundary 3 asked for more than once" in found.message
    assert "boundary 32 (output of layer 31) is not captured" in found.message


def test_a_needless_duplicate_is_only_a_warning(scene):
    written(scene, [2, 2, 16, 28])
    scene.config["num_aux_hidden_states"] = 3
    assert scene.codes()["CAPTURE_DROPPED"] == WARN


def test_a_crash_in_the_setter_names_the_exception(scene):
    scene.edit("rule", capture=CaptureRule(last=Region("error", "IndexError", "setter")))
    found = written(scene, [2, 16, 31]).finding("CAPTURE_CRASH")
    assert found.severity == REFUSE
    assert "IndexError at start-up" in found.message
    scene.edit("rule", capture=CaptureRule(short="RuntimeError"))
    found = scene.finding("CAPTURE_CRASH")
    assert "RuntimeError at the first forward pass" in found.message
    assert "boundaries 3, 17, 32 (outputs of layers 2, 16, 31)" in found.message
    written(scene, [-2, 16, 40])
    assert (
        "boundary 17 (output of layer 16) and -1, 41, which this target does not have"
        in scene.finding("CAPTURE_CRASH").message
    )


def test_ids_that_the_release_refuses_to_read_crash(scene):
    scene.edit("reading", range_low=0, range_high="N-1", error="ValueError")
    assert "ValueError when it reads" in written(scene, [-1, 2, 16]).finding("CAPTURE_CRASH").message


def test_graph_replay_with_the_default_layers_is_refused_until_graphs_are_off(scene):
    scene.graphs = GraphReplay("default", disabled_by=("--disable-cuda-graph",))
    found = scene.finding("CAPTURE_GRAPHS")
    assert found.severity == REFUSE
    assert "boundaries 2, 16, 29 (outputs of layers 1, 15, 28)" in found.actual
    assert "--disable-cuda-graph" in found.remedy
    assert scene.codes() == {"CAPTURE_GRAPHS": REFUSE}
    scene.graphs_on = False
    assert scene.verdict().decision == "allow"


def test_graph_replay_of_the_default_is_right_for_a_head_trained_on_it(scene):
    scene.graphs = GraphReplay("default", disabled_by=("--disable-cuda-graph",))
    scene.boundaries = (2, 16, 29)
    assert written(scene, [1, 15, 28]).verdict().decision == "allow"


def test_a_sticky_class_captures_the_union_in_eager_execution(scene):
    scene.graphs = GraphReplay("default", disabled_by=("--disable-cuda-graph",))
    scene.edit("rule", sticky=True)
    codes = scene.codes()
    assert codes["CAPTURE_COUNT"] == REFUSE
    assert codes["FC_WIDTH"] == REFUSE
    assert codes["CAPTURE_GRAPHS"] == REFUSE


def test_graph_replay_that_cannot_be_told_is_unknown(scene):
    scene.graphs = GraphReplay("unknown", reason="the setter is called in a loop")
    verdict = scene.verdict()
    assert verdict.decision == "unknown"
    assert "CAPTURE_OPAQUE" not in verdict.checked
    assert "called in a loop" in scene.finding("CAPTURE_OPAQUE").message


def test_an_opaque_class_is_unknown_and_names_file_and_function(scene):
    scene.edit("rule", status="opaque", reason="captures a tuple")
    verdict = scene.verdict()
    assert verdict.decision == "unknown"
    found = scene.finding("CAPTURE_OPAQUE")
    assert "models/llama.py:10 (LlamaForCausalLM.set_eagle3_layers_to_capture)" in found.source
    assert "CAPTURE_LAYERS" not in verdict.checked


def test_a_broken_hook_is_refused(scene):
    scene.edit("rule", status="broken", reason="the list is never read")
    assert scene.codes()["CAPTURE_BROKEN"] == REFUSE


def test_a_state_that_is_no_residual_stream_is_refused(scene):
    scene.edit("rule", capture=CaptureRule(state="the MLP branch"))
    found = scene.finding("CAPTURE_FOREIGN_STATE")
    assert found.severity == REFUSE
    assert "the MLP branch" in found.message


def test_a_class_without_the_hook_and_one_that_is_not_registered_are_refused(scene):
    scene.edit("target", architecture="OtherForCausalLM")
    assert "registered without the hook" in scene.finding("CAPTURE_NO_HOOK").actual
    scene.edit("target", architecture="NewForCausalLM")
    assert "no class of that name" in scene.finding("CAPTURE_NO_HOOK").actual


def test_another_release_that_has_the_hook_is_named(scene):
    other = scene.profile("8.8.8")
    scene.others = (other,)
    scene.targets = {"LlamaForCausalLM": {}}
    assert "8.8.8" in scene.finding("CAPTURE_NO_HOOK").remedy


def test_a_release_that_serves_the_checkpoint_as_it_is_is_named(scene):
    other = scene.profile("8.8.8")
    third = replace(other, release="7.7.7", rules=(replace(scene.rule, shifts=(Shift(0),)),))
    scene.edit("rule", shifts=(Shift(1, "first==1"), Shift(2)), capture=CaptureRule())
    scene.edit("reading", range_low=2)
    scene.others = (third, other)
    remedy = scene.finding("CAPTURE_LAYERS").remedy
    assert "No ids work on sglang 9.9.9" in remedy
    assert "8.8.8 with the drafter's config as it is" in remedy
    assert f"7.7.7 with {KEY} = [3, 17, 29]" in remedy


def test_a_missing_key_falls_back_to_the_default_and_is_refused_if_that_is_not_the_layout(scene):
    scene.config["eagle_config"] = None
    codes = scene.codes()
    assert codes["CAPTURE_LAYERS"] == REFUSE
    assert codes["CAPTURE_DEFAULT"] == NOTE


def test_a_default_taken_on_trust_warns(scene):
    scene.config.pop("eagle_config")
    scene.boundaries = None
    reading = LayoutReading("engine default assumed", layout_from_boundaries([2, 16, 29]), reason="no ids")
    scene.edit("facts", layout=reading)
    verdict = scene.verdict()
    assert verdict.decision == "warn"
    assert scene.codes() == {"CAPTURE_DEFAULT": WARN}


def test_ids_where_the_release_does_not_look_are_named(scene):
    scene.config.pop("eagle_config")
    scene.edit("facts", layout=replace(scene.facts.layout, key="eagle_aux_hidden_state_layer_ids"))
    found = scene.finding("CAPTURE_IDS_IGNORED")
    assert found.severity == WARN
    assert KEY in found.actual
    assert scene.codes()["CAPTURE_LAYERS"] == REFUSE


def test_a_release_that_reads_no_ids_serves_only_its_default(scene):
    scene.reading = IdReading()
    found = scene.finding("CAPTURE_LAYERS")
    assert "reads no capture ids" in found.remedy
    assert scene.codes()["CAPTURE_IDS_IGNORED"] == WARN
    scene.boundaries = (2, 16, 29)
    assert scene.verdict().decision == "allow"


def test_capture_switched_off_by_the_config_is_refused_for_a_head_with_taps(scene):
    scene.edit("reading", switch="eagle_config.use_aux_hidden_state")
    scene.config["eagle_config"]["use_aux_hidden_state"] = False
    codes = scene.codes()
    assert codes["CAPTURE_OFF"] == REFUSE
    assert codes["FC_SKIPPED"] == REFUSE


def test_the_remedy_for_switched_off_capture_turns_it_on(scene):
    scene.edit("reading", switch="eagle_config.use_aux_hidden_state")
    scene.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [5, 16, 28], "use_aux_hidden_state": False}
    remedy = scene.finding("CAPTURE_COUNT").remedy
    assert f"use_aux_hidden_state to true and {KEY} to [2, 16, 28]" in remedy
    scene.overrides = json.loads(shlex.split(remedy.split("launch with ")[1].rstrip("."))[1])
    assert scene.verdict().decision == "allow"


def test_a_missing_requirement_of_the_method_crashes(scene):
    scene.edit("reading", requires=("markov_rank",))
    assert "CAPTURE_CRASH" in scene.codes()


def test_a_stream_mean_serves_boundaries_and_a_final_norm_is_another_state(scene):
    scene.edit("rule", capture=CaptureRule(state="stream_mean"))
    assert scene.verdict().decision == "allow"
    scene.boundaries = None
    target = TargetRecord(layers=32)
    record = LayoutRecord(boundaries=(3, 17, 32), states=("residual", "residual", "final_norm"))
    scene.manifest = Manifest(schema="drafters.manifest.v1", target=target, layout=record)
    scene.edit("rule", capture=CaptureRule(last=Region()))
    assert "another state" in written(scene, [2, 16, 31]).finding("CAPTURE_LAYERS").message


def test_the_option_beats_the_manifest_which_beats_the_config(scene):
    record = LayoutRecord(boundaries=(4, 18, 30))
    scene.manifest = Manifest(schema="drafters.manifest.v1", layout=record)
    assert scene.situation().stated.origin == "option"
    scene.boundaries = None
    assert scene.situation().stated.origin == "manifest"
    assert scene.codes()["CAPTURE_LAYERS"] == REFUSE
    scene.manifest = None
    assert scene.situation().stated.origin == "config"


@pytest.mark.parametrize(("confidence", "severity"), [("producer rule", NOTE), ("declared", WARN)])
def test_a_statement_that_differs_from_the_config_is_a_finding_not_an_error(scene, confidence, severity):
    other = layout_from_boundaries([2, 16, 28])
    scene.edit("facts", layout=replace(scene.facts.layout, layout=other, confidence=confidence))
    assert scene.codes() == {"LAYOUT_DIFFERS": severity}


def test_numbers_with_two_readings_warn_whichever_the_release_takes(scene):
    scene.boundaries = None
    other = (2, 16, 28)
    scene.edit("facts", layout=replace(scene.facts.layout, alternatives=(other,)))
    assert scene.codes() == {"NUMBERING_UNDECLARED": WARN}
    scene.edit("rule", shifts=(Shift(0),))
    codes = scene.codes()
    assert codes == {"NUMBERING_UNDECLARED": WARN}
    assert "boundaries 2, 16, 28" in scene.finding("NUMBERING_UNDECLARED").message


def test_numbers_that_fit_no_reading_are_refused(scene):
    scene.boundaries = None
    scene.edit("facts", layout=replace(scene.facts.layout, alternatives=((2, 16, 28),)))
    scene.edit("rule", shifts=(Shift(2),))
    assert scene.codes()["CAPTURE_LAYERS"] == REFUSE


def test_an_undecidable_layout_is_unknown_with_what_would_settle_it(scene):
    scene.boundaries = None
    scene.edit("facts", layout=LayoutReading("undecidable", reason="two producers", settle="ask the trainer"))
    assert scene.verdict().decision == "unknown"
    found = scene.finding("LAYOUT_UNSTATED")
    assert found.severity == UNKNOWN
    assert found.remedy == "ask the trainer"


def test_a_declared_config_needs_no_option(scene):
    scene.boundaries = None
    scene.edit("facts", layout=replace(scene.facts.layout, confidence="declared"))
    assert scene.verdict().decision == "allow"


def test_a_layout_with_a_final_norm_cannot_be_solved_and_says_so(scene):
    scene.boundaries = None
    layout = CaptureLayout((Tap(3), Tap(17), Tap(32, "final_norm")))
    scene.edit("facts", layout=replace(scene.facts.layout, layout=layout, confidence="declared"))
    assert "final norm" in scene.finding("CAPTURE_LAYERS").remedy


def test_ids_that_crash_the_release_are_still_compared_with_the_trained_layers(scene):
    """The wrong fix of the incident: ids [-1, 2, 30] where 3, 17, 29 were trained on, on a class that dies of 0."""
    scene.rule = replace(scene.rule, capture=CaptureRule(zero=Region("error", "TypeError")))
    verdict = written(scene, [-1, 2, 16]).verdict()
    codes = {finding.code for finding in verdict.findings}
    assert {"CAPTURE_CRASH", "CAPTURE_LAYERS"} <= codes
    found = scene.finding("CAPTURE_LAYERS")
    assert found.severity == REFUSE
    assert "boundary 3 (output of layer 2) becomes boundary 0 (embedding output)" in found.message
    assert "boundary 29 (output of layer 28) becomes boundary 17 (output of layer 16)" in found.message


def test_a_crash_on_the_trained_layers_themselves_is_no_layer_mismatch(scene):
    scene.rule = replace(scene.rule, capture=CaptureRule(short="RuntimeError"))
    verdict = written(scene, [2, 16, 28, 28]).verdict()
    codes = {finding.code for finding in verdict.findings}
    assert "CAPTURE_CRASH" in codes
    assert "CAPTURE_LAYERS" not in codes
