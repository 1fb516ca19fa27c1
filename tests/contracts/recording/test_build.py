"""What is recorded of a drafter, with where it was read and what was taken on word."""

from __future__ import annotations

import msgspec
from recorded_facts import NAMED, lines, named

from drafter_contracts.checkpoint.facts import ENGINE_DEFAULT, UNDECIDABLE
from drafter_contracts.checkpoint.parts import AUX_METHODS
from drafter_contracts.manifest import (
    DraftRecord,
    TargetRecord,
    canonical,
    decode,
)
from drafter_contracts.recording.audit import contradictions, missing
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement


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


def test_what_the_drafter_says_of_its_target_is_used_where_the_target_is_not_at_hand(reading, shapes, listed):
    config, tensors = shapes["dflash"]
    verifier = {"name_or_path": "org/Verified", "architectures": ["VerifiedForCausalLM"]}
    facts = reading({**config, "speculators_config": {"verifier": verifier}}, tensors, layers=None)
    manifest = record(facts, NAMED, None, listed).manifest
    assert manifest.target == TargetRecord(
        model="org/Verified", architecture="VerifiedForCausalLM", layers=31, hidden_size=64
    )


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


def test_the_targets_positions_are_recorded_as_engines_count_them(incident, fitting_target, listed):
    """A launch that gives no config of the target is held against them."""
    config = {"text_config": {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}}
    target = msgspec.structs.replace(fitting_target(incident), config=config)
    assert record(incident, NAMED, target, listed).manifest.target.context_length == 16384
