"""Expositions: a real SGLang's, vLLM's as its own client library writes them, restarts, and text that is none."""

from __future__ import annotations

import itertools
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest

from drafter_contracts import limits
from drafter_contracts.acceptance.exposition import Snapshot, difference, read_metrics, restarted
from drafter_contracts.errors import EngineReportError

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance")
with open(os.path.join(DATA, "sglang-0.5.23.json"), encoding="utf-8") as _file:
    REAL = json.load(_file)["right"]
WHERE = "http://engine/metrics"


def read(text):
    return read_metrics(text, where=WHERE)


def sglang(length=None, *, speed=0.0, rank="", **counters):
    """An exposition with a gauge and counters: verified, generated, requests."""
    labels = 'model_name="m",tp_rank="0"' + (f',dp_rank="{rank}"' if rank else "")
    lines = [] if length is None else [f"sglang:spec_accept_length{{{labels}}} {length}"]
    lines.append(f"sglang:gen_throughput{{{labels}}} {speed}")
    names = {"verified": "spec_verify_calls", "generated": "generation_tokens", "requests": "num_requests"}
    lines += [f'sglang:{names[name]}_total{{model_name="m"}} {value}' for name, value in counters.items()]
    return "\n".join(lines) + "\n"


class Vllm:
    """Counters as vllm/v1/spec_decode/metrics.py makes them, from 0.9.2 to 0.32.0."""

    def __init__(self, tokens=3, engines=1):
        self.registry, self.engines, self.tokens = CollectorRegistry(), engines, tokens
        make = {"registry": self.registry, "labelnames": ["model_name", "engine"]}
        self.drafts = Counter("vllm:spec_decode_num_drafts", "x", **make)
        self.drafted = Counter("vllm:spec_decode_num_draft_tokens", "x", **make)
        self.accepted = Counter("vllm:spec_decode_num_accepted_tokens", "x", **make)
        make["labelnames"] = [*make["labelnames"], "position"]
        self.places = Counter("vllm:spec_decode_num_accepted_tokens_per_pos", "x", **make)
        for engine in range(engines):
            self.step(engine, 0, [0] * tokens)

    def step(self, engine, drafts, counts):
        labels = ("m", str(engine))
        self.drafts.labels(*labels).inc(drafts)
        self.drafted.labels(*labels).inc(drafts * self.tokens)
        self.accepted.labels(*labels).inc(sum(counts))
        for place, count in enumerate(counts):
            self.places.labels(*labels, str(place)).inc(count)

    def now(self):
        return read(generate_latest(self.registry).decode())


def test_a_real_engine_s_requests_are_counted():
    every = [read(text) for text in REAL["metrics"]]
    assert all(snapshot.engine == "sglang" for snapshot in every)
    (one,), (rest,), nothing = (difference(*pair) for pair in itertools.pairwise(every))
    assert (one.verify_steps, rest.verify_steps, nothing) == (37, 567, ())
    (whole,) = difference(every[0], every[2])
    assert (whole.verify_steps, whole.rank, whole.source, whole.positions) == (604, "", "metrics", ())
    scheduler = REAL["after"]["internal_states"][0]["avg_spec_accept_length"]
    assert whole.length == pytest.approx(scheduler, rel=0.01)
    # Its first request's own answer: 67 drafted tokens accepted in 37 steps.
    assert one.length == pytest.approx(1 + 67 / 37, rel=0.01)
    assert not any(restarted(*pair) for pair in itertools.pairwise(every))


def test_a_drafter_that_is_never_right_counts_exactly_one():
    (found,) = difference(read(sglang()), read(sglang(1.0, verified=990, generated=1000, requests=10)))
    assert (found.length, found.verify_steps) == (1.0, 990)


def test_short_answers_and_requests_without_speculation_are_not_counted_but_reported():
    before = read(sglang(2.0, speed=1.0))
    short = read(sglang(2.5, speed=2.0, verified=30, generated=100, requests=10))
    (found,) = difference(before, short)
    assert (found.length, found.verify_steps) == (2.5, None)
    beside = sglang(2.5, speed=2.0, verified=1000, generated=9000, requests=1)
    beside += 'sglang:spec_num_draft_tokens{model_name="m"} 4\n'
    assert [reading.verify_steps for reading in difference(before, read(beside))] == [None]
    probes = read(sglang(2.5, speed=2.0, verified=10, generated=38, requests=10))
    assert [reading.verify_steps for reading in difference(before, probes)] == [None]


@pytest.mark.parametrize(
    ("before", "after", "lengths"),
    [
        ((2.0, 5.0), (2.5, 6.0), [2.5]),
        ((2.5, 5.0), (2.5, 6.0), [2.5]),  # the same figure, reported anew
        ((2.5, 5.0), (2.5, 5.0), []),  # the old report
        ((2.5, 5.0), (2.5, 0.0), []),  # idle since
        ((2.5, 0.0), (3.0, 0.0), [3.0]),  # worked, and idle again
        ((None, 0.0), (3.0, 1.0), [3.0]),
        ((0.0, 0.0), (0.0, 9.0), []),  # nothing verified, or no speculation
    ],
)
def test_a_scheduler_s_report_is_a_reading_once(before, after, lengths):
    pair = (read(sglang(length, speed=speed)) for length, speed in (before, after))
    found = difference(*pair)
    assert [reading.length for reading in found] == lengths
    assert all(reading.verify_steps is None for reading in found)


def test_data_parallel_ranks_report_apart_and_shards_of_one_together():
    lines = [
        f'sglang:spec_accept_length{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} {2 + dp}\n'
        for dp in (0, 1)
        for tp in (0, 1)
    ]
    found = difference(Snapshot("sglang"), read("".join(lines)))
    assert [(reading.rank, reading.length) for reading in found] == [("0", 2.0), ("1", 3.0)]


def test_one_bad_rank_is_not_hidden_in_what_is_counted_for_all():
    ranks = "".join(sglang(length, speed=9.0, rank=rank) for rank, length in (("0", 2.9), ("1", 1.0)))
    counters = sglang(verified=1000, generated=2000, requests=4)
    found = difference(read(sglang(verified=0, generated=0, requests=0)), read(ranks + counters.partition("\n")[2]))
    assert [(reading.rank, reading.length) for reading in found] == [("0", 2.9), ("1", 1.0)]


def test_of_shards_that_differ_the_first_is_believed():
    lines = [f'sglang:spec_accept_length{{model_name="m",tp_rank="{tp}"}} {2 + tp}\n' for tp in (1, 0)]
    assert [reading.length for reading in difference(Snapshot("sglang"), read("".join(lines)))] == [2.0]


@pytest.mark.parametrize(("verified", "generated", "requests"), [(1, 3, 2), (10, 20, 10), (3, 9, 6)])
def test_fewer_verify_steps_than_requests_count_nothing(verified, generated, requests):
    after = read(sglang(verified=verified, generated=generated, requests=requests))
    assert difference(read(sglang()), after) == ()


def test_streamed_requests_are_counted_with_the_others():
    text = sglang(verified=90, requests=1) + "".join(
        f'sglang:generation_tokens_total{{model_name="m",is_streaming="{kind}"}} 100\n' for kind in ("true", "false")
    )
    (found,) = difference(read(sglang()), read(text))
    assert found.length == pytest.approx((200 - 1.5) / 89.5)


def test_vllm_s_counters_give_length_steps_and_positions():
    engine = Vllm()
    engine.step(0, 10, [9, 9, 9])
    before = engine.now()
    engine.step(0, 100, [80, 50, 20])
    (found,) = difference(before, engine.now())
    assert (found.length, found.verify_steps, found.positions) == (2.5, 100, (0.8, 0.5, 0.2))
    assert (found.rank, found.source, found.time) == ("", "metrics", None)
    assert difference(engine.now(), engine.now()) == ()


def test_vllm_s_engine_cores_are_told_apart():
    engine = Vllm(engines=3)
    before = engine.now()
    engine.step(0, 100, [80, 50, 20])
    engine.step(2, 50, [0, 0, 0])
    assert [(r.rank, r.length) for r in difference(before, engine.now())] == [("0", 2.5), ("2", 1.0)]


def test_a_scrape_between_two_of_vllm_s_counters_does_not_exceed_what_was_drafted():
    before, after = Vllm(), Vllm()
    after.step(0, 100, [100, 100, 100])
    after.accepted.labels("m", "0").inc(3)
    after.places.labels("m", "0", "0").inc(1)
    (found,) = difference(before.now(), after.now())
    assert (found.length, found.positions) == (4.0, (1.0, 1.0, 1.0))
    after.accepted.labels("m", "0").inc(100)
    with pytest.raises(EngineReportError, match="grew by 403 in 100 drafts"):
        difference(before.now(), after.now())


def test_positions_with_a_gap_are_not_told():
    text = "\n".join(
        f'vllm:spec_decode_num_{name}_total{{engine="0"{more}}} {value}'
        for name, more, value in (
            ("drafts", "", 10),
            ("draft_tokens", "", 30),
            ("accepted_tokens", "", 15),
            ("accepted_tokens_per_pos", ',position="0"', 9),
            ("accepted_tokens_per_pos", ',position="2"', 6),
        )
    )
    (found,) = difference(Snapshot("vllm"), read(text))
    assert (found.length, found.positions) == (2.5, ())


def test_the_engine_before_vllm_s_v1_tells_no_length():
    old = read('vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 5\nvllm:spec_decode_efficiency{} 0.5\n')
    assert (old.engine, old.tells_acceptance, difference(Snapshot("vllm"), old)) == ("vllm", False, ())


def test_a_restart_is_told_and_what_was_counted_since_is_read():
    first, second = Vllm(), Vllm()
    first.step(0, 1000, [900, 800, 700])
    second.step(0, 10, [5, 0, 0])
    assert restarted(first.now(), second.now()) == "vllm:spec_decode_num_drafts_total was 1000, and is 10"
    assert [(r.length, r.verify_steps) for r in difference(first.now(), second.now())] == [(1.5, 10)]
    assert restarted(second.now(), first.now()) == ""
    before = read(sglang(2.0, speed=1.0, verified=90, generated=100, requests=1))
    assert restarted(before, read(sglang(0.0))) == "sglang:spec_verify_calls_total was 90, and is gone"
    assert difference(before, read(sglang(2.0, speed=1.0)))[0].length == 2.0
    assert "answered before" in restarted(first.now(), before)
    assert restarted(Snapshot(), before) == ""


def test_an_exposition_of_something_else_tells_nothing():
    for text in ("", "up 1\n", "# HELP x y\nnode_load1 3\n", "<html>sglang</html>", "sglang_spec_accept_length 2\n"):
        found = read(text)
        assert (found.engine, found.tells_acceptance, difference(Snapshot(), found)) == ("", False, ())
    assert read("sglang:num_running_reqs 1\n").engine == "sglang"


WRONG = {
    "no value": ("sglang:spec_accept_length", "line 1: no sample"),
    "no number": ("sglang:spec_accept_length x", "line 1: no sample"),
    "open labels": ('sglang:spec_accept_length{a="b 2', "line 1: no sample"),
    "not a number": ("sglang:spec_accept_length NaN", "is nan"),
    "infinite": ("vllm:spec_decode_num_drafts_total +Inf", "is inf"),
    "negative": ("sglang:spec_verify_calls_total -1", "is -1"),
    "twice": (
        'sglang:spec_num_steps{a="1"} 1\nsglang:spec_num_steps{a="1"} 1',
        "line 2: sglang:spec_num_steps is there",
    ),
    "too short": ("sglang:spec_accept_length 0.5", "not 0 nor from 1 to 1024"),
    "too long": ("sglang:spec_accept_length 6.5\nsglang:spec_num_draft_tokens 4", "not 0 nor from 1 to 5"),
    "no position": ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="-1"} 1', "a position '-1'"),
    "absurd position": ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="9999"} 1', "a position '9999'"),
    "a long line": (f'sglang:spec_accept_length{{a="{"x" * 20_000}"}} 2', "longer than"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_with_its_line(text, message):
    with pytest.raises(EngineReportError) as caught:
        read(text)
    assert message in caught.value.message
    assert caught.value.where == WHERE


def test_too_much_is_refused(monkeypatch):
    with pytest.raises(EngineReportError, match="too large"):
        read("x" * (limits.metrics_max_characters + 1))
    monkeypatch.setattr(limits, "metrics_max_samples", 3)
    lines = [f'sglang:spec_num_steps{{r="{number}"}} 1' for number in range(4)]
    assert read("\n".join(lines[:3])).samples
    with pytest.raises(EngineReportError, match="more than 3 samples"):
        read("\n".join(lines))
    monkeypatch.undo()
    with pytest.raises(EngineReportError, match=r"line 8: no sample.*; and 2 more"):
        read("\n".join(["sglang:spec_num_steps x"] * 10))


names = st.sampled_from(
    ["sglang:spec_accept_length", "sglang:spec_verify_calls_total", "vllm:spec_decode_num_drafts_total"]
)
numbers = st.one_of(st.floats(), st.integers(), st.text(max_size=4)).map(str)
lines = st.one_of(
    st.tuples(names, st.text(max_size=12), numbers).map(lambda t: f"{t[0]}{t[1]} {t[2]}"),
    st.tuples(names, st.text(max_size=6), numbers).map(lambda t: f'{t[0]}{{position="{t[1]}"}} {t[2]}'),
    st.tuples(names, st.floats(0, 9)).map(lambda t: f"{t[0]} {t[1]}"),
)
expositions = st.lists(lines, max_size=6).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(expositions, expositions)
def test_no_text_raises_anything_else_and_no_length_is_below_one(before, after):
    try:
        found = difference(read(before), read(after))
    except EngineReportError:
        return
    assert all(reading.length >= 1 for reading in found)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), min_size=1, max_size=4))
def test_differences_add_up_to_what_was_accepted(polls):
    engine, snapshots = Vllm(), []
    snapshots.append(engine.now())
    for steps in polls:
        engine.step(0, len(steps), [sum(step > place for step in steps) for place in range(3)])
        snapshots.append(engine.now())
    found = [difference(*pair)[0] for pair in itertools.pairwise(snapshots)]
    total = sum(reading.length * reading.verify_steps for reading in found)
    assert total == pytest.approx(sum(1 + step for steps in polls for step in steps))
    assert all(1 + sum(reading.positions) == pytest.approx(reading.length) for reading in found)
