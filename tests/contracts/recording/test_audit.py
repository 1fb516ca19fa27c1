"""What a manifest claims and the drafter's own bytes contradict, field by field; and what it must say to be stored."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.checkpoint.facts import METHODS, PRODUCER_RULE
from drafter_contracts.manifest import SCHEMA, FileRecord, LayoutRecord, Manifest, TargetRecord
from drafter_contracts.recording.audit import contradictions, missing
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement

replace = msgspec.structs.replace


def pointers(manifest, facts):
    return {claim.pointer for claim in contradictions(manifest, facts)}


@pytest.fixture(scope="module")
def recorded(drafters, fitting_target, listed):
    """(name, manifest, facts) of everything that can be recorded."""
    found = []
    for name, facts in drafters.items():
        manifest = record(facts, Statement(name="head", version="1"), fitting_target(facts), listed).manifest
        if manifest is not None:
            found.append((name, manifest, facts))
    assert len(found) > 50
    return found


@pytest.fixture(scope="module")
def small(recorded, shapes):
    """Those of the shapes made for these tests: every field that can be derived is in one of them."""
    return [one for one in recorded if one[0] in shapes]


def other(data, value, field):
    """Another value of the same kind."""
    if field == "vocab_mapping":
        return {"none": "offset", "offset": "absolute"}[value]
    if field == "attention":
        return {"mha": "mla", "mla": "mha"}[value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return data.draw(st.integers(1, 1 << 20).filter(lambda number: number != value))
    if isinstance(value, float):
        return data.draw(st.floats(1, 1e9).filter(lambda number: number != value))
    if isinstance(value, dict):
        return {**value, "factor": data.draw(st.floats(100, 200))}
    return data.draw(st.text("xyz", min_size=1).filter(lambda text: text != value))


def in_layout(data, layout, facts):
    """Pointers of the layout that the files decide, with a layout that differs there alone."""
    reading, fused = facts.layout, facts.fc is not None
    changes = {}
    if fused or facts.config.get("norm_before_fc") is not None:
        norms = {"none", "concatenation", "per_chunk"} - {layout.norm}
        changes["/layout/norm"] = replace(layout, norm=data.draw(st.sampled_from(sorted(norms))))
    if fused:
        more = (*layout.boundaries, max(layout.boundaries) + 1)
        changes["/layout/fc_input_width"] = replace(layout, fc_input_width=layout.fc_input_width + 1)
        changes["/layout/widths"] = replace(layout, widths=(layout.widths[0] + 1, *layout.widths[1:]))
        changes["/layout/boundaries"] = replace(layout, boundaries=more, output_ids=(), widths=(), states=())
    if reading.confidence == PRODUCER_RULE and data.draw(st.booleans()):
        moved = (layout.boundaries[0] + 1, *layout.boundaries[1:])
        changes["/layout/boundaries"] = replace(layout, boundaries=moved, output_ids=())
    if reading.confidence == "declared":
        states = ("stream_mean", *("residual" for _ in layout.boundaries[1:]))
        changes["/layout/states"] = replace(layout, states=states)
    if layout.stated is not None and layout.stated.values:
        values = (*layout.stated.values[:-1], layout.stated.values[-1] + 1)
        changes["/layout/stated/values"] = replace(layout, stated=replace(layout.stated, values=values))
    return changes


def altered(data, manifest, facts):
    """JSON pointer of every field that the files decide, with a manifest that differs there alone."""
    wrong = next(method for method in METHODS if method not in {facts.method, "P-EAGLE", "DFLASH2"})
    changes = {"/method": replace(manifest, method=wrong)}
    for name in manifest.draft.__struct_fields__:
        value = getattr(manifest.draft, name)
        if name in {"lm_head", "embeddings"}:
            new = "target" if value == "own" else ""
        else:
            new = other(data, value, name) if value not in (None, "") else ""
        if new != "":
            changes[f"/draft/{name}"] = replace(manifest, draft=replace(manifest.draft, **{name: new}))
    target = manifest.target
    if facts.target.get("layers"):
        changes["/target/layers"] = replace(manifest, target=replace(target, layers=target.layers + 1))
    if facts.target_hidden_size:
        changes["/target/hidden_size"] = replace(manifest, target=replace(target, hidden_size=target.hidden_size + 1))
    if manifest.layout is not None:
        for pointer, layout in in_layout(data, manifest.layout, facts).items():
            changes[pointer] = replace(manifest, layout=layout)
    return changes


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_change_of_any_field_that_the_files_decide_is_named_and_nothing_else(data, small, recorded):
    for name, manifest, facts in (*small, data.draw(st.sampled_from(recorded))):
        for pointer, changed in altered(data, manifest, facts).items():
            assert pointers(changed, facts) == {pointer}, name
        assert pointers(manifest, facts) == set(), name


def test_every_field_that_can_be_derived_is_altered_in_that_test(small):
    seen = set()
    for _, manifest, facts in small:
        draft = {
            f"/draft/{name}"
            for name in manifest.draft.__struct_fields__
            if getattr(manifest.draft, name) not in (None, "")
        }
        seen |= draft
        seen |= {"/target/layers"} if facts.target.get("layers") else set()
        seen |= {"/target/hidden_size"} if facts.target_hidden_size else set()
        seen |= {"/layout/states"} if facts.layout.confidence == "declared" else set()
    unread = {"/draft/trained_context", "/draft/dtype", "/draft/thinking_mode", "/draft/rotated"}
    every = {f"/draft/{name}" for name in Manifest(schema=SCHEMA).draft.__struct_fields__}
    assert every - seen == unread
    assert {"/target/layers", "/target/hidden_size", "/layout/states"} <= seen


def test_what_the_files_leave_open_is_no_contradiction(recorded):
    for name, manifest, facts in recorded:
        free = replace(
            manifest,
            name="other",
            version="9",
            target=replace(manifest.target, model="x", revision="y", vocab_size=5, tokenizer_sha256="0" * 64),
            draft=replace(manifest.draft, trained_context=1, dtype="float16", thinking_mode="on", rotated=True),
        )
        assert pointers(free, facts) == set(), name
        silent = Manifest(schema=SCHEMA)
        assert pointers(silent, facts) == set(), name


def test_a_layout_on_word_need_not_be_what_a_rule_reads(drafters, reading, shapes):
    facts = drafters["eagle3"]
    layout = LayoutRecord(boundaries=(4, 16, 29), known_by="declared")
    assert pointers(Manifest(schema=SCHEMA, layout=layout), facts) == set()
    rule = replace(layout, known_by="producer rule")
    assert pointers(Manifest(schema=SCHEMA, layout=rule), facts) == {"/layout/boundaries"}
    config, tensors = shapes["eagle3"]
    assumed = reading({**config, "eagle_config": None}, tensors)
    assert pointers(Manifest(schema=SCHEMA, layout=rule), assumed) == {"/layout/known_by"}


def test_contradictory_keys_are_settled_by_a_declared_layout_only(reading, shapes):
    config, tensors = shapes["dflash"]
    facts = reading({**config, "aux_hidden_state_layer_ids": [1, 7, 14, 20, 28]}, tensors)
    taps = (2, 8, 15, 21, 28)
    stated = LayoutRecord(boundaries=taps, known_by="declared")
    assert pointers(Manifest(schema=SCHEMA, layout=stated), facts) == set()
    assert "/layout/boundaries" in pointers(Manifest(schema=SCHEMA, layout=replace(stated, known_by="")), facts)
    assert pointers(Manifest(schema=SCHEMA), facts) == {"/layout/boundaries"}


def test_taps_without_widths_are_held_against_fc(drafters):
    facts = drafters["eagle3"]
    for boundaries, width, wrong in (
        ((1, 2, 3), 64, False),
        ((1, 2), 64, True),
        ((1, 2), None, False),
        ((1,) * 5, None, True),
    ):
        manifest = Manifest(
            schema=SCHEMA, target=TargetRecord(hidden_size=width), layout=LayoutRecord(boundaries=boundaries)
        )
        assert pointers(manifest, facts) == ({"/layout/boundaries"} if wrong else set())


def test_more_norms_than_taps_are_a_contradiction(drafters):
    layout = LayoutRecord(boundaries=(1, 2), norm="per_chunk", known_by="declared", widths=(96, 96))
    assert pointers(Manifest(schema=SCHEMA, layout=layout), drafters["eagle3 norm per tap"]) == {"/layout/boundaries"}


def test_captured_layers_contradict_a_method_that_captures_none(drafters):
    manifest = Manifest(schema=SCHEMA, layout=LayoutRecord(boundaries=(3,)))
    for name in ("nextn", "standalone", "medusa"):
        assert pointers(manifest, drafters[name]) == {"/layout"}


def test_what_engines_take_from_the_config_alone_must_be_there(drafters):
    draft = {"quantization": "fp8", "rope_scaling": {"rope_type": "yarn"}}
    manifest = msgspec.convert({"schema": SCHEMA, "draft": draft}, Manifest)
    assert pointers(manifest, drafters["eagle3"]) == {"/draft/quantization", "/draft/rope_scaling"}


def test_a_quoted_key_that_the_config_has_not_is_a_contradiction(drafters):
    stated = {"key": "dflash_config.target_layer_ids", "values": [2, 14, 27]}
    document = {"schema": SCHEMA, "layout": {"boundaries": [3, 15, 28], "known_by": "declared", "stated": stated}}
    assert pointers(msgspec.convert(document, Manifest), drafters["eagle3"]) == {"/layout/stated/values"}
    stated["key"] = "--output-ids"
    assert pointers(msgspec.convert(document, Manifest), drafters["eagle3"]) == set()


@pytest.mark.parametrize(
    ("read", "claimed", "fine"),
    [
        ("eagle3 config alone", "P-EAGLE", True),
        ("eagle3", "P-EAGLE", False),
        ("eagle3 config alone", "DFLASH", False),
        ("dflash", "DFLASH2", False),
    ],
)
def test_only_a_config_without_weights_leaves_the_kind_open(read, claimed, fine, drafters):
    manifest = Manifest(schema=SCHEMA, method=claimed)
    assert pointers(manifest, drafters[read]) == (set() if fine else {"/method"})


def test_dtypes_are_compared_by_meaning(drafters):
    for dtype, wrong in (("bfloat16", False), ("torch.bfloat16", False), ("BF16", False), ("F16", True)):
        manifest = msgspec.convert({"schema": SCHEMA, "draft": {"weights_dtype": dtype}}, Manifest)
        assert bool(contradictions(manifest, drafters["eagle3"])) is wrong


def test_files_that_contradict_each_other_carry_no_manifest(reading, shapes):
    config, tensors = shapes["eagle3"]
    facts = reading({**config, "draft_vocab_size": 99}, tensors)
    (claim,) = contradictions(Manifest(schema=SCHEMA), facts)
    assert (claim.pointer, claim.expected) == ("/draft/vocab_size", "config.json draft_vocab_size = 99")
    assert "lm_head.weight [100, 64]" in claim.actual


def test_a_claim_names_both_sides_and_the_place(drafters):
    manifest = msgspec.convert({"schema": SCHEMA, "draft": {"vocab_size": 99}}, Manifest)
    (claim,) = contradictions(manifest, drafters["eagle3"])
    assert (claim.expected, claim.actual) == ("100", "99")
    assert claim.source == "tensors: lm_head.weight [100, 64]"
    assert "draft.vocab_size 99" in claim.message


def test_what_is_missing_is_listed_in_full():
    assert [claim.pointer for claim in missing(Manifest(schema=SCHEMA, method="EAGLE3"))] == [
        "/name",
        "/version",
        "/target/model",
        "/target/architecture",
        "/target/layers",
        "/target/hidden_size",
        "/layout",
        "/files",
    ]
    assert "/method" in [claim.pointer for claim in missing(Manifest(schema=SCHEMA))]
    assert "/layout" not in [claim.pointer for claim in missing(Manifest(schema=SCHEMA, method="NEXTN"))]


def test_a_config_that_does_not_speak_of_norms_leaves_them_open_where_there_are_no_tensors(drafters):
    layout = LayoutRecord(boundaries=(3, 15, 28), norm="concatenation", known_by="declared")
    manifest = Manifest(schema=SCHEMA, layout=layout)
    assert pointers(manifest, drafters["eagle3 config alone"]) == set()
    assert pointers(manifest, drafters["eagle3"]) == {"/layout/norm"}


def test_what_a_drafter_was_trained_with_may_be_missing_from_it(drafters):
    """Trained with an embedding of its own that nobody exported: a rule of the gate speaks of it, its bytes do not."""
    manifest = msgspec.convert({"schema": SCHEMA, "draft": {"embeddings": "own", "lm_head": "own"}}, Manifest)
    for name in ("eagle3", "dflash"):
        assert drafters[name].has_embedding is False
        assert pointers(manifest, drafters[name]) == set()


def test_files_are_sorted_and_listed_once():
    def of(*paths):
        files = tuple(FileRecord(path=path, size=1, sha256="0" * 64) for path in paths)
        return [claim for claim in missing(Manifest(schema=SCHEMA, files=files)) if claim.pointer == "/files"]

    assert not of("a", "b")
    assert of("b", "a")
    assert of("a", "a")
