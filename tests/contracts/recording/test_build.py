"""What is recorded of a drafter, with where it was read and what was taken on word, and what stands in the way."""

from __future__ import annotations

import msgspec
import pytest

from drafter_contracts.checkpoint.facts import ENGINE_DEFAULT, UNDECIDABLE
from drafter_contracts.checkpoint.parts import AUX_METHODS
from drafter_contracts.manifest import (
    SCHEMA,
    Acceptance,
    DraftRecord,
    LayoutRecord,
    Manifest,
    Provenance,
    TargetRecord,
    canonical,
    decode,
)
from drafter_contracts.recording.audit import contradictions, missing
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement
from drafter_contracts.serving.launch import TargetFacts

NAMED = Statement(name="head", version="1")


def named(**more):
    return msgspec.structs.replace(NAMED, **more)


def lines(found):
    return {line.fact: (line.value, line.source) for line in found}


def pointers(recorded):
    return [claim.pointer for claim in recorded.obstacles]


@pytest.fixture
def incident(reading, shapes):
    return reading(*shapes["eagle3"])


def test_every_drafter_is_recorded_without_contradiction_or_says_what_settles_it(drafters, fitting_target, listed):
    for name, facts in drafters.items():
        recorded = record(facts, NAMED, fitting_target(facts), listed)
        if recorded.manifest is not None:
            assert recorded.obstacles == (), name
            assert contradictions(recorded.manifest, facts) == (), name
            assert missing(recorded.manifest) == (), name
            assert decode(canonical(recorded.manifest)) == recorded.manifest, name
            assert (recorded.manifest.layout is not None) == (facts.method in AUX_METHODS), name
        else:
            assert facts.layout.confidence in {ENGINE_DEFAULT, UNDECIDABLE}, name
            assert all(claim.expected and claim.message for claim in recorded.obstacles), name


def test_a_stated_layout_settles_every_drafter_whose_method_is_known(drafters, fitting_target, listed):
    for name, facts in drafters.items():
        if facts.method not in AUX_METHODS or facts.layout.confidence not in {ENGINE_DEFAULT, UNDECIDABLE}:
            continue
        taps = facts.fc.taps if facts.fc is not None and facts.fc.taps else 3
        ids = tuple(range(1, taps + 1))
        statement = named(boundaries=ids, option="--boundaries " + ",".join(map(str, ids)))
        recorded = record(facts, statement, fitting_target(facts), listed)
        assert recorded.obstacles == (), name
        assert recorded.manifest.layout.boundaries == ids, name
        assert recorded.manifest.layout.known_by == "declared", name
        assert contradictions(recorded.manifest, facts) == (), name


def test_what_is_read_names_file_and_key_or_tensor(incident, fitting_target, listed):
    recorded = record(incident, NAMED, fitting_target(incident), listed)
    read = lines(recorded.read)
    assert read["layout.boundaries"] == (
        "boundaries 3, 15, 28 (outputs of layers 2, 14, 27)",
        "config.json: eagle_config.eagle_aux_hidden_state_layer_ids = [2, 14, 27]",
    )
    assert read["layout.fc_input_width"] == ("192", "tensors: fc.weight [64, 192]")
    assert read["draft.vocab_size"] == ("100", "tensors: lm_head.weight [100, 64]")
    assert read["draft.rope_theta"] == ("500000.0", "config.json: rope_theta")
    assert read["draft.lm_head"] == ("own", "tensors: lm_head.weight [100, 64]")
    assert read["draft.embeddings"] == ("target", "tensors: no embed_tokens")
    assert read["target.layers"][1].startswith("config.json of org/Target")
    assert lines(recorded.taken_on_word) == {
        "name": ("head", "stated by the publisher"),
        "version": ("1", "stated by the publisher"),
    }
    manifest = recorded.manifest
    assert manifest.method == "EAGLE3"
    assert manifest.target == TargetRecord(
        model="org/Target",
        architecture="TargetForCausalLM",
        layers=31,
        hidden_size=64,
        vocab_size=1000,
        tokenizer_sha256="5" * 64,
    )
    layout = manifest.layout
    assert (layout.output_ids, layout.widths, layout.fc_input_width) == ((2, 14, 27), (64, 64, 64), 192)
    assert (layout.known_by, layout.stated.values, layout.stated.numbering) == (
        "producer rule",
        (2, 14, 27),
        "eagle-config",
    )
    assert "fc.weight [64, 192] takes 3 taps of 64" in layout.evidence
    assert [file.path for file in manifest.files] == ["config.json", "model.safetensors"]
    assert manifest.draft == DraftRecord(
        architecture="LlamaForCausalLMEagle3",
        hidden_size=64,
        layers=1,
        vocab_size=100,
        target_vocab_size=1000,
        vocab_mapping="offset",
        has_embedding=False,
        has_lm_head=True,
        lm_head="own",
        embeddings="target",
        context_length=4096,
        rope_theta=500000.0,
        weights_dtype="BF16",
        attention="mha",
    )


def test_norms_flags_block_and_mask_are_recorded(drafters, fitting_target, listed):
    def of(name):
        return record(drafters[name], NAMED, fitting_target(drafters[name]), listed).manifest

    assert of("eagle3 norm").layout.norm == "concatenation"
    assert of("eagle3 norm per tap").layout.norm == "per_chunk"
    flags = of("eagle3 flags").draft
    assert (flags.norm_output, flags.norm_before_residual, flags.rope_scaling["factor"]) == (True, True, 4.0)
    assert flags.embeddings == ""  # as wide as the target's: maybe a copy
    assert of("eagle3 quantised").draft.quantization == "fp8"
    wide = of("eagle3 of a wider target")
    assert (wide.draft.embeddings, wide.layout.widths) == ("own", (128, 128, 128))
    block = of("dflash").draft
    assert (block.block_size, block.mask_token_id, block.vocab_mapping) == (16, 7, "none")
    assert of("dflash declared").layout.known_by == "declared"
    assert of("standalone").draft.lm_head == of("standalone").draft.embeddings == "own"
    assert of("nextn").layout is None
    assert of("eagle3 config alone").draft.layers == 1


@pytest.mark.parametrize("name", ["eagle", "nextn", "standalone"])
def test_captured_layers_of_a_method_that_captures_none_are_refused(name, drafters, fitting_target, listed):
    facts = drafters[name]
    recorded = record(facts, named(boundaries=(3,), option="--boundaries 3"), fitting_target(facts), listed)
    (claim,) = recorded.obstacles
    assert claim.pointer == "/layout"
    assert "--boundaries 3" in claim.message
    assert recorded.manifest is None


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


def test_what_the_drafter_says_of_its_target_is_used_where_the_target_is_not_at_hand(reading, shapes, listed):
    config, tensors = shapes["dflash"]
    verifier = {"name_or_path": "org/Verified", "architectures": ["VerifiedForCausalLM"]}
    facts = reading({**config, "speculators_config": {"verifier": verifier}}, tensors, layers=None)
    manifest = record(facts, NAMED, None, listed).manifest
    assert manifest.target == TargetRecord(
        model="org/Verified", architecture="VerifiedForCausalLM", layers=31, hidden_size=64
    )


def test_a_target_that_is_not_the_one_of_the_config_is_refused(drafters, listed):
    facts = drafters["dflash"]
    other = TargetFacts(path="/models/Other", architecture="A", num_layers=30, hidden_size=128)
    recorded = record(facts, NAMED, other, listed)
    assert {"/target/layers", "/target/hidden_size", "/layout/boundaries"} <= set(pointers(recorded))
    looped = TargetFacts(path="/models/Loop", architecture="A", num_layers=62, num_loops=2, hidden_size=64)
    manifest = record(facts, NAMED, looped, listed).manifest
    assert (manifest.target.model, manifest.target.layers) == ("Loop", 62)


def test_a_manifest_may_count_one_pass_of_a_looped_target(incident, listed):
    looped = TargetFacts(path="org/L", architecture="A", num_layers=62, num_loops=2, hidden_size=64)
    for layers, obstacles in ((31, []), (62, []), (60, ["/target/layers"])):
        statement = named(manifest=Manifest(schema=SCHEMA, target=TargetRecord(layers=layers)))
        assert pointers(record(incident, statement, looped, listed)) == obstacles


def test_whose_head_it_is_is_recorded_only_where_it_follows(reading, shapes, fitting_target, listed):
    def owner(config, tensors):
        facts = reading(config, tensors)
        return record(facts, NAMED, fitting_target(facts), listed).manifest.draft.lm_head

    config, tensors = shapes["eagle3"]
    whole = {**tensors, "lm_head.weight": (1000, 64), "d2t": (1000,)}
    assert owner({**config, "draft_vocab_size": 1000}, whole) == ""  # maybe a copy of the target's
    config, tensors = shapes["standalone"]
    bare = {name: shape for name, shape in tensors.items() if name != "lm_head.weight"}
    assert owner({**config, "tie_word_embeddings": True}, bare) == "own"
    config, tensors = shapes["dflash"]
    assert owner(config, tensors) == "target"


def test_a_templates_zero_is_no_number(reading, shapes, fitting_target, listed):
    config, tensors = shapes["eagle3"]
    facts = reading({**config, "max_position_embeddings": 0}, tensors)
    assert record(facts, NAMED, fitting_target(facts), listed).manifest.draft.context_length is None


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


def test_a_producer_is_recorded_where_the_files_name_exactly_one(drafters, fitting_target, listed):
    def producer(name):
        facts = drafters[name]
        return facts.layout.producer, record(facts, NAMED, fitting_target(facts), listed).manifest.provenance.producer

    assert producer("eagle3") == ("SpecForge or ModelOpt", "")
    read, recorded = producer("published--RedHatAI--Qwen3-4B-speculator.dspark")
    assert recorded == read
    assert read.startswith("speculators")


def test_recording_what_was_recorded_gives_the_same_manifest(drafters, fitting_target, listed):
    for name, facts in drafters.items():
        first = record(facts, named(steps=3, producer="p==1"), fitting_target(facts), listed).manifest
        if first is not None:
            again = record(facts, Statement(manifest=first), fitting_target(facts), listed).manifest
            assert canonical(again) == canonical(first), name


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


def test_the_targets_positions_are_recorded_as_engines_count_them(incident, fitting_target, listed):
    """A launch that gives no config of the target is held against them."""
    config = {"text_config": {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}}
    target = msgspec.structs.replace(fitting_target(incident), config=config)
    assert record(incident, NAMED, target, listed).manifest.target.context_length == 16384
