"""What a publisher says of a drafter, by an option or a manifest beside the weights, and what is recorded of it."""

from __future__ import annotations

import msgspec
from recorded_facts import NAMED, lines, named, pointers

from drafter_contracts.manifest import (
    SCHEMA,
    Acceptance,
    DraftRecord,
    LayoutRecord,
    Manifest,
    Provenance,
    TargetRecord,
)
from drafter_contracts.recording.build import record
from drafter_contracts.serving.launch import TargetFacts


def test_an_option_precedes_numbers_that_are_only_read_by_a_rule(incident, fitting_target, listed):
    statement = named(boundaries=(2, 14, 27), option="--boundaries 2,14,27", producer="specforge==0.2.0")
    recorded = record(incident, statement, fitting_target(incident), listed)
    layout = recorded.manifest.layout
    assert (layout.boundaries, layout.known_by) == ((2, 14, 27), "declared")
    assert layout.stated.key == "eagle_config.eagle_aux_hidden_state_layer_ids"
    assert (layout.stated.values, layout.stated.numbering) == ((2, 14, 27), "eagle-config")
    assert layout.stated.producer == "specforge==0.2.0"
    assert layout.evidence[0].startswith("--boundaries 2,14,27: boundaries 2, 14, 27")
    assert (
        "eagle_aux_hidden_state_layer_ids = [2, 14, 27]; producer rule: SGLang and the trainers" in layout.evidence[1]
    )
    word = lines(recorded.taken_on_word)
    assert "which would be boundaries 3, 15, 28" in word["layout.stated"][0]
    assert word["layout.boundaries"][1] == "--boundaries 2,14,27"
    assert word["provenance.producer"] == ("specforge==0.2.0", "stated by the publisher")


def test_a_final_norm_of_the_config_stays_one_where_an_option_names_its_boundary(
    reading, shapes, fitting_target, listed
):
    config, tensors = shapes["eagle3"]
    tensors = {name: shape for name, shape in tensors.items() if name != "fc.weight"}
    facts = reading({**config, "eagle_config": {"use_aux_hidden_state": False}}, tensors)
    for statement in (NAMED, named(boundaries=(31,), option="--boundaries 31")):
        layout = record(facts, statement, fitting_target(facts), listed).manifest.layout
        assert (layout.boundaries, layout.states) == ((31,), ("final_norm",))
    residual = named(boundaries=(31,), option="--boundaries 31", states=("residual",))
    assert record(facts, residual, fitting_target(facts), listed).manifest.layout.states == ("residual",)


def test_output_ids_are_kept_as_they_were_stated(reading, shapes, fitting_target, listed):
    config, tensors = shapes["dflash"]
    facts = reading({**config, "dflash_config": {"mask_token_id": 7}}, tensors)
    statement = named(boundaries=(2, 8, 15, 21, 28), option="--output-ids 1,7,14,20,27")
    layout = record(facts, statement, fitting_target(facts), listed).manifest.layout
    assert (layout.stated.key, layout.stated.values, layout.stated.numbering) == (
        "--output-ids",
        (1, 7, 14, 20, 27),
        "output ids",
    )
    assert (
        layout.evidence[0]
        == "--output-ids 1,7,14,20,27: boundaries 2, 8, 15, 21, 28 (outputs of layers 1, 7, 14, 20, 27)"
    )


def test_a_manifest_may_count_one_pass_of_a_looped_target(incident, listed):
    looped = TargetFacts(path="org/L", architecture="A", num_layers=62, num_loops=2, hidden_size=64)
    for layers, obstacles in ((31, []), (62, []), (60, ["/target/layers"])):
        statement = named(manifest=Manifest(schema=SCHEMA, target=TargetRecord(layers=layers)))
        assert pointers(record(incident, statement, looped, listed)) == obstacles


BESIDE = Manifest(
    schema=SCHEMA,
    name="old",
    version="0",
    target=TargetRecord(model="org/Stated"),
    layout=LayoutRecord(boundaries=(2, 14, 27)),
    draft=DraftRecord(trained_context=2048, lm_head="own", thinking_mode="off"),
    acceptance=(Acceptance(length=2.5),),
    provenance=Provenance(producer="specforge==0.2.0", notes=("a",)),
)


def test_the_manifest_beside_the_weights_speaks_where_no_option_does(incident, fitting_target, listed):
    statement = named(manifest=BESIDE, trained_context=4096, manifest_source="m.json")
    recorded = record(incident, statement, fitting_target(incident), listed)
    manifest = recorded.manifest
    assert (manifest.name, manifest.version, manifest.target.model) == ("head", "1", "org/Stated")
    assert (manifest.layout.boundaries, manifest.layout.known_by) == ((2, 14, 27), "declared")
    assert (manifest.draft.trained_context, manifest.draft.thinking_mode) == (4096, "off")
    assert (manifest.acceptance, manifest.provenance.notes) == ((Acceptance(length=2.5),), ("a",))
    word = lines(recorded.taken_on_word)
    assert word["target.model"] == ("org/Stated", "m.json")
    assert word["draft.trained_context"] == ("4096", "stated by the publisher")
    assert word["layout.boundaries"][1] == "m.json"
    assert "draft.lm_head" not in word  # it was read too
    option = msgspec.structs.replace(statement, boundaries=(3, 15, 28), option="--boundaries 3,15,28")
    assert record(incident, option, fitting_target(incident), listed).manifest.layout.boundaries == (3, 15, 28)


def test_a_manifest_beside_the_weights_that_the_files_contradict_is_refused(incident, fitting_target, listed):
    wrong = msgspec.structs.replace(
        BESIDE,
        method="DFLASH",
        draft=DraftRecord(vocab_size=99, lm_head="target", rope_theta=1.0),
        target=TargetRecord(layers=30, vocab_size=999),
    )
    recorded = record(incident, named(manifest=wrong), fitting_target(incident), listed)
    assert recorded.manifest is None
    assert set(pointers(recorded)) >= {
        "/method",
        "/target/layers",
        "/target/vocab_size",
        "/draft/vocab_size",
        "/draft/lm_head",
        "/draft/rope_theta",
    }


def test_acceptances_are_told_in_words_one_line_each(incident, fitting_target, listed):
    one = Acceptance(length=2.753, dataset="texts", engine="sglang 0.5.23", measured="engine")
    beside = Manifest(schema=SCHEMA, acceptance=(Acceptance(length=2),))
    for statement, told in (
        (named(acceptance=(one, Acceptance(length=3)), manifest=beside), ("stated by the publisher", 2)),
        (named(manifest=beside), ("drafters-manifest.json", 1)),
    ):
        found = record(incident, statement, fitting_target(incident), listed).taken_on_word
        lines_of = [line for line in found if line.fact == "acceptance"]
        assert ({line.source for line in lines_of}, len(lines_of)) == ({told[0]}, told[1])
    assert lines_of[0].value == "2.00 tokens per step"
    stated = record(incident, named(acceptance=(one,)), fitting_target(incident), listed).taken_on_word
    assert "2.75 tokens per step (engine, texts, sglang 0.5.23)" in [line.value for line in stated]
