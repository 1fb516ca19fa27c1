"""`drafters observe` as it is called: promises from everywhere, a real registry, signals, wrong command lines."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import msgspec
import pytest

from drafter_cli import main
from drafter_cli.client.connect import connect
from drafter_cli.commandline import Parsed, parse
from drafter_cli.demo_files import write_small_drafter, write_target
from drafter_cli.errors import UsageError
from drafter_cli.observing.command import COMMANDS, observe
from drafter_registry.acceptance_documents import AcceptanceList, KnownAcceptance
from drafter_registry.errors import UnavailableError

ACCEPTANCE = {"length": 1.9, "dataset": "mt-bench", "engine": "sglang 0.5.23", "steps": 3, "topk": 1, "draft_tokens": 4}


@pytest.fixture
def log(tmp_path, observed):
    path = tmp_path / "engine.log"
    path.write_text(observed.start_line() + "".join(observed.decode_line(at, 2.7) for at in range(200)))
    return str(path)


@pytest.fixture
def directory(tmp_path):
    """A drafter's directory with a manifest that promises something."""
    folder = tmp_path / "drafter"
    folder.mkdir()
    document = {"schema": "drafters.manifest.v1", "method": "EAGLE3", "layout": {"boundaries": [1, 3, 5]}}
    (folder / "drafters-manifest.json").write_text(json.dumps(document | {"acceptance": [ACCEPTANCE]}))
    return str(folder)


@pytest.fixture
def look(observed):
    def run(*arguments):
        return observe(parse(COMMANDS["observe"], [*map(str, arguments)]), observed.Clock())

    return run


def whole(log):
    return ("--log", log, "--from-start", "--for", "0")


def test_lines_that_a_collector_wrote_several_times_are_one_report_each(look, observed, tmp_path):
    path = tmp_path / "doubled.log"
    path.write_text(observed.start_line() + "".join(observed.decode_line(at, 2.7) * 4 for at in range(30)))
    report = look(*whole(path), "--promise", "3.9")
    assert (report.judgement.readings, report.judgement.word) == (30, "too little seen")


def test_promises_of_the_manifest_in_a_directory(look, log, directory):
    report = look(directory, *whole(log))
    assert (report.judgement.word, report.judgement.promised) == ("as promised", 1.9)
    assert report.promised_by == f"the manifest in {directory}"
    assert any(line.startswith("workload: promised for mt-bench") for line in report.judgement.differs)
    report = look(directory, *whole(log), "--workload", "mt-bench")
    assert not any(line.startswith("workload") for line in report.judgement.differs)
    report = look(directory, *whole(log), "--promise", "3.9")
    assert (report.judgement.promised, report.promised_by) == (3.9, "--promise")


def test_promises_beside_what_the_engine_serves(look, stub, observed, directory):
    stub.answers["/server_info"] = observed.INFO | {"speculative_draft_model_path": directory}
    stub.answers["/metrics"] = observed.counted([2.7] * 60)
    report = look("--url", stub.url, "--for", "600")
    assert report.judgement.word == "as promised"
    assert report.promised_by == f"the manifest in {directory}, from where the engine serves"
    os.remove(os.path.join(directory, "drafters-manifest.json"))
    stub.answers["/metrics"] = observed.counted([2.7] * 60)
    report = look("--url", stub.url, "--for", "600")
    assert (report.judgement.word, report.promised_by) == ("nothing promised", "")
    stub.answers["/server_info"] = observed.INFO | {"speculative_draft_model_path": "drafter"}
    assert look("--url", stub.url, "--for", "0").promised_by == ""


def test_a_directory_without_a_manifest_promises_nothing(look, log, tmp_path):
    with pytest.raises(UsageError, match=r"no drafters-manifest\.json"):
        look(tmp_path, *whole(log))


class Registry:
    """Holds one version with a promise in its manifest and one attached."""

    name = "http://registry"

    def __init__(self):
        self.error, self.taken, self.is_closed = None, [], False

    def manifest(self, reference):
        document = {
            "schema": "drafters.manifest.v1",
            "name": "kimi",
            "version": "2",
            "method": "EAGLE3",
            "layout": {"boundaries": [1, 3, 5]},
        }
        data = json.dumps(document).encode()
        return data, "sha256:" + hashlib.sha256(data).hexdigest()

    def acceptances(self, reference):
        assert reference == "kimi@2"
        items = (
            {"digest": "a", "source": "manifest", "acceptance": ACCEPTANCE | {"steps": 5}},
            {"digest": "b", "source": "attached", "acceptance": ACCEPTANCE, "by": "ci", "at": "2026-11-29T10:00:00Z"},
        )
        known = tuple(msgspec.convert(one, KnownAcceptance) for one in items)
        return AcceptanceList(name="kimi", version="2", digest="d", items=known)

    def observe(self, reference, observations, *, run=""):
        if self.error is not None:
            raise self.error
        self.taken += [(reference, run, one) for one in observations]

    def close(self):
        self.is_closed = True


@pytest.fixture
def registry(monkeypatch):
    importlib.import_module("drafter_cli.catalogue.pull_command")  # keeps the name that it finds when imported first
    made = Registry()
    monkeypatch.setattr("drafter_cli.client.connect.connect", lambda _parsed: made)
    return made


def test_promises_and_reports_are_of_the_version_that_an_alias_means(look, log, registry):
    report = look("kimi@prod", *whole(log), "--post", "--instance", "engine-a")
    assert (report.judgement.word, report.promised_by) == ("as promised", "kimi@2")
    assert "attached by ci on 2026-11-29" in report.judgement.promise
    ((reference, run, seen),) = registry.taken
    assert (reference, seen.instance, seen.readings, seen.conditions.steps) == ("kimi@2", "engine-a", 200, 3)
    assert (report.posted.stored, report.posted.run, report.exit_code) == (1, run, 0)
    assert registry.is_closed
    look("kimi@prod", *whole(log))
    assert len(registry.taken) == 1


def test_what_another_drafter_does_is_posted_to_no_version(look, stub, observed, registry, tmp_path):
    stub.answers["/server_info"] = observed.INFO | {"speculative_draft_model_path": str(tmp_path)}
    own = {"schema": "drafters.manifest.v1", "name": "kimi", "version": "2"}
    _, digest = registry.manifest("kimi@2")

    def served(**more):
        stub.answers["/metrics"] = observed.counted([3.0] * 20)
        (tmp_path / "drafters-manifest.json").write_text(json.dumps(own | more))
        return look("kimi@2", "--url", stub.url, "--for", "100", "--post")

    for other in ({"version": "1"}, {"name": "other"}, {"render": {"of": "sha256:" + "0" * 64, "engine": "sglang 1"}}):
        with pytest.raises(UsageError, match="by its manifest, and not kimi@2"):
            served(**other)
    assert registry.taken == []
    assert any("and not kimi@2" in note for note in look("kimi@2", "--url", stub.url, "--for", "100").notes)
    assert served().posted.stored == 1
    assert served(render={"of": digest, "engine": "sglang 0.5.23"}).posted.stored == 1


def test_a_registry_that_takes_nothing_does_not_change_a_verdict(look, log, registry):
    registry.error = UnavailableError("down")
    report = look("kimi@prod", *whole(log), "--post")
    assert (report.judgement.word, report.exit_code, report.posted.error) == ("as promised", 6, "down")
    assert "not reported to http://registry: down" in report.notes[-1]
    report = look("kimi@prod", *whole(log), "--post", "--promise", "3.9", "--fail-on", "degraded")
    assert report.exit_code == 3
    empty = look("kimi@prod", "--log", log, "--for", "0", "--post", "--until-verdict")
    assert empty.exit_code == 5
    assert look("kimi@prod", "--log", log, "--for", "0", "--post").exit_code == 0  # nothing seen, nothing lost


def test_neither_made_up_figures_nor_running_means_are_reported(look, stub, observed, registry):
    stub.answers["/server_info"] = observed.INFO | {"internal_states": [{"avg_spec_accept_length": 2.5}]}
    report = look("kimi@2", "--url", stub.url, "--for", "100", "--post")
    assert (report.source, report.posted.stored, report.exit_code) == ("server info", 0, 0)
    variables = {"env_vars": {"SGLANG_SIMULATE_ACC_LEN": "3.5"}}
    stub.answers["/server_info"] = observed.INFO | {"internal_states": [variables]}
    stub.answers["/metrics"] = observed.counted([3.5] * 20)
    report = look("kimi@2", "--url", stub.url, "--for", "100", "--post")
    assert (report.source, report.posted.stored, report.exit_code) == ("metrics", 0, 0)
    assert "reported to no registry" in " ".join(report.limits)
    assert registry.taken == []


@pytest.fixture(scope="module")
def published(tmp_path_factory, command):
    """A registry in a directory, with a drafter."""
    folder = tmp_path_factory.mktemp("registry")
    for name in ("drafter", "target"):
        (folder / name).mkdir()
    write_small_drafter(str(folder / "drafter"), ids=[2, 30, 58])
    write_target(str(folder / "target"))
    (folder / "a.json").write_text(json.dumps(ACCEPTANCE))
    line = "publish drafter --name kimi --version 1 --target target --acceptance a.json --data data"
    subprocess.run([command, *line.split()], cwd=folder, check=True, capture_output=True)
    return str(folder / "data")


def test_a_log_into_a_real_registry_counts_once_however_often_it_is_read(drafters, published, log):
    for _ in range(2):
        done = drafters("observe", "kimi@1", *whole(log), "--post", "--instance", "a", "--data", published)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("as promised: length 2.70 (")
    assert "reported: 1 hour of kimi@1\n" in done.stdout
    assert "limit: the environment" in done.stdout
    with closing(connect(Parsed({"--data": published}, (), None))) as backend:
        (seen,) = backend.history("kimi@1").items
    assert (seen.observation.readings, seen.observation.instance) == (200, "a")
    assert seen.observation.length == pytest.approx(2.7)


#: Whoever runs the tests in the background may have SIGINT ignored, which children inherit.
_LISTENING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_verdict_so_far(command, observed, number):
    line = [
        sys.executable,
        "-c",
        _LISTENING,
        command,
        "observe",
        "--log",
        "-",
        "--interval",
        "1",
        "--promise",
        "2.8",
        "--json",
    ]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(observed.start_line() + "".join(observed.decode_line(at, 2.5) for at in range(3)))
        process.stdin.flush()
        while "3 readings" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        report = json.loads(process.stdout.read())
        assert process.wait() == 0
    assert report["judgement"]["readings"] == 3
    assert "interrupted" in report["notes"][-1]


def test_a_pipe_is_read_to_its_end(drafters, observed):
    text = observed.start_line() + "".join(observed.decode_line(at, 1.0, rank=f" DP{at % 2}") for at in range(400))
    done = drafters("observe", "--log", "-", "--promise", "2.8", "--fail-on", "never-accepted", stdin=None, input=text)
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines()[0].split() == ["RANK", "LENGTH", "SEEN", "VERDICT"]
    assert "collapsed, never accepted: length 1.00" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "nothing to observe"),
        ("--url http://a --from-start", "--from-start is of a log"),
        ("--log x --interval 0", "--interval is 0"),
        ("--log x --window 0", "--window is 0"),
        ("--log x --for soon", "--for is 'soon'"),
        ("--log x --readings 0", "--readings is '0'"),
        ("--log x --steps many", "--steps is 'many'"),
        ("--log x --fail-on sad", "does not know 'sad'"),
        ("--log x --post", "--post needs to know of which"),
        ("/ --log x --post", "--post needs to know of which"),
        ("--log x --promise 0.5", "--promise is '0.5'"),
        ("--log x --promise much", "--promise is 'much'"),
        ("--log x --promise nan", "--promise is 'nan'"),
        ("--log x -o /no/such/place", "/no/such/place cannot be written"),
        ("--log /", "/ is a directory"),
        ("--url nowhere", "no engine's URL"),
    ],
)
def test_command_lines_that_are_none(capsys, line, said):
    assert main.main(["observe", *line.split()]) == 2
    assert said in capsys.readouterr().err


def test_an_engine_that_is_not_there_at_the_beginning(capsys):
    assert main.main(["observe", "--url", "http://127.0.0.1:1", "--json"]) == 6
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UNREACHABLE"
