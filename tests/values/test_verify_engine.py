"""`drafters verify --url`, against what SGLang 0.5.23 answered: recorded from one on a CPU, replayed here."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from drafter_cli import main
from drafter_cli.engine_request import EngineAddress
from drafter_cli.values import running_engine

with open(
    os.path.join(os.path.dirname(__file__), "..", "data", "states", "sglang-0.5.23.json"), encoding="utf-8"
) as _file:
    RECORDED = json.load(_file)
#: Ids 0, 2, 4: outputs of these layers, for a random Llama of 8 layers and width 64.
TAPS = (1, 3, 5)


class Engine:
    """Answers as a recorded engine did; `asked` keeps what was asked."""

    def __init__(self):
        self.asked, self.headers, self.answers = [], [], {}
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                engine.asked.append((self.command, self.path, json.loads(body) if body else None))
                engine.headers.append(dict(self.headers))
                status, content = engine.answers.get(self.path, (404, {"detail": "Not Found"}))
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
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

    def as_recorded(self, name, **info):
        """Answer as one of the recorded engines; the answer to /generate, to be changed."""
        kept = copy.deepcopy(RECORDED[name])
        self.answers["/server_info"] = (200, kept["info"] | info)
        self.answers["/generate"] = (kept.get("status", 200), kept["generate"])
        self.answers["/model_info"] = (200, {"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
        return kept["generate"]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A drafter's directory with the fingerprint that was made of the same target with transformers."""
    folder = tmp_path_factory.mktemp("drafter")
    document = {"schema": "drafters.manifest.v1", "method": "EAGLE3", "layout": {"boundaries": [5, 1, 3]}}
    document["state_fingerprint"] = RECORDED["state_fingerprint"]
    with open(folder / "drafters-manifest.json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    return str(folder)


@pytest.fixture
def verify(engine, reference, capsys):
    def run(*words, url=engine.url, of=reference):
        code = main.main(["verify", of, "--url", url, *words])
        said = capsys.readouterr()
        return code, said.out if code in (0, 3, 5) else said.err

    return run


def document(verify, expected):
    code, text = verify("--json")
    assert code == expected
    return json.loads(text)


def test_an_engine_that_feeds_the_same_states_is_told_so(engine, verify):
    engine.as_recorded("right")
    code, text = verify()
    assert code == 0
    assert text.startswith("SAME  ")
    assert "sglang 0.5.23 at http://127.0.0.1" in text
    assert text.count("  same ") == 3
    found = document(verify, 0)
    assert (found["schema"], found["asked_ids"]) == ("drafters.verification.v1", [0, 2, 4])
    assert [one["boundary"] for one in found["taps"]] == list(TAPS)


def test_the_probe_is_asked_for_alone_and_never_from_the_cache(engine, verify):
    engine.as_recorded("right")
    verify()
    verify()
    first, second = (body for _, path, body in engine.asked if path == "/generate")
    assert first["input_ids"] == RECORDED["state_fingerprint"]["tokens"]
    assert first["sampling_params"]["max_new_tokens"] == 1
    assert first["return_hidden_states"] is True
    assert first["extra_key"] != second["extra_key"]
    assert {path for _, path, _ in engine.asked} == {"/server_info", "/generate"}
    assert all("authorization" not in {name.lower() for name in one} for one in engine.headers)


def test_ids_that_are_off_by_one_are_told_with_what_they_are(engine, verify):
    engine.as_recorded("next")
    code, text = verify()
    assert code == 3
    assert "boundaries 2, 4, 6 (outputs of layers 1, 3, 5), not boundaries 1, 3, 5 (outputs of layers 0, 2, 4)" in text
    assert "not the same  boundary 3 (output of layer 2)" in text
    assert "it is boundary 4 (output of layer 3)" in text
    assert "the engine was given the ids 1, 3, 5" in text
    found = document(verify, 3)
    assert [one["resembles"]["boundary"] for one in found["taps"]] == [2, 4, 6]


def test_an_engine_that_returns_no_states_is_told_the_flags_with_its_own_ids(engine, verify):
    engine.as_recorded("plain")
    found = document(verify, 5)
    flags = "--enable-return-aux-hidden-states --speculative-algorithm EAGLE3 --return-aux-hidden-state-layer-ids"
    assert found["settle"].endswith(f"{flags} 0 2 4")
    assert [path for _, path, _ in engine.asked] == ["/server_info", "/model_info"]
    engine.answers["/model_info"] = (200, {"architectures": ["DeepseekV3ForCausalLM"]})
    assert document(verify, 5)["settle"].endswith(f"{flags} 3 5 1")  # a first id of 1 would mean outputs there
    engine.answers["/model_info"] = (404, {})
    assert document(verify, 5)["settle"].endswith(f"{flags} IDS, the ids of its numbering")


def test_a_release_without_the_feature_is_told_which_has_it(engine, verify):
    engine.as_recorded("plain", version="0.5.22")
    found = document(verify, 5)
    assert found["settle"].startswith("SGLang 0.5.22 cannot return them, 0.5.23 can; or record the states")


def test_the_older_address_of_what_it_says_is_asked_too(engine, verify):
    engine.as_recorded("right")
    engine.answers["/get_server_info"] = engine.answers.pop("/server_info")
    assert verify()[0] == 0


def test_what_is_no_sglang_cannot_be_asked(engine, verify):
    assert "no SGLang" in document(verify, 5)["reason"]
    engine.answers["/server_info"] = (200, b"<html>")
    assert "no SGLang" in document(verify, 5)["reason"]


def test_an_engine_that_returns_its_last_state_only_is_no_answer(engine, verify):
    answer = engine.as_recorded("right", aux_hidden_state_capture=None, enable_return_hidden_states=True)
    rows = answer["meta_info"]["hidden_states"][0]
    answer["meta_info"]["hidden_states"] = [[row[:64] for row in rows]]
    found = document(verify, 5)
    assert found["reason"] == "it returns the target's last state only"
    assert found["settle"].endswith("0 2 4")


def test_a_refusal_is_passed_on(engine, verify):
    answer = engine.as_recorded("right")
    engine.answers["/generate"] = (400, RECORDED["plain"]["generate"])
    assert answer
    assert "answers 400: The server is not configured to return hidden states" in document(verify, 5)["reason"]


def test_rows_from_a_cache_are_the_probes_end(engine, verify):
    engine.as_recorded("cached")
    found = document(verify, 0)
    assert [one["rows"] for one in found["taps"]] == [1, 1, 1]


def test_rows_that_are_missing_are_no_answer(engine, verify):
    answer = engine.as_recorded("right")
    answer["meta_info"]["hidden_states"] = [answer["meta_info"]["hidden_states"][0][:8]]
    found = document(verify, 5)
    assert found["reason"] == "it returns the states of 8 of 16 tokens, with 0 in its cache"
    answer["meta_info"]["hidden_states"] = None
    assert "of 0 of 16 tokens" in document(verify, 5)["reason"]


def test_chunks_of_a_prefill_are_one_and_a_generated_token_is_none(engine, verify):
    answer = engine.as_recorded("right")
    rows = answer["meta_info"]["hidden_states"][0]
    answer["meta_info"]["hidden_states"] = [rows[:5], rows[5:], rows[0]]
    assert verify()[0] == 0


@pytest.mark.parametrize("kept", [(0, 1), (2, 1, 0, 0)])
def test_more_or_fewer_layers_than_the_drafter_reads_are_named(engine, verify, kept):
    answer = engine.as_recorded("right")
    rows = answer["meta_info"]["hidden_states"][0]
    answer["meta_info"]["hidden_states"] = [[[x for at in kept for x in row[64 * at : 64 * at + 64]] for row in rows]]
    found = document(verify, 3)
    assert found["reason"] == f"there are {len(kept)} states per token where the drafter reads 3"
    assert [one["boundary"] for one in found["chunks"]] == [TAPS[at] for at in kept]
    assert "state 0: boundary" in verify()[1]


def test_another_width_is_another_target(engine, verify):
    answer = engine.as_recorded("right")
    answer["meta_info"]["hidden_states"] = [[row[:100] for row in answer["meta_info"]["hidden_states"][0]]]
    found = document(verify, 3)
    assert found["reason"] == "its states are 100 wide, no multiple of the target's 64"
    answer["meta_info"]["hidden_states"][0][3] = [0.5] * 64
    assert "64 and 100 wide" in document(verify, 3)["reason"]


def test_numbers_that_are_not_finite_are_named(engine, verify):
    answer = engine.as_recorded("right")
    answer["meta_info"]["hidden_states"][0][4][70] = None  # what JSON makes of NaN
    code, text = verify()
    assert code == 7
    assert "boundary 3 (output of layer 2): the states hold numbers that are not finite" in text


def test_states_are_scaled_or_of_other_weights(engine, verify):
    answer = engine.as_recorded("right")
    answer["meta_info"]["hidden_states"] = [[[2 * x for x in row] for row in answer["meta_info"]["hidden_states"][0]]]
    found = document(verify, 3)
    assert [round(one["norm_ratio"], 3) for one in found["taps"]] == [2, 2, 2]
    assert "none of the target's states" in verify()[1] or found["taps"][0]["resembles"].get("is_it")
    assert "its norm is 2 times what it should be" in verify()[1]


def test_weights_that_are_nearly_the_same_cannot_be_told_until_somebody_says_how_near(engine, verify):
    answer = engine.as_recorded("right")
    (rows,) = answer["meta_info"]["hidden_states"]
    answer["meta_info"]["hidden_states"] = [[[x * (1.05 if at % 2 else 0.95) for at, x in enumerate(r)] for r in rows]]
    found = document(verify, 5)
    assert [one["found"] for one in found["taps"]] == ["unknown"] * 3
    _, text = verify()
    assert text.startswith("UNKNOWN  ")
    assert "nearer to this state than to any other" in text
    assert text.count("--tolerance") == 1
    assert verify("--tolerance", "0.1")[0] == 0
    engine.as_recorded("next")
    assert verify("--tolerance", "10")[0] == 3


def test_answers_of_another_kind_or_without_end_are_no_engines(engine, verify, monkeypatch):
    engine.as_recorded("right")
    for body in (b"{", b'{"meta_info": 3}', b'{"meta_info": {"hidden_states": [[["a"]]]}}', b"[" * 100_000):
        engine.answers["/generate"] = (200, body)
        code, text = verify()
        assert code == 6, text
        assert "does not answer as SGLang does" in text
    monkeypatch.setattr(running_engine, "_DOCUMENT", 1000)
    engine.answers["/generate"] = (200, b" " * 2_000_000)
    code, text = verify()
    assert code == 6
    assert "answers with more than" in text


def test_an_engine_that_is_not_there_or_not_up(engine, verify):
    code, text = verify(url="http://127.0.0.1:1")
    assert code == 6
    assert "cannot be reached" in text
    engine.answers["/server_info"] = (503, {"error": {"message": "loading"}})
    code, text = verify()
    assert code == 6
    assert "/server_info answers 503: loading" in text


def test_a_key_goes_with_every_request_and_never_in_the_clear_elsewhere(engine, verify, monkeypatch):
    engine.as_recorded("right")
    engine.answers["/server_info"] = (401, {"error": "Unauthorized"})
    code, text = verify()
    assert code == 2
    assert "DRAFTERS_ENGINE_KEY" in text
    monkeypatch.setenv("DRAFTERS_ENGINE_KEY", "secret")
    engine.as_recorded("right")
    assert verify()[0] == 0
    assert engine.headers[-1]["Authorization"] == "Bearer secret"
    code, text = verify(url="http://engine.example:30000")
    assert code == 2
    assert "unencrypted" in text
    assert "secret" not in text


@pytest.mark.parametrize("url", ["engine:30000", "ftp://engine", "http://", "http://h:x", "http://u@h", "http://h?q=1"])
def test_what_is_no_engines_address(verify, url):
    assert verify(url=url)[0] == 2


def test_what_is_compared_and_how_is_asked_for_exactly(verify, reference, tmp_path, capsys):
    assert main.main(["verify", reference]) == 2
    assert main.main(["verify", reference, "file", "--url", "http://127.0.0.1:1"]) == 2
    for words in (("--tolerance", "0"), ("--tolerance", "nan"), ("--timeout", "soon")):
        assert verify(*words)[0] == 2
    capsys.readouterr()
    assert main.main(["verify", str(tmp_path), "--url", "http://127.0.0.1:1"]) == 5
    assert "drafters fingerprint DRAFTER_DIR" in capsys.readouterr().err
    assert main.main(["verify", str(tmp_path), "--url", "http://127.0.0.1:1", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UNDECIDED"


def test_what_a_reference_may_be(engine, verify, tmp_path):
    engine.as_recorded("right")
    code, text = verify("--data", str(tmp_path / "registry"), of="nobody@1")
    assert code == 6
    assert str(tmp_path / "registry") in text  # the registry was looked for there, not at the engine's address
    code, text = verify("--registry", engine.url, of="nobody@1")
    assert (code, engine.asked[-1][1]) == (2, "/v1/drafters/nobody/versions/1/manifest"), text
    alone = tmp_path / "record.json"
    alone.write_text(json.dumps(RECORDED["state_fingerprint"]))
    assert verify(of=str(alone))[0] == 0
    alone.write_text(json.dumps(RECORDED["state_fingerprint"] | {"landmarks": "AAAA"}))
    assert verify(of=str(alone))[0] == 7
    alone.write_text("{}")
    assert verify(of=str(alone))[0] == 7


def test_an_answer_that_drips_is_not_waited_for(engine, reference, monkeypatch, capsys):
    engine.as_recorded("right")
    ticks = itertools.count(0, 21)  # seconds from one look at the clock to the next
    address = functools.partial(EngineAddress, now=lambda: next(ticks))
    monkeypatch.setattr(running_engine, "EngineAddress", address)
    assert main.main(["verify", reference, "--url", engine.url, "--timeout", "10"]) == 6
    assert "does not answer in time" in capsys.readouterr().err
    assert main.main(["verify", reference, "--url", engine.url, "--timeout", "1000"]) == 0
