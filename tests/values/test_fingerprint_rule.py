"""The rule of fingerprints: the page's example, recomputed without the code that makes fingerprints."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.errors import CaptureError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap, layout_from_boundaries
from drafter_contracts.values.fingerprints import make_fingerprint, probe
from drafter_contracts.values.fingerprints.projection import decode, encode, project, signs
from drafter_contracts.values.records import Capture

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "fingerprint.md")


def plain_probe(vocabulary):
    return [vocabulary // 4 + (2 * i + 1) * (vocabulary // 2) // 32 for i in range(16)]


def plain_signs(width):
    stream = hashlib.shake_128(b"drafters.fingerprint.v1/64x%d" % width).digest(8 * width)
    bits = [stream[n >> 3] >> (n & 7) & 1 for n in range(64 * width)]
    return [[1 if bits[row * width + column] else -1 for column in range(width)] for row in range(64)]


def plain_projection(states):
    matrix = plain_signs(len(states[0]))
    numbers = [sum(s * x for s, x in zip(row, state, strict=True)) / 8 for state in states for row in matrix]
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def example():
    with open(PAGE, encoding="utf-8") as file:
        return json.loads(re.search(r"^```json\n(\{\n *\"width\".*?)^```", file.read(), re.DOTALL | re.MULTILINE)[1])


def test_the_pages_example_follows_from_the_rule_in_plain_python():
    shown = example()
    matrix = plain_signs(shown["width"])
    assert ["".join("+" if sign > 0 else "-" for sign in row) for row in matrix[:4]] == shown["signs, rows 0 to 3"]
    assert shown["probe"] == plain_probe(shown["vocabulary"])
    assert shown["projection"] == plain_projection(shown["states"])
    assert shown["norms"] == [float(f"{math.sqrt(sum(x * x for x in row)):.9g}") for row in shown["states"]]
    assert shown["first"] == [row[:5] for row in shown["states"]]


def test_the_code_makes_the_pages_example():
    shown = example()
    states = torch.tensor(shown["states"], dtype=torch.float32)
    assert list(probe(shown["vocabulary"])) == shown["probe"]
    record = ReferenceRecord(kind="target", layers=1, hidden_size=shown["width"], dtype="float32")
    every = {Tap(0): states, Tap(1): states * 2, Tap(1, FINAL_NORM): -states}
    tokens = torch.tensor(shown["probe"][: len(states)])
    made = make_fingerprint(Capture(record=record, tokens=tokens, states=every), layout_from_boundaries([0]))
    assert made.taps[0].projection == shown["projection"]
    assert list(made.taps[0].norms) == shown["norms"]
    assert [list(row) for row in made.taps[0].first] == shown["first"]
    last = shown["states"][-1]
    assert made.landmarks == plain_projection([last, [2 * x for x in last], [-x for x in last]])


@given(st.integers(1, 300_000))
def test_a_probe_is_sixteen_ordinary_tokens(vocabulary):
    tokens = probe(vocabulary)
    assert list(tokens) == plain_probe(vocabulary)
    assert all(0 <= token < vocabulary for token in tokens)
    if vocabulary >= 64:
        assert len(set(tokens)) == 16
        assert all(vocabulary // 4 <= token < 3 * vocabulary / 4 for token in tokens)


def test_no_vocabulary_has_no_probe():
    with pytest.raises(CaptureError, match="vocabulary"):
        probe(0)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=64, max_size=64), min_size=1, max_size=4))
def test_numbers_survive_being_written(rows):
    numbers = torch.tensor(rows, dtype=torch.float64)
    assert torch.equal(decode(encode(numbers)), numbers)


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 300))
def test_signs_are_those_of_the_stream_at_any_width(width):
    assert signs(width).tolist() == plain_signs(width)


def test_a_projection_keeps_norms_within_what_the_page_derives():
    states = torch.randn(2000, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ratio = project(states).norm(dim=1).square() / states.norm(dim=1).square()
    assert abs(float(ratio.mean()) - 1) < 0.02
    assert float(ratio.std()) < math.sqrt(2 / 64) * 1.1
    assert float(ratio.std()) > math.sqrt(2 / 64) * 0.8
