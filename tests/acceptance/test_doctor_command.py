"""`drafters doctor`, from its command line to its exit code, with engines that answer over HTTP."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import os
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from drafter_cli import main
from drafter_cli.client.connect import connect
from drafter_cli.commandline import Parsed
from drafter_cli.doctor import command as doctor_command
from drafter_contracts.manifest_records import Acceptance

_PATH = os.path.join(os.path.dirname(__file__), "doctor_scene.py")
_SPEC = importlib.util.spec_from_file_location("doctor_scene", _PATH)
scenes = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(scenes)
_STATES = os.path.join(os.path.dirname(__file__), "..", "data", "states", "sglang-0.5.23.json")
IDS = "eagle_aux_hidden_state_layer_ids"
LINE = (
    "[2026-11-30 03:12:{:02d}] Decode batch, #running-req: 8, #token: 4096, token usage: 0.10, accept len: {}, "
    "accept rate: 0.45, cuda graph: True, gen throughput (token/s): 512.00, #queue-req: 0, "
)


class Engine:
    """Answers what a test puts in; its counters grow by one look's worth of steps each time they are asked for."""

    def __init__(self):
        self.answers, self.asked, self.length = {}, [], None
        engine, self.looks = self, 0

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                engine.asked.append(self.path)
                content = engine.metrics() if self.path == "/metrics" else engine.answers.get(self.path)
                data = (
                    b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
                )
                self.send_response(404 if content is None else 200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer  # noqa: N815 - names of the base class

            def log_message(self, *_words):
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def metrics(self):
        if self.length is None:
            return None
        self.looks += 1
        steps = 200 * self.looks
        rows = (
            ("spec_verify_calls_total", steps),
            ("generation_tokens_total", round(steps * self.length)),
            ("num_requests_total", self.looks),
            ("spec_accept_length", self.length),
        )
        kinds = {"spec_accept_length": "gauge"}
        return "".join(
            f'# TYPE sglang:{name} {kinds.get(name, "counter")}\nsglang:{name}{{model_name="m"}} {value}\n'
            for name, value in rows
        ).encode()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.close()


@pytest.fixture
def naps(monkeypatch):
    taken = []
    monkeypatch.setattr(doctor_command.time, "sleep", taken.append)
    return taken


@pytest.fixture
def doctor(engine, naps, capsys):
    def run(*words):
        code = main.main(["doctor", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def scene(tmp_path, engine):
    made = scenes.Scene(tmp_path)

    def up(length=None, **info):
        made.info |= info
        made.write()
        engine.answers["/server_info"] = json.loads(json.dumps(made.server_info()))
        engine.length = length
        return made

    made.up = up
    return made


def test_a_drafter_that_is_never_accepted_and_why(scene, engine, doctor):
    scene.config["eagle_config"][IDS] = [2, 16, 29]
    scene.states = [{"avg_spec_accept_length": 1.01}]
    scene.up(1.01)
    code, text, _ = doctor("--url", engine.url, "--seconds", "600")
    assert code == 3
    assert text.startswith("CAUSE FOUND  drafter ")
    assert "acceptance: 1.01 tokens per step seen" in text
    assert "more than 50% of the promised gain is missing" in " ".join(text.split())
    assert text.index("1. CAPTURE_LAYERS  proved") < text.index("could not be looked at")
    assert "boundary 2 (output of layer 1) becomes boundary 3 (output of layer 2)" in " ".join(text.split())
    assert "next      Set eagle_config" in text
    assert 50 < engine.looks < 600  # no longer than the verdict takes


def test_a_right_pair_that_is_accepted_as_promised(scene, engine, doctor, naps):
    scene.up(3.8)
    code, text, _ = doctor("--url", engine.url, "--seconds", "300", "--json")
    found = json.loads(text)
    assert (code, found["exit_code"], found["word"]) == (0, 0, "nothing wrong found")
    assert found["schema"] == "drafters.diagnosis.v1"
    assert found["acceptance"]["word"] == "as promised"
    assert found["causes"] == []
    assert all(set(one) == {"what", "why", "settle", "decides"} for one in found["open"])
    assert found["open"]
    assert naps.count(1.0) == len(naps) == engine.looks - 1  # no longer than the verdict takes
    assert 49 < len(naps) < 300
    assert found["engine"] == "sglang 0.5.23"
    assert "launch_command" not in text


def test_degraded_acceptance_of_a_right_pair_points_at_what_differs(scene, engine, doctor, tmp_path):
    scene.manifest["acceptance"][0]["target_quantization"] = "fp8"
    scene.up()
    code, text, _ = doctor("--url", engine.url, "--log", log(tmp_path, *decode("2.10", 1200)), "--json")
    found = json.loads(text)
    assert (code, found["acceptance"]["word"]) == (3, "degraded")
    assert [one["code"] for one in found["causes"]] == ["TARGET_QUANTISATION_DIFFERS"]
    assert {one["confidence"] for one in found["causes"]} == {"possible"}


def test_the_engines_own_mean_alone_settles_nothing(scene, engine, doctor):
    scene.up()
    code, text, _ = doctor("--url", engine.url, "--json")
    found = json.loads(text)
    assert (code, found["word"], found["acceptance"]["word"]) == (5, "cannot be told", "too little seen")
    assert found["context"]["acceptance from"].startswith("the engine's own mean since its start")
    assert next(one for one in found["open"] if one["decides"])["settle"]


def test_an_engine_that_tells_nothing_is_never_called_right(scene, engine, doctor):
    scene.states = []
    scene.up()
    code, text, _ = doctor("--url", engine.url)
    assert code == 5
    assert "acceptance: it tells no counters, and it tells no mean of its own" in text
    assert "--enable-metrics" in text


def test_counters_that_stand_still_are_no_acceptance(scene, engine, doctor, monkeypatch):
    scene.states = []
    scene.up(2.8)
    still = engine.metrics()
    monkeypatch.setattr(engine, "metrics", lambda: still)
    code, text, _ = doctor("--url", engine.url, "--seconds", "3")
    assert code == 5
    assert "no verify step was counted in 3 s" in text


def test_simulated_acceptance_voids_the_observation(scene, engine, doctor):
    scene.states = [{"avg_spec_accept_length": 3.0, "env_vars": {"SGLANG_SIMULATE_ACC_LEN": "3"}}]
    scene.up(3.0)
    code, text, _ = doctor("--url", engine.url, "--json")
    found = json.loads(text)
    assert code == 3
    assert found["causes"][0]["code"] == "ACCEPTANCE_SIMULATED"
    assert found["acceptance"]["word"] == "too little seen"
    assert "made up" in found["acceptance"]["reason"]


def test_the_main_path_as_a_process(scene, engine, drafters, tmp_path):
    scene.config["eagle_config"][IDS] = [2, 16, 29]
    scene.up()
    done = drafters("doctor", "--url", engine.url, "--seconds", "0", "--json", variables={"HOME": str(tmp_path)})
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert [one["code"] for one in found["causes"]] == ["CAPTURE_LAYERS"]
    assert found["exit_code"] == 3


def test_a_stored_version_is_its_contract(scene, engine, doctor, tmp_path, capsys):
    scene.write()
    os.remove(os.path.join(scene.drafter, "drafters-manifest.json"))
    words = ["--name", "head", "--version", "1.0", "--target", scene.target_path, "--boundaries", "2,16,29"]
    data = ["--data", str(tmp_path / "registry")]
    assert main.main(["publish", scene.drafter, *words, *data]) == 0
    capsys.readouterr()
    with closing(connect(Parsed({"--data": data[1]}, (), None))) as backend:
        backend.add_acceptance("head@1.0", Acceptance(length=2.8, steps=3, topk=1, draft_tokens=4))
    scene.config["eagle_config"][IDS] = [2, 16, 29]  # what is served is another drafter than the stored one
    scene.up()
    code, text, _ = doctor("head@1.0", "--url", engine.url, "--seconds", "0", "--json", *data)
    found = json.loads(text)
    assert code == 3
    assert found["drafter"] == "head@1.0"
    assert found["context"]["contract from"] == "head@1.0"
    assert found["acceptance"]["promised"] == 2.8  # attached to the version, and in no manifest
    named = {one["code"]: one for one in found["causes"]}
    assert "DRAFT_OTHER" in named
    assert "config.json" in named["DRAFTER_CHANGED"]["message"]
    assert "drafters pull head@1.0" in named["DRAFTER_CHANGED"]["next"]
    told = json.dumps(named["CAPTURE_LAYERS"])
    assert "boundaries 2, 16, 29 (outputs of layers 1, 15, 28)" in told
    assert "boundaries 3, 17, 30 (outputs of layers 2, 16, 29)" in told


@pytest.mark.parametrize(
    ("ids", "own", "wrong"),
    [([1, 15, 28], (), False), ([0, 14, 27], (), True), ([0, 14, 27], (1, 15, 28), False)],
    ids=["right by hand", "wrong by hand", "another version, with a record of its own"],
)
def test_the_layers_that_are_captured_are_those_of_the_files_that_the_engine_loads(
    ids, own, wrong, scene, engine, doctor, tmp_path, capsys
):
    del scene.config["eagle_config"][IDS]  # the trainer wrote none, and an operator does by hand
    scene.write()
    os.remove(os.path.join(scene.drafter, "drafters-manifest.json"))
    words = ["--name", "head", "--version", "1.0", "--target", scene.target_path, "--boundaries", "2,16,29"]
    data = ["--data", str(tmp_path / "registry")]
    assert main.main(["publish", scene.drafter, *words, *data]) == 0
    capsys.readouterr()
    scene.config["eagle_config"][IDS] = ids
    scene.manifest["layout"]["boundaries"] = list(own)
    scene.up()
    if not own:
        os.remove(os.path.join(scene.drafter, "drafters-manifest.json"))
    code, text, _ = doctor("head@1.0", "--url", engine.url, "--seconds", "0", "--json", *data)
    named = {one["code"]: one for one in json.loads(text)["causes"]}
    assert code == 3
    assert "DRAFT_OTHER" in named
    assert ("CAPTURE_LAYERS" in named) is wrong
    if wrong:
        assert "boundaries 1, 15, 28 (outputs of layers 0, 14, 27)" in json.dumps(named["CAPTURE_LAYERS"])


@pytest.mark.parametrize(("name", "code"), [("right", 5), ("next", 3)])
def test_states_of_a_canary_are_held_against_the_fingerprint(name, code, engine, doctor, tmp_path):
    with open(_STATES, encoding="utf-8") as file:
        recorded = json.load(file)
    kept = copy.deepcopy(recorded[name])
    engine.answers = {"/server_info": kept["info"], "/generate": kept["generate"]}
    document = {"schema": "drafters.manifest.v1", "method": "EAGLE3", "layout": {"boundaries": [1, 3, 5]}}
    document["state_fingerprint"] = recorded["state_fingerprint"]
    (tmp_path / "drafters-manifest.json").write_text(json.dumps(document))
    found_code, text, _ = doctor(tmp_path, "--url", engine.url, "--json")
    found = json.loads(text)
    assert found_code == code
    if code == 3:
        cause = found["causes"][0]
        assert (cause["code"], cause["confidence"]) == ("STATES_DIFFER", "proved")
        assert "boundaries 2, 4, 6 (outputs of layers 1, 3, 5), not boundaries 1, 3, 5" in cause["message"]
        assert "drafters verify" in cause["next"]
    else:
        assert found["causes"] == []
        assert "the states of 3 taps by their numbers (drafters verify)" in found["checked"]


def test_vllm_is_looked_at_as_far_as_it_tells(engine, doctor):
    engine.answers = {"/version": {"version": "0.33.0"}, "/v1/models": {"data": [{"id": "m", "root": "/models/m"}]}}
    code, text, _ = doctor("--url", engine.url, "--json")
    found = json.loads(text)
    assert (code, found["engine"], found["target"]) == (5, "vllm 0.33.0", "/models/m")
    what = {one["what"]: one for one in found["open"]}
    assert "drafters resolve REFERENCE --engine vllm==0.33.0" in what["the check of its launch"]["settle"]


def log(tmp_path, *lines):
    path = tmp_path / "engine.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def decode(length, count=120):
    return [LINE.format(at % 60, length).replace("#token: 4096", f"#token: {4096 + at}") for at in range(count)]


def test_lines_that_a_collector_wrote_several_times_are_one_report_each(scene, doctor, tmp_path):
    once = decode("2.10", 30)
    for lines in (once, once * 8):
        path = log(tmp_path, *lines)
        _, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--", *scene.launch())
        assert "30 decode lines of" in " ".join(text.split())


def test_a_log_and_its_launch(scene, doctor, tmp_path):
    scene.config["eagle_config"][IDS] = [2, 16, 29]
    scene.write()
    path = log(tmp_path, *decode("1.02", 600))
    code, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--", *scene.launch())
    assert code == 3
    assert "1. CAPTURE_LAYERS  proved" in text
    assert "never accepted" in text
    assert "600 decode lines of" in " ".join(text.split())


def test_a_right_launch_whose_log_is_as_promised(scene, doctor, tmp_path):
    scene.write()
    path = log(tmp_path, *decode("3.40"))
    code, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--json", "--", *scene.launch())
    assert (code, json.loads(text)["acceptance"]["word"]) == (0, "as promised")


def test_a_log_from_standard_input(scene, doctor, monkeypatch):
    scene.write()
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(decode("3.40"))))
    code, text, _ = doctor("--log", "-", "--engine", "sglang==0.5.23", "--", *scene.launch())
    assert code == 0
    assert "120 decode lines of standard input" in text


def test_a_log_beside_the_engine(scene, engine, doctor, tmp_path):
    scene.up(2.8)
    path = log(tmp_path, *decode("1.01"))
    code, text, _ = doctor("--url", engine.url, "--log", path)
    assert code == 3
    assert "UNEXPLAINED" in text
    assert engine.looks == 0


def test_what_the_log_says_is_in_force_beats_the_launch(scene, doctor, tmp_path):
    scene.write()
    said = "[2026-11-30 03:00:00] server_args=ServerArgs(model_path='/m', speculative_algorithm=None, port=1)"
    path = log(tmp_path, said)
    code, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--", *scene.launch())
    assert code == 3
    assert "1. SPECULATION_OFF  seen" in text
    assert "launched with --speculative-algorithm EAGLE3" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to look at"),
        (["--url", "http://localhost:1", "--", "python"], "state the same thing"),
        (["--log", "/nowhere.log"], "no launch command"),
        (["--log", "/nowhere.log", "--", "sglang", "serve", "--model-path", "m"], "does not exist"),
        (["--url", "http://localhost:1", "--seconds", "x"], "--seconds is 'x'"),
        (["no such thing", "--url", "http://localhost:1"], "neither a directory nor a reference"),
    ],
)
def test_what_is_no_question(words, told, doctor):
    code, _, error = doctor(*words)
    assert code == 2
    assert told in error


def test_an_engine_that_does_not_answer(engine, doctor):
    url = engine.url
    engine.close()
    code, _, error = doctor("--url", url)
    assert code == 6
    assert "does it run?" in error
    engine.__init__()  # for the fixture's end


def test_a_layout_on_the_word_of_whoever_asks(scene, engine, doctor):
    del scene.manifest["layout"]
    scene.up()
    words = ("--url", engine.url, "--seconds", "0", "--json")
    right = json.loads(doctor(*words, "--output-ids", "1,15,28")[1])
    wrong = json.loads(doctor(*words, "--boundaries", "3,17,30")[1])
    assert right["causes"] == []
    assert [one["code"] for one in wrong["causes"]] == ["CAPTURE_LAYERS"]
    assert wrong["context"]["stated by"] == "option: --boundaries 3,17,30"


@pytest.mark.parametrize(("kind", "code"), [("right", 0), ("simulated", 3)])
def test_what_a_real_engine_told(kind, code, scene, engine, doctor, tmp_path):
    """Arguments in force and decode lines of SGLang 0.5.23 as it ran, with the paths of files that are here."""
    with open(
        os.path.join(os.path.dirname(_STATES), "..", "acceptance", "sglang-0.5.23.json"), encoding="utf-8"
    ) as file:
        recorded = json.load(file)[kind]
    del scene.manifest["acceptance"]
    scene.dtype = "F32"
    scene.config["torch_dtype"] = "float32"
    scene.write()
    told = json.dumps(recorded["before"]).replace("/models/target", scene.target_path)
    engine.answers["/server_info"] = json.loads(told.replace("/models/drafter", scene.drafter))
    path = log(tmp_path, *recorded["log"] * 30)
    found_code, text, _ = doctor("--url", engine.url, "--log", path, "--json")
    found = json.loads(text)
    assert found_code == code, found["open"]
    assert [one["code"] for one in found["causes"]] == ([] if kind == "right" else ["ACCEPTANCE_SIMULATED"])


def test_simulation_in_the_environment_of_the_process_that_listens(scene, engine, doctor, monkeypatch):
    """The environment is that of whatever listens on that port: here the tests' own."""
    scene.up()
    monkeypatch.setattr(
        "drafter_cli.observing.environment.environments", lambda _port: ({"SGLANG_SIMULATE_ACC_LEN": "2.5"}, {"A": "b"})
    )
    code, text, _ = doctor("--url", engine.url, "--seconds", "0", "--json")
    found = json.loads(text)
    assert code == 3
    assert [one["code"] for one in found["causes"]] == ["ACCEPTANCE_SIMULATED"]
    assert "made up" in found["acceptance"]["reason"]
    assert not any("simulated" in one["what"] for one in found["open"])


def test_an_environment_that_cannot_be_read_is_said(scene, engine, doctor, monkeypatch):
    scene.up()
    monkeypatch.setattr("drafter_cli.observing.environment.environments", lambda _port: None)
    _, text, _ = doctor("--url", engine.url, "--seconds", "0", "--json")
    assert "whether acceptance is simulated" in {one["what"] for one in json.loads(text)["open"]}


def test_a_log_is_judged_by_its_last_hour(scene, doctor, tmp_path):
    """A day of good lines does not hide the hour that is bad."""
    scene.write()
    good = [line.replace("11-30 03", f"11-29 {hour:02}") for hour in range(20) for line in decode("3.40", 60)]
    path = log(tmp_path, *good, *decode("1.02", 600))
    code, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--json", "--", *scene.launch())
    found = json.loads(text)
    assert (code, found["acceptance"]["never_accepted"]) == (3, True)
    assert found["acceptance"]["readings"] == 600


def test_one_rank_that_is_never_accepted_is_named(scene, doctor, tmp_path):
    scene.write()
    lines = [
        line.replace("] Decode", f" DP{rank}] Decode")
        for rank, length in enumerate(("3.40", "1.02"))
        for line in decode(length, 900)
    ]
    path = log(tmp_path, *sorted(lines))
    code, text, _ = doctor("--log", path, "--engine", "sglang==0.5.23", "--json", "--", *scene.launch())
    found = json.loads(text)
    assert code == 3
    assert found["acceptance"]["reason"].startswith("rank 1: never accepted")


def test_conditions_other_than_the_promises_are_named(scene, engine, doctor, tmp_path):
    scene.manifest["acceptance"][0] |= {"dataset": "mt-bench", "engine": "sglang 0.5.20"}
    scene.up()
    code, text, _ = doctor("--url", engine.url, "--log", log(tmp_path, *decode("2.10", 1200)), "--json")
    found = json.loads(text)
    assert (code, [one["code"] for one in found["causes"]]) == (3, ["CONDITIONS_DIFFER"])
    assert "0.5.20" in found["causes"][0]["message"]
    assert "mt-bench" not in found["causes"][0]["message"]  # what is generated here, nothing says
    assert "mt-bench" in next(one["why"] for one in found["open"] if one["what"] == "the promise's conditions")


def test_without_the_registry_what_was_pulled_is_the_contract(scene, engine, doctor, tmp_path, monkeypatch, capsys):
    scene.write()
    os.remove(os.path.join(scene.drafter, "drafters-manifest.json"))
    words = ["--name", "head", "--version", "1.0", "--target", scene.target_path, "--boundaries", "2,16,29"]
    data = ["--data", str(tmp_path / "registry")]
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    assert main.main(["publish", scene.drafter, *words, *data]) == 0
    assert main.main(["pull", "head@1.0", *data]) == 0
    capsys.readouterr()
    scene.up()
    os.remove(os.path.join(scene.drafter, "drafters-manifest.json"))
    code, text, _ = doctor(
        "head@1.0", "--url", engine.url, "--seconds", "0", "--json", "--registry", "http://127.0.0.1:9"
    )
    found = json.loads(text)
    assert code == 5
    assert any("promises attached to the version" in one["what"] for one in found["open"])
    assert "all 2 files of the drafter by their digests" in found["checked"]


def test_counters_that_cannot_be_read_leave_the_rest(scene, engine, doctor, monkeypatch):
    scene.config["eagle_config"][IDS] = [2, 16, 29]
    scene.states = []
    scene.up(2.8)
    monkeypatch.setattr(engine, "metrics", lambda: b"sglang:spec_accept_length{} -3\n")
    code, text, _ = doctor("--url", engine.url, "--json")
    found = json.loads(text)
    assert (code, found["causes"][0]["code"]) == (3, "CAPTURE_LAYERS")
    assert "spec_accept_length" in next(one["why"] for one in found["open"] if one["what"] == "acceptance")


def test_an_engine_that_was_started_again_meanwhile_begins_anew(scene, engine, doctor, monkeypatch):
    """What was counted before a restart is of another engine."""
    scene.up(1.01)
    real, looks = engine.metrics, []

    def metrics():
        looks.append(1)
        if len(looks) == 30:  # another drafter, and the counters begin again
            engine.looks, engine.length = 0, 3.8
        return real()

    monkeypatch.setattr(engine, "metrics", metrics)
    code, text, _ = doctor("--url", engine.url, "--seconds", "400", "--json")
    found = json.loads(text)
    assert (code, found["acceptance"]["word"]) == (0, "as promised")
    assert found["context"]["acceptance from"].startswith("/metrics since the engine was started again")
    assert found["acceptance"]["seen"] > 3.7


def test_another_release_than_the_engine_says(scene, engine, doctor):
    """A fork with a version of its own is looked at by the release that it is made from."""
    scene.config["eagle_config"][IDS] = [2, 16, 29]
    scene.up(version="0.5.23+fork")
    words = ("--url", engine.url, "--seconds", "0", "--json")
    unknown = json.loads(doctor(*words)[1])
    known = json.loads(doctor(*words, "--engine", "sglang==0.5.23")[1])
    assert unknown["causes"] == []
    assert any("0.5.23+fork" in one["why"] for one in unknown["open"] if one["decides"])
    assert [one["code"] for one in known["causes"]] == ["CAPTURE_LAYERS", "CONDITIONS_DIFFER"]
    assert known["context"]["engine from"] == "option --engine"


def test_a_layout_on_word_counts_where_the_target_is_only_recorded(scene, engine, doctor):
    del scene.manifest["layout"]
    scene.manifest["target"] |= {"architecture": "LlamaForCausalLM", "model_type": "llama", "vocab_size": 256}
    scene.up(model_path="/elsewhere/target")
    words = (scene.drafter, "--url", engine.url, "--seconds", "0", "--json")
    found = json.loads(doctor(*words, "--boundaries", "3,17,30")[1])
    assert found["causes"][0]["code"] == "CAPTURE_LAYERS"
    assert found["context"]["stated by"] == "option: --boundaries 3,17,30"
