"""Layer numbers that somebody wrote, held against the layers that were identified."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.evidence.documents import (
    IDENTIFICATION,
    Identification,
    ReferenceRecord,
    SampleRecord,
    StateMatch,
)
from drafter_contracts.evidence.labels import BOUNDARIES, OUTPUT_IDS, Labels, explanation, hold
from drafter_contracts.layout import Tap

N = 61
LISTS = st.lists(st.integers(3, N - 3), min_size=2, max_size=5, unique=True).map(sorted)


def found(boundaries, *, unknown=(), last=None, **more):
    states = tuple(
        StateMatch(number=i, found="unknown" if i in unknown else "identified", boundary=b, **more)
        for i, b in enumerate(boundaries)
    )
    return Identification(
        schema=IDENTIFICATION,
        tool="t",
        created="now",
        samples=(SampleRecord(name="s", sha256="1" * 64, format="modelopt", tokens=9, compared=9, dtype="bfloat16"),),
        reference=ReferenceRecord(kind="target", layers=N, hidden_size=8),
        states=states,
        last=last,
        verdict="unknown",
    )


def labels(ids, numbering="", source="data_config.json: layer_ids"):
    return Labels(ids=tuple(ids), source=source, numbering=numbering)


@settings(deadline=None, max_examples=40)
@given(LISTS)
def test_numbers_in_their_own_convention_are_right_and_in_the_other_one_are_not(boundaries):
    document = found(boundaries)
    ids = [b - 1 for b in boundaries]
    for right, wrong in ((labels(ids, OUTPUT_IDS), BOUNDARIES), (labels(boundaries, BOUNDARIES), OUTPUT_IDS)):
        held = hold(right, document)
        assert not held.contradictions
        assert held.agreed.endswith(f"right as {right.numbering}")
        other = hold(msgspec.structs.replace(right, numbering=wrong), document)
        assert len(other.contradictions) == len(boundaries) + 1
        assert right.numbering in other.contradictions[-1]


@settings(deadline=None, max_examples=40)
@given(LISTS, st.sampled_from([-1, 0, 1, 2]))
def test_whoever_is_one_layer_off_is_told_so(boundaries, shift):
    ids = tuple(b - shift for b in boundaries)
    words = explanation(ids, tuple(map(Tap, boundaries)))
    assert {1: "output ids", 0: "one layer early", -1: "one layer early", 2: "one layer late"}[shift] in words
    held = hold(labels(ids), found(boundaries))
    assert bool(held.contradictions) is (shift in (-1, 2))
    assert held.agreed.endswith({0: "boundaries", 1: "output ids"}.get(shift, "")) or held.contradictions


@settings(deadline=None, max_examples=40)
@given(LISTS)
def test_the_same_layers_in_another_order_are_told_so(boundaries):
    ids = [b - 1 for b in reversed(boundaries)]
    held = hold(labels(ids, OUTPUT_IDS), found(boundaries))
    assert "in another order" in held.contradictions[-1]


def test_a_contradiction_gives_both_numberings_and_both_sides():
    held = hold(labels((0, 3, 31), BOUNDARIES, "--boundaries 0,3,31"), found((3, 31, 59)))
    first, second, third = held.contradictions
    for text in ("recorded #0", "--boundaries 0,3,31 says 0", "boundary 0 (embedding output)"):
        assert text in first
    assert first.endswith("it is boundary 3 (output of layer 2)")
    assert "it is boundary 31 (output of layer 30)" in second
    assert "it is boundary 59 (output of layer 58)" in third


def test_labels_whose_convention_nobody_knows_are_right_in_one_or_wrong():
    assert hold(labels((2, 30, 58)), found((3, 31, 59))).agreed.endswith("2, 30, 58, right as output ids")
    assert hold(labels((3, 31, 59)), found((3, 31, 59))).agreed.endswith("right as boundaries")
    (mixed,) = hold(labels((2, 31, 59)), found((3, 31, 59))).contradictions
    assert "in neither convention" in mixed
    assert "boundaries 3, 31, 59" in mixed


@pytest.mark.parametrize(
    ("ids", "numbering"), [((3, 31, N), BOUNDARIES), ((2, 30, N - 1), OUTPUT_IDS), ((3, 31, N), "")]
)
def test_the_final_norm_is_not_the_last_layers_output_whatever_the_numbers_are(ids, numbering):
    document = found((3, 31, N))
    normed = msgspec.structs.replace(document.states[2], state="final_norm")
    held = hold(labels(ids, numbering), msgspec.structs.replace(document, states=(*document.states[:2], normed)))
    assert held.agreed == ""
    first, *_, why = held.contradictions
    assert "recorded #2" in first
    assert first.endswith(f"it is final norm (after boundary {N})")
    assert "after the final norm, as hidden_states[-1] is" in why
    assert hold(labels(ids, numbering), document).agreed  # the stream itself is what the numbers name


def test_unknown_states_contradict_nothing_and_confirm_nothing():
    held = hold(labels((2, 9, 58), OUTPUT_IDS), found((3, 31, 59), unknown=(1,)))
    assert (held.contradictions, held.agreed) == ((), "")
    held = hold(labels((2, 9, 57), OUTPUT_IDS), found((3, 31, 59), unknown=(1,)))
    assert "recorded #2" in held.contradictions[0]


def test_a_label_of_the_last_state_is_left_out_and_any_other_number_of_labels_is_wrong():
    last = StateMatch(number=3, found="identified", boundary=N)
    assert not hold(labels((2, 30, 58, 60), OUTPUT_IDS), found((3, 31, 59), last=last)).contradictions
    for ids in ((2, 30, 58, 60), (2, 30)):
        (said,) = hold(labels(ids, OUTPUT_IDS), found((3, 31, 59))).contradictions
        assert f"names {len(ids)} layers" in said


@pytest.mark.parametrize("taps", [(), (None, None), (Tap(3),)])
def test_what_nothing_simple_explains_is_not_explained(taps):
    assert explanation((7, 9), taps) == ""
    assert explanation((7, 9), (Tap(3), Tap(50))) == ""
