"""The examples that turn an engine's answers into capture files, on answers made here."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

import pytest
import torch
from making import architectures
from safetensors.torch import save_file

from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.captures import read_capture
from drafter_contracts.values.targets import run_target

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
N = architectures.LAYERS
TOKENS = [1, 5, 99, 7, 42, 3, 11]


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("llama"))
    architectures.build(folder, "Llama")
    return folder


@pytest.fixture(scope="module")
def run(target):
    return run_target(target, torch.tensor(TOKENS))


@pytest.fixture
def called(monkeypatch, capsys, tmp_path):
    """Runs an example's command line: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(module, *argv):
        monkeypatch.setattr(sys, "argv", ["example", *argv])
        return (module.main(), *capsys.readouterr())

    return call


class Server:
    """Answers as SGLang does, with what the target computed here."""

    def __init__(self, run, boundaries=(), **info):
        self.run = run
        self.boundaries = boundaries
        self.info = {"version": "0.5.23", "dtype": "float32", "aux_hidden_state_capture": None} | info

    def states(self):
        taps = [Tap(b) for b in self.boundaries] or [Tap(N, FINAL_NORM)]
        return torch.cat([self.run.states[tap] for tap in taps], dim=1)

    def __call__(self, url, path, body=None):
        if path == "/get_server_info":
            return self.info
        assert body["input_ids"] == self.run.tokens.tolist()
        choices = self.run.choices.tolist()
        meta = {
            "hidden_states": [self.states().tolist()],
            "input_top_logprobs": [None, *([[-0.1, one, None]] for one in choices[:-1])],
            "output_top_logprobs": [[[-0.1, choices[-1], None]]],
        }
        return {"meta_info": meta}


@pytest.fixture
def sglang(called, monkeypatch, target, tmp_path):
    module = loaded("capture_with_sglang")
    (tmp_path / "ids").write_text(json.dumps(TOKENS))

    def add(server, output="c"):
        monkeypatch.setattr(module, "ask", server)
        return called(module, "add", "--target", target, "--tokens", "ids", "-o", output)

    return add


def launch(ids, method="dflash"):
    return {"aux_hidden_state_capture": method, "return_aux_hidden_state_layer_ids": ids}


def test_launches_of_sglang_add_up_to_one_file(sglang, run):
    """Ids in any order come back ascending, as the release's profile says."""
    assert sglang(Server(run, (1, 3), **launch([2, 0])))[0] == 0
    assert read_capture("c").taps() == (Tap(0), Tap(1), Tap(3))
    assert sglang(Server(run, (2,), **launch([1], "eagle3")))[0] == 0
    code, out, _ = sglang(Server(run))
    assert code == 0
    assert out == "c: 5 states of 7 tokens; missing: boundary 4 (output of layer 3)\n"
    found = read_capture("c")
    assert found.missing() == (Tap(N),)
    assert all(torch.equal(state, run.states[tap]) for tap, state in found.states.items())
    assert torch.equal(found.choices, run.choices)
    assert found.record.made_with == "sglang 0.5.23"


def test_sglang_that_answers_otherwise_than_its_profile_says_is_refused(sglang, run):
    for server, told in (
        (Server(run, (1, 3), **launch([0, 3])), "ValueError|columns"),
        (Server(run, (1,), **launch([0, 1])), "32 columns"),
        (Server(run, (1,), version="9.9.9", **launch([0])), "9.9.9"),
        (Server(run, (N,)), "no final norm"),
    ):
        code, _, error = sglang(server)
        assert code == 1, told
        assert any(word in error for word in told.split("|")), error
        assert not os.path.exists("c")


def test_a_prompt_in_pieces_is_refused(sglang, run):
    server = Server(run, (1,), **launch([0]))
    server.states = lambda: run.states[Tap(1)][2:]
    code, _, error = sglang(server)
    assert code == 1
    assert "--disable-radix-cache" in error


def test_a_file_of_another_run_is_not_added_to(sglang, run, target, tmp_path):
    sglang(Server(run, (1,), **launch([0])))
    with open("c", "rb") as file:
        before = file.read()
    other = run_target(target, torch.tensor([*TOKENS[:-1], 50]))
    for server in (Server(run, (2,), dtype="bfloat16", **launch([1])), Server(other, (2,), **launch([1]))):
        (tmp_path / "ids").write_text(json.dumps(server.run.tokens.tolist()))
        code, _, error = sglang(server)
        assert code == 1
        assert "another target, release, dtype or text" in error
        with open("c", "rb") as file:
            assert file.read() == before


def test_the_plan_names_each_boundary_that_sglang_returns_once(called, target):
    module = loaded("capture_with_sglang")
    code, out, _ = called(module, "plan", "--target", target, "--most", "2")
    assert code == 0
    ids = [line.rpartition("layer-ids ")[2] for line in out.splitlines() if "layer-ids" in line]
    assert ids == ["0 1", "2"]
    assert "# boundaries 1 to 2" in out
    assert "--enable-return-hidden-states" in out
    assert "# not returned: boundaries [0, 4]" in out


@pytest.fixture
def vllm(called, target, run):
    module = loaded("capture_with_vllm")

    def make(states, ids, tokens=TOKENS):
        save_file({"hidden_states": states, "token_ids": torch.tensor(tokens)}, "states")
        ids = [str(one) for one in ids]
        return called(module, "states", "--target", target, "--ids", *ids, "--release", "0.33.0", "-o", "c")

    return make


def test_vllms_extraction_becomes_a_file(vllm, run):
    ids = (0, 2, N)
    code, out, _ = vllm(torch.stack([run.states[Tap(one)].bfloat16() for one in ids], dim=1), ids)
    assert code == 0
    found = read_capture("c")
    assert found.taps() == (Tap(0), Tap(2), Tap(N))
    assert all(torch.equal(state, run.states[tap].bfloat16()) for tap, state in found.states.items())
    assert (found.record.made_with, found.record.dtype, found.choices) == ("vllm 0.33.0", "bfloat16", None)
    assert "3 states of 7 tokens; missing: boundary 1" in out


@pytest.mark.parametrize(
    ("ids", "rows", "told"),
    [
        ((0, 2), 7, "expected [7, 2, 32], got [7, 3, 32]"),
        ((0, 1, 2), 6, "expected [7, 3, 32], got [6, 3, 32]"),
        ((2, 1, 0), 7, "ascending"),
        ((0, 1, 1), 7, "ascending"),
        ((0, 1, 5), 7, "0 to 4"),
        ((-1, 0, 1), 7, "0 to 4"),
    ],
)
def test_an_extraction_of_other_ids_is_refused(vllm, ids, rows, told):
    code, _, error = vllm(torch.ones(rows, 3, 32), ids)
    assert code == 1
    assert told in error
    assert not os.path.exists("c")
