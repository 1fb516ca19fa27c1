from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.checkpoint.facts import FcFacts
from drafter_contracts.engines.profile import TapBuffers
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN

H = 4096


def test_a_drafter_narrower_than_its_target_is_legal(scene):
    scene.config |= {"hidden_size": 2048, "target_hidden_size": H}
    scene.edit(
        "facts", hidden_size=2048, target_hidden_size=H, fc=FcFacts("fc.weight", 2048, 3 * H), has_embedding=True
    )
    scene.edit("draft_class", embed="target unless target_hidden_size differs")
    assert scene.verdict().decision == "allow"


def test_fc_of_another_target_is_refused_with_the_columns(scene):
    scene.edit("facts", fc=FcFacts("fc.weight", H, 3 * 5120))
    found = scene.finding("FC_WIDTH")
    assert found.severity == REFUSE
    assert "12288 columns" in found.message
    assert "15360" in found.message


def test_a_release_that_builds_fc_for_three_states_refuses_five(scene):
    scene.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [1, 9, 17, 22, 28]
    scene.boundaries = (2, 10, 18, 23, 29)
    scene.edit("facts", fc=FcFacts("fc.weight", H, 5 * H))
    assert scene.verdict().decision == "allow"
    scene.edit("draft_class", taps=("3",))
    found = scene.finding("FC_SIZE")
    assert found.severity == REFUSE
    assert "3 = 3 times hidden_size = 4096" in found.actual
    assert "whatever the config says" in found.remedy


def test_a_count_in_the_config_that_differs_from_the_ids_is_refused(scene):
    scene.config["num_aux_hidden_states"] = 4
    assert "num_aux_hidden_states = 4" in scene.finding("FC_SIZE").actual


def test_one_state_of_the_drafters_own_width_skips_fc(scene):
    scene.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [28]
    scene.boundaries = (29,)
    scene.edit("facts", fc=FcFacts("fc.weight", H, H))
    assert scene.codes()["FC_SKIPPED"] == REFUSE


def test_a_bias_without_a_tensor_warns_and_a_dropped_one_is_refused(scene):
    scene.edit("draft_class", bias="yes")
    assert scene.codes() == {"FC_BIAS": WARN}
    scene.edit("draft_class", bias="no")
    scene.edit("facts", fc=replace(scene.facts.fc, bias=True))
    assert scene.codes() == {"FC_BIAS": REFUSE}
    scene.edit("draft_class", bias="bias")
    assert scene.finding("FC_BIAS").remedy.startswith("Set bias to true")


@pytest.mark.parametrize(
    ("field", "code", "key"),
    [("norm_before_fc", "NORM_BEFORE_FC", "eagle_config.norm_before_fc"), ("fc_norm", "NORM_PER_CHUNK", "fc_norm")],
)
def test_a_trained_norm_must_be_known_to_the_release_and_switched_on(scene, field, code, key):
    scene.edit("facts", **{field: True})
    assert scene.codes() == {code: REFUSE}
    assert f"Set {key} to true" in scene.finding(code).remedy
    scene.config[field] = True
    assert scene.verdict().decision == "allow"
    other = scene.profile("8.8.8")
    scene.edit("draft_class", **{field: ()})
    scene.others = (other,)
    found = scene.finding(code)
    assert "does not know it" in found.message
    assert "sglang 8.8.8" in found.remedy


def test_where_either_key_switches_a_norm_on_a_false_first_one_decides_nothing(scene):
    scene.edit("draft_class", fc_norm=("fc_norm", "use_aux_norm"), either=("fc_norm",))
    scene.config.update(fc_norm=False, use_aux_norm=True)
    assert scene.codes() == {"NORM_PER_CHUNK": REFUSE}
    assert "Set fc_norm and use_aux_norm to false" in scene.finding("NORM_PER_CHUNK").remedy
    scene.edit("facts", fc_norm=True)
    assert scene.verdict().decision == "allow"
    scene.edit("draft_class", either=())
    assert scene.codes() == {"NORM_PER_CHUNK": REFUSE}


def test_a_norm_that_no_tensor_fills_is_refused(scene):
    scene.config["fc_norm"] = True
    assert scene.codes() == {"NORM_PER_CHUNK": REFUSE}


def test_what_an_opaque_class_does_is_unknown_and_nothing_is_claimed_of_its_fc(scene):
    scene.edit("draft_class", status="opaque", reason="builds fc in C++")
    verdict = scene.verdict()
    assert verdict.decision == "unknown"
    assert scene.codes() == {"DRAFT_OPAQUE": "unknown"}
    assert not {"FC_SIZE", "FC_SKIPPED", "NORM_BEFORE_FC"} & set(verdict.checked)


def test_a_class_that_cannot_work_is_refused_and_a_release_where_it_works_is_named(scene):
    scene.others = (scene.profile("8.8.8"),)
    scene.edit("draft_class", status="broken", reason="the model that it builds has no layer for the target's states")
    assert scene.codes() == {"DRAFT_BROKEN": REFUSE}
    found = scene.finding("DRAFT_BROKEN")
    assert "has no layer for the target's states" in found.message
    assert found.remedy == "Use sglang 8.8.8, where it works."
    assert not {"FC_SIZE", "DRAFT_WEIGHTS", "DRAFT_LAYERS"} & set(scene.verdict().checked)


def test_buffers_sized_by_the_targets_config_are_doubted_until_an_override_reaches_it(scene):
    scene.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [1, 9, 17, 22, 28]
    scene.boundaries = (2, 10, 18, 23, 29)
    scene.edit("facts", fc=FcFacts("fc.weight", H, 5 * H))
    scene.buffers = {"EAGLE3": TapBuffers("target", ("num_aux_hidden_states", "3"))}
    found = scene.finding("FC_BUFFERS")
    assert found.severity == UNKNOWN
    assert "for 3 states" in found.message
    assert """'{"num_aux_hidden_states":5}'""" in found.remedy
    scene.flags = ("--json-model-override-args", "--disable-cuda-graph")
    scene.overrides = {"theirs": 1}
    assert scene.finding("FC_BUFFERS").flags == (
        ("--json-model-override-args", '{"theirs":1,"num_aux_hidden_states":5}'), ("--disable-cuda-graph",),
    )  # fmt: skip
    scene.edit("target", config={"num_aux_hidden_states": 5})
    assert scene.verdict().decision == "allow"
    scene.edit("target", config={})
    scene.graphs_on = False
    assert scene.verdict().decision == "allow"


def test_a_target_that_is_only_recorded_does_not_say_how_many_states_its_config_makes_room_for(scene):
    scene.buffers = {"EAGLE3": TapBuffers("target", ("num_aux_hidden_states", "3"))}
    assert "FC_BUFFERS" in scene.verdict().checked
    scene.edit("target", config={})
    assert "FC_BUFFERS" not in scene.verdict().checked
    assert scene.verdict().decision == "allow"
