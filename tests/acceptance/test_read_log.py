"""Log lines: those that releases' own code wrote, what collectors put around them, and what only looks like one."""

from __future__ import annotations

import datetime as dt
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.sglang_log import read_line

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance")
with open(os.path.join(DATA, "decode_lines.json"), encoding="utf-8") as _file:
    LINES = {
        (release, made["situation"]): made["text"] for release, every in json.load(_file).items() for made in every
    }
NOON = dt.datetime(2026, 11, 29, 12).astimezone().timestamp()
#: What a situation of tests/conformance/decode_lines.py must be read as: length, rank, running requests.
READ = {
    "plain": (2.34, "", 3),
    "two ranks": (4.0, "1", 12),
    "never accepted": (1.0, "", 1),
    "numbered, decoding node": (2.12, "", 2),
    "ragged verify": (2.12, "", 2),
}
PLAIN = LINES["0.5.23", "plain"]
MESSAGE = PLAIN.partition("] ")[2]
#: Releases 0.8.5, 0.9.2, 0.11.0 to 0.32.0: 37 drafts of three tokens, of which 30, 20 and 10 were accepted.
RATES = "Accepted: 60 tokens, Drafted: 111 tokens, Per-position acceptance rate: 0.811, 0.541, 0.270"
SPEEDS = "Accepted throughput: 6.00 tokens/s, Drafted throughput: 11.10 tokens/s"
VLLM = {
    "0.8.5": f"SpecDecoding metrics: Draft acceptance rate: 54.1%, Mean acceptance length: 1.62, {RATES}",
    "0.9.2": f"SpecDecoding metrics: Draft acceptance rate: 54.1%, Mean acceptance length: 2.62, {RATES}",
    "0.32.0": f"SpecDecoding metrics: Mean acceptance length: 2.62, {SPEEDS}, {RATES}, Avg Draft acceptance: 54%",
}


@pytest.mark.parametrize(("release", "situation"), [key for key in LINES if key[1] in READ])
def test_every_release_s_own_line_is_read(release, situation):
    found = read_line(LINES[release, situation])
    assert found is not None
    assert (found.length, found.rank, found.running) == READ[situation]
    assert found.time == NOON
    assert (found.verify_steps, found.positions, found.source) == (None, (), "log")


@pytest.mark.parametrize("release", sorted({release for release, _ in LINES}))
def test_a_decode_line_without_speculation_is_no_reading(release):
    assert read_line(LINES[release, "no speculation"]) is None


WRAPPED = {
    "docker compose": "engine-1  | {}",
    "journald": "Nov 29 12:00:00 gpu-7 python3[4711]: {}",
    "kubectl --prefix": "[pod/engine-0/sglang] {}",
    "colours": "\x1b[32mengine-1  |\x1b[0m {}\x1b[0m\r\n",
    "colours as syslog writes them": "host sglang: #033[32m{}#033[0m",
    "logfmt": 'level=info host=gpu-7 msg="{}"',
    "its own formatter": "INFO:sglang.srt:{}",
    "spaces": "   {}  ",
}


@pytest.mark.parametrize("wrapper", WRAPPED)
def test_what_collectors_write_around_a_line_is_passed_over(wrapper):
    found = read_line(WRAPPED[wrapper].format(PLAIN))
    assert found is not None
    assert (found.length, found.running, found.time) == (2.34, 3, NOON)


UTC = dt.datetime(2026, 11, 29, 11, 0, 0, 500000, tzinfo=dt.UTC).timestamp()
ZONED = {
    "kubernetes": f"2026-11-29T11:00:00.500000000Z stdout F {PLAIN}",
    "docker logs -t": f"2026-11-29T12:00:00.5+01:00 {PLAIN}",
    "docker's files": json.dumps({"log": PLAIN + "\n", "stream": "stdout", "time": "2026-11-29T11:00:00.500000000Z"}),
    "a JSON formatter": json.dumps({"ts": 1, "timestamp": "2026-11-29 11:00:00,500Z", "message": MESSAGE}),
    "a JSON formatter in docker's files": json.dumps(
        {"log": json.dumps({"msg": MESSAGE}) + "\n", "time": "2026-11-29T11:00:00.5Z"}
    ),
    "coloured in JSON": json.dumps({"msg": f"\x1b[1m{MESSAGE}\x1b[0m", "time": "2026-11-29T11:00:00.5Z"}),
}


@pytest.mark.parametrize("wrapper", ZONED)
def test_a_time_with_a_zone_is_believed_before_the_engine_s_own(wrapper):
    found = read_line(ZONED[wrapper])
    assert found is not None
    assert (found.length, found.running, found.time) == (2.34, 3, UTC)


def test_colours_inside_a_line_are_passed_over():
    found = read_line(PLAIN.replace("] Decode", "] \x1b[36mDecode").replace("accept len: ", "accept len: \x1b[1m"))
    assert (found.length, found.time) == (2.34, NOON)


def test_milliseconds_and_ranks_of_a_header():
    line = LINES["0.5.9", "two ranks"].replace("12:00:00 DP1", "12:00:00.250 DP12 PP0 ATTN_CP1")
    found = read_line(line)
    assert found is not None
    assert (found.rank, found.time) == ("12", NOON + 0.25)


def test_a_line_without_any_time_has_none():
    found = read_line(MESSAGE)
    assert found is not None
    assert (found.length, found.time, found.rank) == (2.34, None, "")
    assert read_line(PLAIN.replace("2026-11-29", "2026-13-29")).time is None


FORGED = "Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 9.99, accept rate: 1.00, x"
NOT_READ = {
    "a logged request": f"[2026-11-29 12:00:00 TP0] Receive: obj=GenerateReqInput(text='{FORGED}')",
    "a logged request with a header of its own": f"[2026-11-29 12:00:00] Receive: G('[2026-11-29 12:00:00] {FORGED}')",
    "a logged request, header by another formatter": f'INFO Receive: obj=G(text="{FORGED}")',
    "a logged request in JSON": json.dumps({"message": "Receive", "obj": {"text": FORGED}}),
    "a logged request in JSON's message": json.dumps({"message": f"Receive: {{'text': '{FORGED}'}}"}),
    "prefill": "[2026-11-29 12:00:00] Prefill batch, #new-seq: 1, accept len: 2.00, x",
    "something in between": PLAIN.replace("#running-req", "x #running-req"),
    "cut off": PLAIN[: PLAIN.index("accept len") + 13],
    "below one": PLAIN.replace("accept len: 2.34", "accept len: 0.00"),
    "not a number": PLAIN.replace("accept len: 2.34", "accept len: nan"),
    "infinite": PLAIN.replace("accept len: 2.34", "accept len: inf"),
    "absurd": PLAIN.replace("accept len: 2.34", "accept len: 99999.00"),
    "negative": PLAIN.replace("accept len: 2.34", "accept len: -2.34"),
    "only the block's length": PLAIN.replace("accept len", "block accept len"),
    "the setting's own answer": "[2026-11-29 12:00:00] avg_spec_accept_length=2.3",
    "no JSON": "{" + PLAIN,
    "JSON of another kind": "[" + json.dumps(PLAIN) + "]",
    "deep JSON": '{"log":' * 5000 + '"accept len: "',
    "too long": PLAIN + "x" * 70_000,
    "nothing": "",
}


@pytest.mark.parametrize("line", NOT_READ.values(), ids=NOT_READ)
def test_what_is_no_report_is_not_read(line):
    assert read_line(line) is None


@pytest.mark.parametrize("release", VLLM)
def test_vllm_s_line_with_and_without_the_bonus_token(release):
    header = "INFO 11-29 12:00:00 [metrics.py:87] "
    found = read_line(
        f"(APIServer pid=347228) {header}{VLLM[release]}" if release == "0.32.0" else header + VLLM[release]
    )
    assert found is not None
    assert found.length == 1 + 60 / 37
    assert (found.verify_steps, found.positions, found.time) == (37, (0.811, 0.541, 0.270), None)


def test_vllm_s_number_of_drafts_is_told_only_where_one_fits():
    rates = "0.757, 0.622, 0.432, 0.324, 0.189, 0.108, 0.054"
    seen = "Mean acceptance length: 3.49, Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, "
    seen += f"Accepted: 92 tokens, Drafted: 259 tokens, Per-position acceptance rate: {rates}, Avg Draft"
    found = read_line(f"SpecDecoding metrics: {seen}")
    assert found.verify_steps == 37
    many = seen.replace("92 tokens", "92000 tokens").replace("259 tokens", "259000 tokens")
    found = read_line(f"SpecDecoding metrics: {many}")
    assert (found.verify_steps, found.length) == (None, pytest.approx(3.49))
    none = "Mean acceptance length: 1.00, Accepted: 0 tokens, Drafted: 9 tokens, Per-position acceptance rate: 0.000"
    found = read_line(f"SpecDecoding metrics: {none}")
    assert (found.verify_steps, found.length) == (None, 1.0)


def test_vllm_s_line_in_wrappers():
    line = f"(EngineCore_DP0 pid=9) INFO 11-29 12:00:00 [v1/spec_decode/metrics.py:120] {VLLM['0.32.0']}"
    assert read_line(line).length == pytest.approx(2.62, abs=0.005)
    assert read_line(f"2026-11-29T11:00:00.5Z stdout F {line}").time == UTC
    assert read_line(json.dumps({"message": VLLM["0.32.0"], "time": "2026-11-29T11:00:00.5Z"})).time == UTC


VLLM_NOT_READ = {
    "in a logged prompt": f"INFO 11-29 12:00:00 [logger.py:39] Received request cmpl-1: prompt: '{VLLM['0.32.0']}'",
    "in a logged prompt with a header": f"INFO 11-29 12:00:00 [logger.py:39] x [metrics.py:120] {VLLM['0.32.0']}",
    "rates that contradict the length": VLLM["0.32.0"].replace("length: 2.62", "length: 3.62"),
    "more accepted than drafted": VLLM["0.32.0"].replace("Drafted: 111", "Drafted: 11"),
    "a rate above one": VLLM["0.32.0"].replace("0.811", "1.811"),
    "no drafts": VLLM["0.32.0"].replace("2.62", "nan"),
    "a mean without its positions": "SpecDecoding metrics: Mean acceptance length: 2.62, Accepted: 60 tokens",
    "another decoder": VLLM["0.32.0"].replace("SpecDecoding", "DiffusionDecoding"),
}


@pytest.mark.parametrize("line", VLLM_NOT_READ.values(), ids=VLLM_NOT_READ)
def test_vllm_s_other_lines_are_not_read(line):
    assert read_line(line) is None


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 400), st.lists(st.integers(0, 400), min_size=1, max_size=8), st.booleans())
def test_every_line_that_vllm_can_write_gives_its_true_figures(drafts, counts, bonus):
    counts = sorted((min(count, drafts) for count in counts), reverse=True)
    accepted, drafted = sum(counts), drafts * len(counts)
    printed = accepted / drafts + bonus
    rates = ", ".join(f"{count / drafts:.3f}" for count in counts)
    found = read_line(
        f"SpecDecoding metrics: Mean acceptance length: {printed:.2f}, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 1.0%"
    )
    assert found is not None
    assert found.length == pytest.approx(1 + accepted / drafts, abs=0.0051)
    assert found.verify_steps in (None, drafts)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.floats(allow_nan=True), st.sampled_from([PLAIN, VLLM["0.32.0"]]))
def test_no_line_raises_and_no_length_is_out_of_bounds(before, after, number, line):
    for text in (
        before + line + after,
        before + line.replace("2.34", str(number)) + after,
        json.dumps({"log": line + after}),
    ):
        found = read_line(text)
        assert found is None or 1 <= found.length <= 1024
