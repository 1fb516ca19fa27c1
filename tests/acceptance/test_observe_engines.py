"""`drafters observe` in this process: engines that answer, fall silent, restart and lie, on a made-up clock."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

import pytest

from drafter_cli.commandline import parse
from drafter_cli.observing.command import COMMANDS, observe
from drafter_cli.observing.live import Live

_spec = importlib.util.spec_from_file_location("observed", os.path.join(os.path.dirname(__file__), "observed.py"))
_observed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_observed)
INFO, VLLM, Clock, counted = _observed.INFO, _observed.VLLM, _observed.Clock, _observed.counted
decode_line, start_line = _observed.decode_line, _observed.start_line


@pytest.fixture
def watch(stub, capsys):
    """Runs an observation of the stub (or of a log); the report."""

    def run(*arguments, clock=None, url=True):
        where = ("--url", stub.url) if url else ()
        report = observe(parse(COMMANDS["observe"], [*map(str, arguments), *where]), clock or Clock())
        report_text = capsys.readouterr()
        assert not report_text.out
        run.told = report_text.err
        return report

    return run


@pytest.fixture
def vllm(stub):
    """A vLLM whose acceptance a test drives."""
    engine = VLLM()
    stub.answers["/version"] = {"version": "0.29.0"}
    stub.answers["/v1/models"] = {"data": [{"id": "m"}]}
    stub.answers["/metrics"] = engine.text()
    return engine


def driven(stub, engine, length):
    """A clock at whose every tick the engine verifies 100 steps."""

    def then(number):
        stub.answers["/metrics"] = engine.run(length(number) if callable(length) else length)

    return Clock(then)


def test_as_promised_by_counters(stub, vllm, watch):
    report = watch("--promise", "2.2", "--until-verdict", clock=driven(stub, vllm, 2.8))
    assert report.judgement.word == "as promised"
    assert report.judgement.seen == pytest.approx(2.8)
    assert (report.source, report.exit_code, report.promised_by) == ("metrics", 0, "--promise")
    assert report.conditions.engine == "vllm"
    assert (report.ranks, report.notes, report.posted) == ((), (), None)
    assert report.judgement.verify_steps == 100 * report.judgement.readings
    assert "of 2.20 promised" in watch.told


@pytest.mark.parametrize(
    ("length", "words", "code"),
    [
        (2.2, ("collapsed", "degraded"), 3),
        (2.2, ("collapsed",), 0),
        (2.2, ("never-accepted",), 0),
        (1.0, ("never-accepted",), 3),
        (1.0, ("collapsed",), 3),
        (1.0, ("collapsed,degraded",), 3),
        (1.0, (), 0),
        (3.9, ("degraded", "collapsed", "never-accepted"), 0),
    ],
)
def test_what_is_to_fail_fails(stub, vllm, watch, length, words, code):
    fail = ("--fail-on", *words) if words else ()
    report = watch("--promise", "2.8", "--until-verdict", *fail, clock=driven(stub, vllm, length))
    assert report.exit_code == code, report.judgement


def test_degraded_does_not_answer_whether_it_is_collapsed(stub, vllm, watch):
    """What can be said early of a drafter that is never accepted is only that it is degraded."""
    early = watch("--promise", "2.8", "--until-verdict", clock=driven(stub, vllm, 1.0))
    assert early.judgement.word == "degraded"
    most = str(early.judgement.readings + 5)
    collapse = ("--promise", "2.8", "--until-verdict", "--fail-on", "collapsed")
    report = watch(*collapse, "--readings", most, clock=driven(stub, vllm, 1.0))
    assert (report.judgement.word, report.exit_code) == ("degraded", 5)
    report = watch(*collapse, clock=driven(stub, vllm, 1.0))
    assert (report.judgement.word, report.exit_code) == ("collapsed", 3)
    assert report.judgement.readings > early.judgement.readings + 5


def test_one_rank_that_is_bad_is_named_and_decides(stub, watch):
    engine = VLLM("0", "1")
    stub.answers["/version"] = {"version": "0.29.0"}
    stub.answers["/metrics"] = engine.text()

    def then(_number):
        engine.run(2.8, steps=1000, core="0")
        stub.answers["/metrics"] = engine.run(1.0, steps=50, core="1")

    report = watch("--promise", "2.0", "--for", "50m", "--interval", "30", "--fail-on", "collapsed", clock=Clock(then))
    assert [(one.rank, one.judgement.word) for one in report.ranks] == [("0", "as promised"), ("1", "collapsed")]
    assert report.judgement.word == "collapsed"
    assert report.judgement.reason.startswith("rank 1 by itself: ")
    assert report.exit_code == 3
    assert sum(one.judgement.alpha for one in report.ranks) == pytest.approx(0.005)
    assert "[ranks 0:2.80 1:1.00]" in watch.told


def test_too_little_is_no_verdict(stub, vllm, watch):
    report = watch("--promise", "2.8", "--readings", "3", clock=driven(stub, vllm, 1.0))
    assert (report.judgement.word, report.judgement.readings, report.exit_code) == ("too little seen", 3, 0)
    clock = driven(stub, vllm, 1.0)
    report = watch("--promise", "2.8", "--until-verdict", "--for", "25", "--fail-on", "collapsed", clock=clock)
    assert (report.judgement.word, report.exit_code) == ("too little seen", 5)
    assert clock.waits == [10, 10, 5]
    assert "more readings" in report.judgement.settle
    report = watch("--promise", "2.8", "--for", "10", "--fail-on", "too-little-seen", clock=driven(stub, vllm, 1.0))
    assert report.exit_code == 3


def test_nothing_promised_ends_a_wait_for_a_verdict(stub, vllm, watch):
    report = watch("--until-verdict", clock=driven(stub, vllm, 2.8))
    assert (report.judgement.word, report.exit_code) == ("nothing promised", 5)
    report = watch("--until-verdict", "--fail-on", "nothing-promised", clock=driven(stub, vllm, 2.8))
    assert report.exit_code == 3


def test_never_accepted_needs_no_promise(stub, vllm, watch):
    report = watch("--until-verdict", "--fail-on", "collapsed", clock=driven(stub, vllm, 1.0))
    assert (report.judgement.word, report.judgement.never_accepted, report.exit_code) == ("collapsed", True, 3)


def test_an_engine_that_falls_silent_is_asked_ever_less_and_its_return_is_told(stub, vllm, watch):
    silent = range(5, 12)

    def then(number):
        text = vllm.run(2.8)
        stub.answers["/metrics"] = (500, b"") if number in silent else text

    clock = Clock(then)
    report = watch("--promise", "2.8", "--readings", "8", clock=clock)
    assert clock.waits[:13] == [10, 10, 10, 10, 10, 20, 40, 60, 60, 60, 60, 60, 10]
    first, second = report.notes
    assert first.startswith("14:00:50 ")
    assert "/metrics answers 500; it is asked again" in first
    assert second.endswith("it answers again after 360 s")
    assert report.judgement.readings == 8
    assert report.judgement.verify_steps == 1500  # what was verified in the silence is in the counters


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\x00",
        'vllm:spec_decode_num_drafts_total{engine="0"} -5\n',
        'vllm:spec_decode_num_drafts_total{engine="0"} NaN\n',
        "vllm:spec_decode_num_drafts_total{ 5\n",
        (404, b""),
        (302, b"", {"location": "http://127.0.0.1:1/"}),
    ],
)
def test_what_is_no_exposition_is_told_and_survived(stub, vllm, watch, body):
    def then(number):
        text = vllm.run(2.8)
        stub.answers["/metrics"] = body if number == 3 else text

    report = watch("--promise", "1.9", "--readings", "60", clock=Clock(then))
    assert report.judgement.word == "as promised"
    assert report.judgement.seen == pytest.approx(2.8)


def test_a_cut_answer_is_no_restart(stub, vllm, watch):
    def then(number):
        text = vllm.run(2.8)
        length = {"content-length": str(len(text))}
        stub.answers["/metrics"] = (200, text.encode()[:60], length) if number == 3 else text

    report = watch("--promise", "2.8", "--readings", "5", clock=Clock(then))
    assert len(report.notes) == 2
    assert not any("anew" in note for note in report.notes)


def sglang(stub, **info):
    stub.answers["/server_info"] = INFO | info


def test_sglang_by_its_counters(stub, watch):
    sglang(stub)
    stub.answers["/metrics"] = counted([2.7] * 100)
    report = watch("--promise", "1.9", "--until-verdict", "--steps", "7", "--workload", "chat")
    assert (report.conditions.steps, report.conditions.workload) == (3, "chat")  # the engine's word beats the options
    assert (report.source, report.judgement.word) == ("metrics", "as promised")
    assert report.conditions.release == "0.5.23"
    assert report.judgement.verify_steps == 200 * report.judgement.readings


def test_a_restart_under_the_same_conditions_goes_on_and_under_others_begins_anew(stub, watch):
    sglang(stub)
    stub.answers["/metrics"] = counted([2.7] * 10) + counted([2.7] * 10)
    report = watch("--promise", "2.8", "--for", "200")
    assert report.judgement.readings == 20
    assert len(report.notes) == 1
    assert "started anew: sglang:spec_verify_calls_total was 2000, and is 0" in report.notes[0]
    stub.answers["/metrics"] = counted([2.7] * 10) + counted([3.7] * 10)
    stub.answers["/server_info"] = [INFO, INFO | {"speculative_num_steps": 4, "speculative_num_draft_tokens": 5}]
    report = watch("--promise", "2.8", "--for", "200")
    assert report.judgement.readings == 10
    assert report.judgement.seen == pytest.approx(3.7, abs=0.01)
    assert report.conditions.steps == 4
    assert "begins anew: steps 3 -> 4; draft_tokens 4 -> 5" in report.notes[1]


def test_an_engine_that_does_not_say_after_a_restart_is_asked_again(stub, watch):
    other = INFO | {"version": "0.5.24"}
    stub.answers["/server_info"] = [INFO, (503, b""), other]
    stub.answers["/metrics"] = counted([2.7] * 5) + counted([2.7] * 5)
    report = watch("--promise", "2.8", "--for", "100")
    assert report.conditions.release == "0.5.24"
    assert report.judgement.readings == 4


def test_an_engine_that_was_silent_is_asked_what_it_is_now(stub, watch):
    mean = {"internal_states": [{"avg_spec_accept_length": 2.5}]}
    other = INFO | mean | {"version": "0.5.24"}
    stub.answers["/server_info"] = [INFO | mean, INFO | mean, (503, b""), other]
    report = watch("--promise", "2.8", "--for", "60")
    assert report.conditions.release == "0.5.24"
    assert "begins anew: release 0.5.23 -> 0.5.24" in report.notes[-1]


def test_only_a_mean_since_the_start_is_one_figure_however_often_it_is_told(stub, watch):
    sglang(stub, internal_states=[{"avg_spec_accept_length": 2.5}, {"avg_spec_accept_length": 2.7}])
    report = watch("--promise", "2.8", "--for", "10m")
    assert report.source == "server info"
    assert [(one.rank, one.judgement.readings) for one in report.ranks] == [("0", 1), ("1", 1)]
    assert report.judgement.word == "too little seen"
    assert "only its mean since it started" in report.limits[0]
    assert "--enable-metrics" in report.limits[0]


def test_a_verdict_that_can_never_come_is_not_waited_for(stub, watch):
    sglang(stub, internal_states=[{"avg_spec_accept_length": 2.5}])
    report = watch("--promise", "2.8", "--until-verdict")
    assert (report.source, report.exit_code) == ("server info", 5)
    sglang(stub, speculative_algorithm=None)
    stub.answers["/metrics"] = "sglang:num_running_reqs 0\n"
    report = watch("--promise", "2.8", "--until-verdict")
    assert (report.source, report.exit_code) == ("metrics", 5)


def test_made_up_figures_void_the_observation(stub, watch):
    variables = {"env_vars": {"SGLANG_SIMULATE_ACC_LEN": "3.5"}}
    sglang(stub, internal_states=[variables])
    stub.answers["/metrics"] = counted([3.5] * 50)
    report = watch("--promise", "2.8", "--for", "200", "--fail-on", "collapsed", "degraded")
    assert (report.judgement.word, report.exit_code) == ("too little seen", 0)
    assert "SGLANG_SIMULATE_ACC_LEN=3.5" in report.judgement.reason
    report = watch("--promise", "2.8", "--until-verdict")
    assert report.exit_code == 5


def test_the_environment_behind_a_local_port_is_looked_at(stub, watch, monkeypatch):
    sglang(stub)
    stub.answers["/metrics"] = counted([3.5] * 50)
    seen = []
    monkeypatch.setattr(
        "drafter_cli.observing.environment.environments",
        lambda port: seen.append(port) or ({"A": "1"}, {"SGLANG_SIMULATE_ACC_LEN": "3"}),
    )
    report = watch("--promise", "2.8", "--until-verdict")
    assert seen == [stub.port]
    assert "SGLANG_SIMULATE_ACC_LEN=3 in" in report.judgement.reason
    monkeypatch.setattr("drafter_cli.observing.environment.environments", lambda _port: ({"A": "1"},))
    assert not any("ENVIRON" in one.upper() for one in watch("--promise", "2.8", "--for", "10").limits)
    monkeypatch.setattr("drafter_cli.observing.environment.environments", lambda _port: None)
    assert "is taken for granted" in " ".join(watch("--promise", "2.8", "--for", "10").limits)


def test_an_engine_without_speculation_is_named(stub, watch):
    sglang(stub, speculative_algorithm=None)
    assert "runs without speculation" in " ".join(watch("--promise", "2.8", "--for", "10").limits)


def test_counters_beat_a_log_and_a_log_beats_what_was_reported_last(stub, watch, tmp_path):
    path = tmp_path / "engine.log"
    path.write_text("".join(decode_line(at, 2.1) for at in range(5)))
    sglang(stub)
    log = ("--promise", "2.8", "--log", path, "--from-start", "--for", "10")
    stub.answers["/metrics"] = counted([2.7] * 50)
    assert watch(*log).source == "metrics"
    stub.answers["/metrics"] = 'sglang:spec_accept_length{tp_rank="0"} 2.5\n'
    report = watch(*log)
    assert (report.source, report.judgement.readings, report.conditions.release) == ("log", 5, "0.5.23")
    del stub.answers["/metrics"]
    assert watch(*log).source == "log"
    stub.answers["/metrics"] = "sglang:spec_accept_length{ 2\n"
    report = watch("--promise", "2.8", "--for", "10")
    assert report.source == "server info"
    assert "metrics are not read" in report.limits[0]


def test_a_log_says_under_what_it_was_written(watch, tmp_path):
    path = tmp_path / "engine.log"
    lines = [decode_line(at, 2.7) for at in range(200)]
    path.write_text(start_line() + "".join(lines) + "junk\n")
    report = watch("--promise", "1.9", "--log", path, "--from-start", "--for", "0", url=False)
    assert report.judgement.word == "as promised"
    assert report.conditions.steps == 3
    assert (report.judgement.readings, report.first[11:], report.last[14:]) == (200, report.first[11:], "03:19Z")
    path.write_text(
        start_line() + "".join(lines) + start_line(steps=4) + "".join(decode_line(at, 3.3) for at in range(300, 303))
    )
    kept = tmp_path / "seen.jsonl"
    report = watch("--promise", "2.8", "--log", path, "--from-start", "--for", "0", "-o", kept, url=False)
    assert (report.conditions.steps, report.judgement.readings, report.judgement.seen) == (4, 3, pytest.approx(3.3))
    # What the engine did before its restart was looked at, too.
    assert [json.loads(line)["new"] for line in kept.read_text().splitlines()] == [200, 3]


def test_of_a_log_only_what_is_added_is_seen_while_it_is_rotated(watch, tmp_path):
    path = str(tmp_path / "engine.log")

    def put(text):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)

    def then(number):
        if number == 3:
            os.rename(path, path + ".1")
        put(decode_line(number, 2.0))

    put(decode_line(0, 1.0))
    report = watch("--promise", "2.8", "--steps", 3, "--log", path, "--readings", 6, clock=Clock(then), url=False)
    assert (report.judgement.readings, report.judgement.seen) == (6, pytest.approx(2.0))
    assert "was rotated" in report.notes[0]


def test_hours_are_judged_one_by_one_and_a_bad_one_does_not_pass(watch, tmp_path):
    path = tmp_path / "engine.log"
    bad = [decode_line(at, 1.1) for at in range(0, 3600, 10)]
    good = [decode_line(at, 2.8) for at in range(3600, 7200, 10)]
    path.write_text("".join(bad + good))
    log = ("--promise", "2.2", "--steps", 3, "--log", path, "--from-start", "--for", "0")
    report = watch(*log, "--fail-on", "collapsed", url=False)
    assert [one.judgement.word for one in report.windows] == ["collapsed"]
    assert (report.windows[0].ended - report.windows[0].begun, report.judgement.word) == (3590, "as promised")
    assert (report.judgement.readings, report.exit_code) == (360, 3)
    assert "1.10" in report.notes[0]
    assert watch(*log, "--fail-on", "degraded", url=False).exit_code == 0
    whole = watch(*log, "--window", "3h", url=False)
    assert (whole.windows, whole.judgement.readings) == ((), 720)
    path.write_text("".join(bad + good[:3]))
    assert watch(*log, url=False).judgement.word == "collapsed"  # three readings of the next hour are no verdict


def test_an_interrupt_ends_with_the_verdict_so_far(stub, vllm, watch):
    def then(number):
        if number == 60:
            raise KeyboardInterrupt
        stub.answers["/metrics"] = vllm.run(1.0)

    report = watch("--promise", "2.8", "--fail-on", "collapsed", clock=Clock(then))
    assert (report.judgement.word, report.exit_code) == ("collapsed", 3)
    assert "interrupted" in report.notes[-1]


def test_lines_are_added_to_a_file(stub, vllm, watch, tmp_path):
    path = tmp_path / "seen.jsonl"
    path.write_text("kept\n")
    watch("--promise", "2.8", "--for", "30", "-o", path, clock=driven(stub, vllm, 2.8))
    kept, *lines = path.read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert kept == "kept"
    assert [(one["time"], one["new"], one["judgement"]["readings"]) for one in found] == [
        ("2026-11-30T14:00:00Z", 0, 0),
        ("2026-11-30T14:00:10Z", 1, 1),
        ("2026-11-30T14:00:20Z", 1, 2),
        ("2026-11-30T14:00:30Z", 1, 3),
    ]
    report = watch("--promise", "2.8", "--for", "30", "-o", "/dev/full", clock=driven(stub, vllm, 2.8))
    assert report.judgement.readings == 3
    assert "/dev/full cannot be written" in report.notes[0]
    assert len(report.notes) == 1


def test_notes_are_bounded(capsys):
    live = Live(Clock())
    for number in range(300):
        live.note(f"note {number}")
    assert (len(live.notes), len(capsys.readouterr().err.splitlines())) == (200, 300)
    live.close()


class Terminal:
    """Standard error that is a terminal."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_on_a_terminal_one_line_is_rewritten(stub, vllm, watch, monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", terminal)

    def then(number):
        text = vllm.run(2.8)
        stub.answers["/metrics"] = (500, b"") if number == 2 else text

    watch("--promise", "2.8", "--readings", 3, clock=Clock(then))
    rewritten = terminal.text.split("\r\x1b[K")
    assert len(rewritten) == 5
    assert all(len(one.split("\n")[0]) < 60 for one in rewritten[1:])
    assert "\n14:00:20 " in rewritten[2]  # a note does not stand in the live line
    assert terminal.text.endswith("\n")


_RECORDED = os.path.join(os.path.dirname(__file__), "..", "data", "acceptance", "sglang-0.5.23.json")


def test_a_real_engine_replayed(stub, watch, tmp_path):
    """SGLang 0.5.23 on a CPU with a trained drafter, as it answered: what it served, its counters, its log."""
    with open(_RECORDED, encoding="utf-8") as file:
        recorded = json.load(file)["right"]
    stub.answers["/server_info"] = recorded["after"]
    stub.answers["/metrics"] = list(recorded["metrics"])
    counters = watch("--promise", "1.9", "--for", "30")
    assert (counters.source, counters.conditions.release, counters.conditions.steps) == ("metrics", "0.5.23", 3)
    assert counters.notes == ()
    assert counters.judgement.readings >= 2
    path = tmp_path / "engine.log"
    path.write_text("\n".join(recorded["log"]) + "\n")
    log = watch("--promise", "1.9", "--log", path, "--from-start", "--for", "0", "--steps", 3, url=False)
    assert log.judgement.word == "as promised"
    assert log.judgement.readings == sum("accept len" in line for line in recorded["log"])
    del stub.answers["/metrics"]
    mean = watch("--promise", "1.9", "--for", "30")
    assert (mean.source, mean.judgement.readings) == ("server info", 1)
    # Three sources of one engine: what they have in common is the length.
    assert counters.judgement.seen == pytest.approx(log.judgement.seen, abs=0.15)
    assert mean.judgement.seen == pytest.approx(log.judgement.seen, abs=0.15)
