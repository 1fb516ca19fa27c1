"""What changed between two versions, said for somebody who serves the drafter."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.manifest import (
    SCHEMA,
    Acceptance,
    DraftRecord,
    FileRecord,
    LayoutRecord,
    Manifest,
    StatedIds,
    TargetRecord,
)
from drafter_contracts.recording.difference import changes
from drafter_contracts.recording.field_words import CONSEQUENCES, NAMES
from drafter_contracts.recording.fingerprint import CONTRACT_FIELDS, fingerprint

replace = msgspec.structs.replace

BEFORE = Manifest(
    schema=SCHEMA,
    name="head",
    version="1",
    method="EAGLE3",
    target=TargetRecord(model="org/M", layers=61, hidden_size=8),
    layout=LayoutRecord(boundaries=(3, 31, 59), stated=StatedIds(key="k", values=(2, 30, 58))),
    draft=DraftRecord(norm_output=False, rope_theta=1e6, lm_head="own"),
    files=(
        FileRecord(path="config.json", size=2, sha256="a" * 64),
        FileRecord(path="model.safetensors", size=9, sha256="b" * 64),
    ),
)


def laid(**fields):
    return replace(BEFORE, layout=replace(BEFORE.layout, **fields))


def only(after, before=BEFORE):
    (change,) = changes(before, after)
    return change


def names(struct, head=""):
    for field in msgspec.structs.fields(type(struct)):
        value, name = getattr(struct, field.name), head + field.name
        if isinstance(value, msgspec.Struct):
            yield from names(value, f"{name}.")
        elif name != "files":
            yield name


def test_every_field_of_a_manifest_has_a_name_in_words():
    assert set(NAMES) == set(names(BEFORE))
    assert set(CONSEQUENCES) <= set(NAMES)


def test_the_same_is_no_difference():
    assert changes(BEFORE, BEFORE) == ()


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (
            (4, 31, 59),
            (
                "captures boundary 4 (output of layer 3) instead of boundary 3 (output "
                "of layer 2) as the first input of fc"
            ),
        ),
        (
            (3, 0, 60),
            (
                "captures boundary 0 (embedding output) instead of boundary 31 (output "
                "of layer 30) as the second input of "
                "fc, boundary 60 (output of layer 59) instead of boundary 59 (output "
                "of layer 58) as the third input of fc"
            ),
        ),
        (
            (59, 31, 3),
            (
                "concatenates the same states in another order: boundaries 59, 31, 3 "
                "(outputs of layers 58, 30, 2) instead "
                "of boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"
            ),
        ),
        (
            (3, 31),
            (
                "captures 2 states, boundaries 3, 31 (outputs of layers 2, 30), "
                "instead of 3, boundaries 3, 31, 59 (outputs "
                "of layers 2, 30, 58)"
            ),
        ),
    ],
)
def test_captured_layers_are_said_in_both_numberings(after, says):
    change = only(laid(boundaries=after))
    assert change.words == says
    assert (change.field, change.before, change.after) == ("layout.boundaries", "[3, 31, 59]", str(list(after)))
    assert change.contract


def test_a_layout_that_came_or_went():
    gone = {change.field: change for change in changes(BEFORE, replace(BEFORE, layout=None))}
    assert gone["layout.boundaries"].words.startswith("captures nothing instead of boundaries 3, 31, 59")
    assert gone["layout.boundaries"].after == ""
    assert not gone["layout.stated.values"].contract


@pytest.mark.parametrize(
    ("after", "field", "before", "words", "contract"),
    [
        (replace(BEFORE, name="tail"), "name", "head", "the drafter's name: tail instead of head", False),
        (
            replace(BEFORE, draft=replace(BEFORE.draft, norm_output=True)),
            "draft.norm_output",
            "false",
            (
                "whether it recycles the normed state: yes instead of no; an engine "
                "that recycles the other state drafts "
                "wrongly from the second step on"
            ),
            True,
        ),
        (
            replace(BEFORE, draft=replace(BEFORE.draft, quantization="fp8")),
            "draft.quantization",
            "",
            "its quantisation: fp8, which was not recorded before; the release must know this method",
            True,
        ),
        (
            replace(BEFORE, draft=replace(BEFORE.draft, lm_head="")),
            "draft.lm_head",
            "own",
            "the owner of its head: no longer recorded, own before",
            True,
        ),
        (
            replace(BEFORE, acceptance=(Acceptance(length=2.5),)),
            "acceptance",
            "",
            'the measured acceptances: [{"length": 2.5}], which was not recorded before',
            False,
        ),
    ],
)
def test_a_field_is_said_with_what_follows(after, field, before, words, contract):
    change = only(after)
    assert (change.field, change.before, change.words, change.contract) == (field, before, words, contract)


def test_another_spelling_of_the_same_is_no_change_of_the_contract():
    change = only(laid(widths=(8, 8, 8)))
    assert (change.field, change.contract) == ("layout.widths", False)
    assert "same meaning" in change.words


def test_files_are_compared_by_path():
    after = replace(
        BEFORE,
        files=(
            FileRecord(path="extra.txt", size=1, sha256="c" * 64),
            FileRecord(path="model.safetensors", size=9, sha256="d" * 64),
        ),
    )
    found = {change.field: change for change in changes(BEFORE, after)}
    assert {field: change.words for field, change in found.items()} == {
        "files.config.json": "config.json is gone",
        "files.extra.txt": "extra.txt is new",
        "files.model.safetensors": "model.safetensors has other bytes",
    }
    assert not any(change.contract for change in found.values())
    assert found["files.model.safetensors"].after == f"sha256:{'d' * 64}, 9 bytes"


def test_a_file_that_moved_or_whose_header_is_recorded_otherwise_has_the_same_bytes():
    (config, model) = BEFORE.files
    moved = only(replace(BEFORE, files=(config, replace(model, elsewhere="hf://o/r@c/m"))))
    assert moved.words == "model.safetensors lies elsewhere, with the same bytes"
    header = only(replace(BEFORE, files=(config, replace(model, header_sha256="e" * 64))))
    assert header.words.startswith("model.safetensors has the same bytes")


def test_the_contract_comes_first():
    after = replace(laid(boundaries=(4, 31, 59)), name="tail", version="2")
    assert [change.field for change in changes(BEFORE, after)] == ["layout.boundaries", "name", "version"]


boundaries = st.lists(st.integers(0, 61), min_size=1, max_size=12).map(tuple)


@settings(max_examples=80, deadline=None)
@given(one=boundaries, other=boundaries, layers=st.sampled_from([61, 62]), theta=st.sampled_from([None, 1e6, 1e4]))
def test_a_change_of_the_contract_is_told_exactly_where_the_fingerprint_changes(one, other, layers, theta):
    before = laid(boundaries=one)
    after = replace(
        laid(boundaries=other),
        name="other",
        target=replace(BEFORE.target, layers=layers),
        draft=replace(BEFORE.draft, rope_theta=theta),
    )
    found = changes(before, after)
    assert any(change.contract for change in found) == (fingerprint(before) != fingerprint(after))
    for change in found:
        assert change.before != change.after
        assert change.words
        assert not change.contract or change.field in CONTRACT_FIELDS
    back = changes(after, before)
    assert [(change.field, change.after, change.before) for change in back] == [
        (change.field, change.before, change.after) for change in found
    ]
