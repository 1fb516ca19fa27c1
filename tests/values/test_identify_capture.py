"""`drafters identify` against captures that are damaged, of another text, or that end before the sample does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from making import formats

from drafter_cli import main
from drafter_contracts.errors import CaptureError
from drafter_contracts.layout import Tap
from drafter_contracts.values import records
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.matching import match_states
from drafter_contracts.values.targets import open_target

LAYERS = 6
TAPS = (2, 3, 5)
NORMED = Tap(LAYERS, "final_norm")


def tokens(count, seed=1):
    return torch.randint(0, 256, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def ran(random_target):
    """`ran(tokens)`: the target's states."""
    return open_target(random_target, dtype="float32").run


@pytest.fixture(scope="module")
def captured(ran):
    return ran(tokens(40))


@pytest.fixture
def identify(tmp_path, capsys):
    """`identify(capture, sample)`: (exit code, document or error)."""

    def run(capture, sample, *more):
        reference = str(tmp_path / "reference.safetensors")
        write_capture(reference, capture)
        code = main.main(["identify", sample, "--reference", reference, "--json", *more])
        return code, json.loads(capsys.readouterr().out)

    return run


def dump(folder, capture, taps=TAPS, form=records.PLAIN, last=None, **options):
    states = [capture.states[tap if isinstance(tap, Tap) else Tap(tap)] for tap in taps]
    return formats.write(form, str(folder), capture.tokens, states, last, **options)


@pytest.mark.parametrize("common", [1, 15])
def test_a_capture_of_another_text_that_begins_alike_is_no_reference(ran, captured, identify, tmp_path, common):
    other = captured.tokens.clone()
    other[common:] = (other[common:] + 1) % 256
    code, found = identify(captured, dump(tmp_path, ran(other)))
    assert (code, found["error"]["code"]) == (7, "CAPTURE_INVALID")
    assert "no capture is of this sample's tokens" in found["error"]["message"]


def test_where_texts_part_later_the_rows_before_are_compared_and_that_is_said(ran, captured, identify, tmp_path):
    other = captured.tokens.clone()
    other[16:] = (other[16:] + 1) % 256
    code, found = identify(captured, dump(tmp_path, ran(other)))
    assert (code, found["boundaries"]) == (0, [*TAPS])
    assert any("the first 16 of 40 tokens were compared" in note for note in found["notes"])
    _, whole = identify(captured, dump(tmp_path, captured))
    assert not any("were compared" in note for note in whole.get("notes", []))
    _, asked = identify(captured, dump(tmp_path, ran(other)), "--limit", "16")
    assert not any("were compared" in note for note in asked.get("notes", []))


def test_a_short_text_is_compared_with_a_capture_that_goes_on(ran, captured, identify, tmp_path):
    code, found = identify(captured, dump(tmp_path, ran(captured.tokens[:3])))
    assert (code, found["boundaries"]) == (0, [*TAPS])


@pytest.mark.parametrize("value", [float("nan"), 0.0])
def test_a_reference_with_rows_that_are_no_states_is_refused(captured, identify, tmp_path, value):
    states = {tap: state.clone() for tap, state in captured.states.items()}
    states[Tap(3)][11:20] = value
    code, found = identify(replace(captured, states=states), dump(tmp_path, captured))
    assert (code, found["error"]["code"]) == (7, "CAPTURE_INVALID")
    assert "boundary 3 (output of layer 2)" in found["error"]["message"]
    assert found["error"]["actual"] == "9 of 40 rows are, first row 11"


def test_an_embedding_may_be_zero(captured):
    states = {tap: state.clone() for tap, state in captured.states.items()}
    states[Tap(0)][5] = 0.0
    reference = replace(captured, states=states)
    assert match_states([captured.states[Tap(2)]], captured.tokens, reference)[0].found == "identified"
    states[Tap(0)][5] = float("inf")
    with pytest.raises(CaptureError, match="embedding"):
        match_states([captured.states[Tap(2)]], captured.tokens, reference)


def test_the_last_state_may_feed_fc_too(captured, identify, tmp_path):
    raw = captured.states[Tap(LAYERS)]
    code, found = identify(captured, dump(tmp_path, captured, (2, LAYERS), records.SPECULATORS_V1, raw))
    assert (code, found["boundaries"], found["last"]["boundary"]) == (0, [2, LAYERS], LAYERS)


def test_the_last_state_that_tensorrt_llm_keeps_twice_is_no_tap_unless_it_is_said(captured, identify, tmp_path):
    normed = captured.states[NORMED]
    path = dump(tmp_path, captured, (2, 3, NORMED), records.TENSORRT_LLM, normed)
    code, found = identify(captured, path)
    assert (code, found["boundaries"], found["last"]["state"]) == (0, [2, 3], "final_norm")
    assert any("--last-is-tap" in note for note in found["notes"])
    code, found = identify(captured, path, "--last-is-tap")
    assert (code, found["boundaries"], found["states"][2]["state"]) == (0, [2, 3, LAYERS], "final_norm")


def test_two_equal_states_that_feed_fc_are_refused(captured, identify, tmp_path):
    code, found = identify(captured, dump(tmp_path, captured, (2, 2, 3)))
    assert (code, found["error"]["code"]) == (7, "SAMPLE_DEGENERATE")


def test_the_final_norm_is_not_the_last_layers_output_that_was_stated(captured, identify, tmp_path):
    path = dump(tmp_path, captured, (2, 3, NORMED))
    code, found = identify(captured, path, "--boundaries", f"2,3,{LAYERS}")
    assert code == 7
    assert "it is final norm" in found["contradictions"][0]
    path = dump(tmp_path, captured, (2, 3, LAYERS))
    assert identify(captured, path, "--boundaries", f"2,3,{LAYERS}")[0] == 0


def test_a_sample_is_not_overwritten_by_what_is_told_of_it(captured, identify, tmp_path):
    path = dump(tmp_path, captured)
    with open(path, "rb") as file:
        before = file.read()
    code, found = identify(captured, path, "-o", path)
    assert (code, found["error"]["code"]) == (2, "USAGE")
    with open(path, "rb") as file:
        assert file.read() == before
