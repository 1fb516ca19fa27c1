"""A real trained model: 30 layers of SmolLM2-135M, whose adjacent states are as near to each other as real ones are."""

from __future__ import annotations

import json
import os

import pytest
import torch
from making import formats
from making.smollm2 import smollm2

from drafter_cli import main
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK
from drafter_contracts.evidence.documents import decode
from drafter_contracts.layout import Tap, layout_from_boundaries
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.fingerprints import DIFFERENT, SAME, compare, make_fingerprint, probe
from drafter_contracts.values.records import SPECFORGE_EAGLE3
from drafter_contracts.values.targets import open_target

pytestmark = pytest.mark.conformance

LAYERS, TOKENS = 30, 256
TAPS = (2, 15, 27)
DTYPES = ("float32", "bfloat16", "float16")
TEXT = "The residual stream of a transformer is read by every layer and written by every layer. " * 40


@pytest.fixture(scope="module")
def model():
    return smollm2()


@pytest.fixture(scope="module")
def captures(model):
    """Per dtype: the model's states on 256 tokens of text, and on the fingerprint's probe."""
    from tokenizers import Tokenizer

    text = torch.tensor(Tokenizer.from_file(os.path.join(model, "tokenizer.json")).encode(TEXT).ids[:TOKENS])
    found = {}
    for dtype in DTYPES:
        target = open_target(model, dtype=dtype)
        found[dtype] = (target.run(text), target.run(torch.tensor(probe(49152))))
    return found


@pytest.fixture(scope="module")
def reference(captures, tmp_path_factory):
    """Every boundary in float32, as `drafters capture` writes them."""
    path = str(tmp_path_factory.mktemp("reference") / "capture.safetensors")
    write_capture(path, captures["float32"][0])
    return path


def dumped(folder, capture, boundaries, dtype):
    states = [capture.states[Tap(boundary)] for boundary in boundaries]
    last = capture.states[Tap(LAYERS, "final_norm")]
    return formats.write(SPECFORGE_EAGLE3, str(folder), capture.tokens, states, last, dtype=getattr(torch, dtype))


def test_the_weights_were_unpacked_rightly(captures):
    """It goes on with a sentence that it has read before: queries and keys must turn as they were trained to."""
    read = captures["float32"][0]
    again = read.choices[TOKENS // 2 - 1 : -1] == read.tokens[TOKENS // 2 :]
    assert again.float().mean() > 0.95


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_layers_of_a_dump_are_named(captures, reference, tmp_path, capsys, dtype):
    path = dumped(tmp_path, captures[dtype][0], TAPS, dtype)
    code = main.main(["identify", path, "--reference", reference, "--boundaries", "2,15,27", "--json"])
    found = decode(capsys.readouterr().out.encode(), where="stdout")
    assert (code, found.verdict, found.boundaries) == (EXIT_OK, "identified", TAPS)
    assert (found.samples[0].compared, found.samples[0].dtype) == (TOKENS, dtype)
    assert (found.last.boundary, found.last.state) == (LAYERS, "final_norm")
    margin = 10 if dtype == "bfloat16" else 100
    assert all(match.next_error > margin * match.error for match in found.states)


def test_every_boundary_is_told_from_its_neighbours_in_bfloat16(captures, reference, tmp_path, capsys):
    every = tuple(range(LAYERS + 1))
    path = dumped(tmp_path, captures["bfloat16"][0], every, "bfloat16")
    code = main.main(["identify", path, "--reference", reference, "--json"])
    found = decode(capsys.readouterr().out.encode(), where="stdout")
    assert (code, found.boundaries) == (EXIT_OK, every)


def test_one_layer_beside_is_a_contradiction(captures, reference, tmp_path, capsys):
    path = dumped(tmp_path, captures["float16"][0], (3, 16, 28), "float16")
    code = main.main(["identify", path, "--reference", reference, "--boundaries", "2,15,27", "--json"])
    assert code == EXIT_INTEGRITY
    assert json.loads(capsys.readouterr().out)["boundaries"] == [3, 16, 28]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fingerprints_tell_adjacent_layers_apart(captures, dtype):
    recorded, seen = captures["float32"][1], captures[dtype][1]
    for start in range(0, LAYERS - 2, 3):
        boundaries = (start, start + 1, start + 2)
        fingerprint = make_fingerprint(recorded, layout_from_boundaries(boundaries))
        same = compare(fingerprint, [seen.states[Tap(boundary)] for boundary in boundaries], seen.tokens)
        assert [tap.found for tap in same] == [SAME] * 3, boundaries
        beside = compare(fingerprint, [seen.states[Tap(boundary + 1)] for boundary in boundaries], seen.tokens)
        assert [tap.found for tap in beside] == [DIFFERENT] * 3, boundaries
        assert [tap.resembles.boundary for tap in beside] == [boundary + 1 for boundary in boundaries]
