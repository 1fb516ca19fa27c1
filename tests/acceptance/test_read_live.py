"""Real SGLang 0.5.23 servers under traffic, replayed: everything that they told is read, and judged as it was then.

The payloads are of `tests/conformance/running/test_acceptance_running.py`, one server per case, trimmed.
"""

from __future__ import annotations

import json
import os
import statistics

import msgspec
import pytest

from drafter_contracts.acceptance.causes_of_log import arguments_in
from drafter_contracts.acceptance.exposition import Snapshot, difference, read_metrics
from drafter_contracts.acceptance.judge import judge
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.server_info import read_state
from drafter_contracts.acceptance.sglang_log import read_line
from drafter_contracts.manifest_records import Acceptance

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance")
with open(os.path.join(DATA, "sglang-0.5.23-live.json"), encoding="utf-8") as _file:
    LIVE = json.load(_file)
CASES = LIVE["cases"]
with open(os.path.join(DATA, "sglang-0.5.23-live.txt"), encoding="utf-8") as _file:
    LOG = _file.read().splitlines()


def readings(case):
    """Every line of a case's log, as its figures were kept."""
    pairs = zip(case["lengths"].split(), case["seconds"].split(), strict=True)
    return [Reading(length=float(length), time=float(second)) for length, second in pairs]


def test_every_report_of_the_log_is_read_and_nothing_else():
    found = [(line, read_line(line)) for line in LOG]
    assert [reading is not None for _, reading in found] == ["accept len" in line for line in LOG]
    read = [reading for _, reading in found if reading is not None]
    assert len(read) > 20
    assert [f"{one.length:.2f}" for one in read] == CASES["right"]["lengths"].split()[: len(read)]
    assert {one.running for one in read} == {7, 8}
    assert read[-1].time > read[0].time


def test_the_arguments_in_force_are_read_of_the_log():
    (told,) = filter(None, map(arguments_in, LOG))
    state = read_state({"version": "", **told}, where="the log")
    assert (state.conditions.method, state.conditions.steps, state.conditions.draft_tokens) == ("EAGLE3", 3, 4)
    assert state.speculating


@pytest.mark.parametrize("name", CASES)
def test_what_a_server_says_of_itself(name):
    state = read_state(CASES[name]["server_info"], where="http://engine/server_info")
    told = state.conditions
    assert (told.engine, told.release, told.method) == ("sglang", "0.5.23", "EAGLE3")
    assert (told.steps, told.topk, told.draft_tokens, told.target_dtype) == (3, 1, 4, "float32")
    assert state.arguments["enable_metrics"] is True
    (mean,) = state.lengths
    lengths = [one.length for one in readings(CASES[name])]
    assert mean == pytest.approx(statistics.fmean(lengths), abs=0.1)
    assert state.simulated == "", "only the environment of its process tells"


@pytest.mark.parametrize("name", CASES)
def test_what_a_server_counts(name):
    after = read_metrics("\n".join(CASES[name]["metrics"]) + "\n", where="http://engine/metrics")
    assert after.tells_acceptance
    (reading,) = difference(Snapshot(), after)
    assert reading.verify_steps > 200
    lengths = [one.length for one in readings(CASES[name])]
    assert reading.length == pytest.approx(statistics.fmean(lengths), abs=0.1)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["word"]])
def test_the_verdict_of_then(name):
    case = CASES[name]
    conditions = read_state(case["server_info"], where="").conditions
    promise = Acceptance(length=case["promised"], steps=3, topk=1, draft_tokens=4, measured="engine")
    found = judge(readings(case), [promise], conditions)
    assert (found.word, found.promised) == (case["word"], promise.length)
    estimate = msgspec.convert(LIVE["estimate"], Acceptance)
    assert judge(readings(case), [estimate], conditions).word == case["estimate"]
