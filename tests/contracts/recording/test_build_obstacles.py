"""What stands in the way of recording a drafter, and what settles it."""

from __future__ import annotations

import pytest
from recorded_facts import NAMED, named, pointers

from drafter_contracts.manifest import (
    SCHEMA,
    Manifest,
    TargetRecord,
    canonical,
    decode,
)
from drafter_contracts.recording.audit import contradictions
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement
from drafter_contracts.serving.launch import TargetFacts


@pytest.mark.parametrize("name", ["eagle", "nextn", "standalone"])
def test_captured_layers_of_a_method_that_captures_none_are_refused(name, drafters, fitting_target, listed):
    facts = drafters[name]
    recorded = record(facts, named(boundaries=(3,), option="--boundaries 3"), fitting_target(facts), listed)
    (claim,) = recorded.obstacles
    assert claim.pointer == "/layout"
    assert "--boundaries 3" in claim.message
    assert recorded.manifest is None


@pytest.mark.parametrize(
    ("shape", "change", "reason"),
    [
        ("dflash", {"dflash_config": {"mask_token_id": 7}}, "no default for DFLASH"),
        ("eagle3", {"eagle_config": None}, "assumed is the default"),
        ("dflash", {"aux_hidden_state_layer_ids": [1, 7, 14, 20, 28]}, "name different boundaries"),
    ],
)
def test_a_layout_that_nothing_decides_is_an_obstacle_until_it_is_stated(
    shape, change, reason, reading, shapes, fitting_target, listed
):
    config, tensors = shapes[shape]
    facts = reading({**config, **change}, tensors)
    refused = record(facts, NAMED, fitting_target(facts), listed)
    assert refused.manifest is None
    (claim,) = refused.obstacles
    assert claim.pointer == "/layout/boundaries"
    assert reason in claim.message
    assert "--output-ids or --boundaries" in claim.expected
    boundaries = tuple(range(1, facts.fc.taps + 1))
    settled = record(facts, named(boundaries=boundaries, option="--boundaries ..."), fitting_target(facts), listed)
    assert settled.obstacles == ()
    assert contradictions(settled.manifest, facts) == ()


def test_other_ids_than_a_config_declares_are_refused(drafters, fitting_target, listed):
    facts = drafters["dflash declared"]
    statement = named(boundaries=(2, 8, 15, 21, 29), option="--boundaries 2,8,15,21,29")
    (claim,) = record(facts, statement, fitting_target(facts), listed).obstacles
    assert claim.pointer == "/layout/boundaries"
    assert "config.json declares boundaries 2, 8, 15, 21, 28" in claim.message
    same = named(boundaries=(2, 8, 15, 21, 28), option="--boundaries 2,8,15,21,28")
    assert record(facts, same, fitting_target(facts), listed).obstacles == ()


def test_more_or_fewer_ids_than_fc_takes_are_refused_with_both_widths(incident, fitting_target, listed):
    for boundaries in ((3, 15), (3, 15, 21, 28)):
        statement = named(boundaries=boundaries, option=f"--boundaries {boundaries}")
        (claim,) = record(incident, statement, fitting_target(incident), listed).obstacles
        assert claim.pointer == "/layout/boundaries"
        assert claim.expected == "192 columns"
        assert str(len(boundaries) * 64) in claim.actual
        assert "fc.weight [64, 192]" in claim.source


@pytest.mark.parametrize(
    ("boundaries", "says"), [((3, 15, 32), "0 to 31"), ((3, 15, -1), "0 or more"), ((), "0 or more")]
)
def test_boundaries_that_the_target_has_not_are_refused(boundaries, says, incident, fitting_target, listed):
    statement = named(boundaries=boundaries, option=f"--boundaries {boundaries}")
    (claim,) = record(incident, statement, fitting_target(incident), listed).obstacles
    assert claim.pointer.startswith("/layout")
    assert says in claim.expected


def test_without_its_target_a_drafter_is_not_recorded(reading, shapes, listed):
    config, tensors = shapes["eagle3"]
    facts = reading(config, tensors, layers=None)
    recorded = record(facts, NAMED, None, listed)
    assert recorded.manifest is None
    assert set(pointers(recorded)) == {f"/target/{f}" for f in ("model", "architecture", "layers", "hidden_size")}
    assert all("--target" in claim.expected for claim in recorded.obstacles)
    final = reading({**config, "eagle_config": {"use_aux_hidden_state": False}}, tensors, layers=None)
    assert "depends on the target's depth" in record(final, NAMED, None, listed).obstacles[0].message


def test_ids_that_were_read_without_the_depth_are_not_recorded_with_one(reading, shapes, listed):
    """The numbers would be boundaries on a target as deep as the largest of them."""
    config, tensors = shapes["eagle3"]
    target = TargetRecord(model="org/T", architecture="T", layers=27, hidden_size=64)
    statement = named(manifest=Manifest(schema=SCHEMA, target=target))
    (claim,) = record(reading(config, tensors, layers=None), statement, None, listed).obstacles
    assert claim.pointer == "/target/layers"
    assert "boundaries instead if the target has 27 layers" in claim.message
    layout = record(reading(config, tensors, layers=27), statement, None, listed).manifest.layout
    assert layout.boundaries == (2, 14, 27)


def test_a_target_that_is_not_the_one_of_the_config_is_refused(drafters, listed):
    facts = drafters["dflash"]
    other = TargetFacts(path="/models/Other", architecture="A", num_layers=30, hidden_size=128)
    recorded = record(facts, NAMED, other, listed)
    assert {"/target/layers", "/target/hidden_size", "/layout/boundaries"} <= set(pointers(recorded))
    looped = TargetFacts(path="/models/Loop", architecture="A", num_layers=62, num_loops=2, hidden_size=64)
    manifest = record(facts, NAMED, looped, listed).manifest
    assert (manifest.target.model, manifest.target.layers) == ("Loop", 62)


def test_name_and_version_must_be_stated_and_files_may_follow(incident, fitting_target):
    recorded = record(incident, Statement(), fitting_target(incident), ())
    assert pointers(recorded) == ["/name", "/version"]
    assert [claim.expected for claim in recorded.obstacles] == ["--name", "--version"]
    assert record(incident, NAMED, fitting_target(incident), ()).manifest is not None


def test_an_unknown_method_is_an_obstacle_until_it_is_stated(reading, fitting_target, listed):
    facts = reading({"hidden_size": 64}, {"something.weight": (3, 3)})
    assert pointers(record(facts, NAMED, fitting_target(facts), listed)) == ["/method"]
    assert record(facts, named(method="NEXTN"), fitting_target(facts), listed).manifest.method == "NEXTN"
    assert pointers(record(facts, named(method="EAGLE4"), fitting_target(facts), listed)) == ["/method"]


def test_files_that_contradict_each_other_are_never_recorded(reading, shapes, fitting_target, listed):
    config, tensors = shapes["eagle3"]
    facts = reading({**config, "draft_vocab_size": 99}, tensors)
    statement = named(boundaries=(3, 15, 28), option="--boundaries 3,15,28")
    (claim,) = record(facts, statement, fitting_target(facts), listed).obstacles
    assert (claim.pointer, claim.expected) == ("/draft/vocab_size", "config.json draft_vocab_size = 99")
    assert "lm_head.weight [100, 64]" in claim.actual


@pytest.mark.parametrize(
    ("key", "value"),
    [("architectures", ["\ud800"]), ("rope_scaling", {"factor": float("nan")}), ("max_position_embeddings", 2**70)],
)
def test_a_config_that_no_manifest_can_hold_is_an_obstacle(key, value, reading, shapes, fitting_target, listed):
    config, tensors = shapes["eagle3"]
    facts = reading({**config, key: value}, tensors)
    recorded = record(facts, NAMED, fitting_target(facts), listed)
    assert (recorded.manifest is None) == bool(recorded.obstacles)
    if recorded.manifest is not None:
        assert decode(canonical(recorded.manifest)) == recorded.manifest
