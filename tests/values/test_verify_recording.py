"""`drafters verify` of recordings: captures, and samples of producers."""

from __future__ import annotations

import json

import msgspec
import pytest
import torch
from making import formats

from drafter_cli import main
from drafter_contracts.layout import Tap, layout_from_boundaries
from drafter_contracts.manifest import SCHEMA
from drafter_contracts.values import records
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.fingerprints import make_fingerprint, probe
from drafter_contracts.values.targets import run_target

TOKENS = [*probe(256), 7, 8, 9]
TAPS = (1, 3, 5)


@pytest.fixture(scope="module")
def capture(random_target):
    return run_target(random_target, torch.tensor(TOKENS))


@pytest.fixture(scope="module")
def reference(random_target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drafter")
    made = make_fingerprint(run_target(random_target, torch.tensor(TOKENS[:16])), layout_from_boundaries(TAPS))
    document = {"schema": SCHEMA, "state_fingerprint": msgspec.to_builtins(made)}
    (folder / "drafters-manifest.json").write_text(json.dumps(document))
    return str(folder)


@pytest.fixture
def verify(reference, capsys):
    def run(path):
        code = main.main(["verify", reference, str(path), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def sample(folder, capture, taps, kind=records.STACKED, tokens=TOKENS, **options):
    states = [capture.states[tap][: len(tokens)] for tap in taps]
    return formats.write(kind, str(folder), tokens, states, dtype=torch.bfloat16, **options)


def test_a_capture_that_begins_with_the_probe_is_the_same(verify, capture, tmp_path):
    write_capture(str(tmp_path / "c.safetensors"), capture)
    code, found = verify(tmp_path / "c.safetensors")
    assert (code, found["found"]) == (0, "same")
    assert found["source"] == str(tmp_path / "c.safetensors")


def test_a_sample_of_an_extraction_is_the_same_with_its_last_state_or_without(verify, capture, tmp_path):
    taps = [Tap(boundary) for boundary in TAPS]
    assert verify(sample(tmp_path / "a", capture, taps))[0] == 0
    assert verify(sample(tmp_path / "b", capture, [*taps, Tap(6)]))[0] == 0
    code, found = verify(sample(tmp_path / "c", capture, taps[:2]))
    assert (code, found["reason"]) == (3, "there are 2 states per token where the drafter reads 3")


def test_a_sample_one_layer_off_is_told_with_what_it_holds(verify, capture, tmp_path):
    code, found = verify(sample(tmp_path, capture, [Tap(boundary + 1) for boundary in TAPS]))
    assert code == 3
    assert [one["resembles"]["boundary"] for one in found["taps"]] == [2, 4, 6]
    assert found["reason"].startswith("boundaries 2, 4, 6 (outputs of layers 1, 3, 5), not")


def test_the_sample_of_the_probe_is_found_among_others(verify, capture, tmp_path):
    taps = [Tap(boundary) for boundary in TAPS]
    sample(tmp_path, capture, taps, tokens=TOKENS[::-1], name="data_0")
    sample(tmp_path, capture, taps, name="data_1")
    assert verify(tmp_path)[0] == 0


def test_recordings_of_other_tokens_or_without_the_taps_are_refused(verify, capture, tmp_path):
    taps = [Tap(boundary) for boundary in TAPS]
    code, found = verify(sample(tmp_path / "a", capture, taps, tokens=TOKENS[1:]))
    assert (code, found["error"]["message"]) == (7, "the states are of other tokens than the fingerprint's")
    write_capture(
        str(tmp_path / "c.safetensors"),
        records.Capture(record=capture.record, tokens=capture.tokens, states={Tap(1): capture.states[Tap(1)]}),
    )
    code, found = verify(tmp_path / "c.safetensors")
    assert (code, found["error"]["expected"]) == (7, "boundaries 3, 5 (outputs of layers 2, 4)")
    code, found = verify(tmp_path / "nothing")
    assert (code, found["error"]["code"]) == (2, "USAGE")


@pytest.mark.parametrize("fourth", [Tap(4), Tap(0)])
def test_one_state_more_is_the_last_one_only_if_it_is(verify, capture, tmp_path, fourth):
    code, found = verify(sample(tmp_path, capture, [*map(Tap, TAPS), fourth]))
    assert (code, found["found"]) == (3, "not the same")
    assert found["reason"] == "there are 4 states per token where the drafter reads 3"
    assert found["chunks"][3]["boundary"] == fourth.boundary


def test_a_recording_of_the_end_of_the_probe_alone_is_refused(verify, capture, tmp_path):
    made = sample(tmp_path, capture, [Tap(boundary) for boundary in TAPS], tokens=TOKENS[8:16])
    code, found = verify(made)
    assert (code, found["error"]["expected"], found["error"]["actual"]) == (7, "16 rows", "8")


def test_other_tokens_are_said_before_anything_else(verify, capture, tmp_path):
    tokens = [*TOKENS[1:], 5]
    path = sample(tmp_path, capture, [Tap(1), Tap(3)], tokens=tokens)
    code, found = verify(path)
    assert (code, found["error"]["code"]) == (7, "SAMPLE_INVALID")
    assert "of other tokens" in found["error"]["message"]
    assert found["error"]["where"] == path
