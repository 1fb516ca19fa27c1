"""`drafters capture`: which tokens, which file, and what is said."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import save_file

from drafter_cli import main
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.captures import capture_sha256, read_capture
from drafter_contracts.values.targets import run_target, target_digest


@pytest.fixture
def told(capsys, monkeypatch, tmp_path):
    """Runs the command in an empty folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        code = main.main(["capture", *argv])
        out, error = capsys.readouterr()
        return code, out, error

    return run


@pytest.fixture
def ids(tmp_path):
    (tmp_path / "ids").write_text("5 6 7\n250\t9\n")
    return "ids"


def test_it_writes_what_the_target_computes(told, random_target, ids):
    code, out, error = told("--target", random_target, "--tokens", ids, "-o", "c.safetensors")
    assert (code, out) == (0, "")
    found, run = read_capture("c.safetensors"), run_target(random_target, torch.tensor([5, 6, 7, 250, 9]))
    assert found.tokens.tolist() == [5, 6, 7, 250, 9]
    assert found.missing() == ()
    assert all(torch.equal(found.states[tap], run.states[tap]) for tap in run.taps())
    assert torch.equal(found.choices, run.choices)
    first, second = error.splitlines()
    assert first.startswith(f"c.safetensors: {os.path.basename(random_target)}, transformers ")
    assert second.startswith("  6 layers, 7 boundaries and the final norm, 5 tokens, ")


def test_its_document_has_the_digests(told, random_target, ids):
    code, out, _ = told(
        "--target", random_target, "--tokens", ids, "-o", "c.safetensors", "--json", "--dtype", "bfloat16"
    )
    document = json.loads(out)
    assert code == 0
    assert document.pop("seconds") > 0
    assert document.pop("made_with").startswith("transformers ")
    assert document == {
        "output": "c.safetensors",
        "sha256": capture_sha256("c.safetensors"),
        "bytes": os.path.getsize("c.safetensors"),
        "tokens": 5,
        "given_tokens": 5,
        "model": os.path.basename(random_target),
        "revision": "",
        "reference_sha256": target_digest(random_target),
        "layers": 6,
        "hidden_size": 64,
        "vocab_size": 256,
        "dtype": "bfloat16",
    }


@pytest.mark.parametrize("text", ["[5, 6, 7]", " [5,6,\n7]\n", "5 6 7", "5\n6\n7\n", "5,6,7\n", "5, 6, 7"])
def test_tokens_are_a_list_or_words(told, random_target, tmp_path, text):
    (tmp_path / "t").write_text(text)
    assert told("--target", random_target, "--tokens", "t", "-o", "c")[0] == 0
    assert read_capture("c").tokens.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    "text", ["a b", "[1, 2.5]", "[true]", '["1"]', "{}", "[[1]]", "1.0", "[1", "[9223372036854775808]"]
)
def test_what_is_no_list_of_ids_is_a_usage_error(told, random_target, tmp_path, text):
    (tmp_path / "t").write_text(text)
    code, _, error = told("--target", random_target, "--tokens", "t", "-o", "c")
    assert code == 2
    assert "other than token ids" in error


def test_no_more_tokens_than_the_limit_are_run_and_the_cut_is_told(told, random_target, tmp_path):
    (tmp_path / "t").write_text(json.dumps([number % 256 for number in range(600)]))
    _, _, error = told("--target", random_target, "--tokens", "t", "-o", "c")
    assert read_capture("c").tokens.tolist() == [number % 256 for number in range(512)]
    assert "512 of 600 tokens" in error
    told("--target", random_target, "--tokens", "t", "-o", "c", "--force", "--limit", "7")
    assert len(read_capture("c").tokens) == 7


def test_text_goes_through_the_targets_own_tokenizer(told, random_target, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    target = shutil.copytree(random_target, str(tmp_path / "target"))
    made = Tokenizer(models.WordLevel({"<s>": 1, "one": 10, "two": 20, "?": 0}, unk_token="?"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    made.save(os.path.join(target, "tokenizer.json"))
    with open(os.path.join(target, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}, file)
    (tmp_path / "t").write_text("one two two")
    assert told("--target", target, "--text", "t", "-o", "c")[0] == 0
    assert read_capture("c").tokens.tolist() == [1, 10, 20, 20]


def test_a_target_without_a_tokenizer_wants_ids(told, random_target, ids):
    code, _, error = told("--target", random_target, "--text", ids, "-o", "c")
    assert code == 2
    assert "no tokenizer that can be read" in error
    assert "--tokens FILE" in error


def test_a_samples_tokens_are_taken(told, random_target, tmp_path):
    tokens = torch.arange(40) * 3
    states = {"token_ids": tokens, "hidden_states": torch.randn(40, 3, 64)}
    save_file(states, str(tmp_path / "s.safetensors"))
    code, _, error = told("--target", random_target, "--sample", "s.safetensors", "-o", "c")
    assert code == 0, error
    assert read_capture("c").tokens.tolist() == tokens.tolist()


def test_a_file_that_is_there_is_kept_without_force(told, random_target, ids, tmp_path):
    (tmp_path / "c").write_text("mine")
    code, _, error = told("--target", random_target, "--tokens", ids, "-o", "c")
    assert code == 2
    assert "--force" in error
    assert (tmp_path / "c").read_text() == "mine"
    assert told("--target", random_target, "--tokens", ids, "-o", "c", "--force")[0] == 0
    assert Tap(6, FINAL_NORM) in read_capture("c").states


WRONG = {
    "no target": (("--tokens", "ids", "-o", "c"), "needs --target PATH"),
    "no file": (("--target", ".", "--tokens", "ids"), "needs --output FILE"),
    "no tokens": (("--target", ".", "-o", "c"), "capture needs tokens"),
    "two kinds of tokens": (("--target", ".", "-o", "c", "--tokens", "ids", "--text", "ids"), "both name the tokens"),
    "an entry of a list": (("--target", ".", "-o", "c", "--tokens", "ids", "--entry", "x"), "--entry names a sample"),
    "tokens that are not there": (("--target", ".", "-o", "c", "--tokens", "none"), "--tokens none: No such file"),
    "an empty file": (("--target", ".", "-o", "c", "--tokens", "empty"), "holds no token"),
    "bytes": (("--target", ".", "-o", "c", "--text", "bytes"), "is not UTF-8"),
    "a target that is not there": (("--target", "ORG/NONE", "-o", "c", "--tokens", "ids"), "neither a directory"),
    "a directory as the file": (("--target", ".", "-o", ".", "--tokens", "ids"), "is a directory"),
    "a folder that is not there": (("--target", ".", "-o", "x/c", "--tokens", "ids"), "there is no directory"),
    "a limit of none": (("--target", ".", "-o", "c", "--tokens", "ids", "--limit", "0"), "--limit is '0'"),
    "a limit in words": (("--target", ".", "-o", "c", "--tokens", "ids", "--limit", "all"), "--limit is 'all'"),
    "a dtype": (("--target", ".", "-o", "c", "--tokens", "ids", "--dtype", "int8"), "--dtype is 'int8'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_asked_wrongly_is_a_usage_error_and_no_file(told, ids, tmp_path, monkeypatch, name):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    argv, said = WRONG[name]
    code, _, error = told(*argv)
    assert code == 2
    assert said in error
    assert not os.path.exists("c")


def test_a_target_that_does_not_run_is_told_and_no_file_is_left(told, random_target, ids, tmp_path):
    code, _, error = told("--target", ".", "--tokens", ids, "-o", "c")
    assert code == 7
    assert "config.json" in error
    (tmp_path / "ids").write_text("1 256")
    code, out, _ = told("--target", random_target, "--tokens", "ids", "-o", "c", "--json")
    assert json.loads(out)["error"]["code"] == "CAPTURE_INVALID"
    assert code == 7
    target = shutil.copytree(random_target, str(tmp_path / "target"))
    os.rename(os.path.join(target, "model.safetensors"), os.path.join(target, "pytorch_model.bin"))
    code, _, error = told("--target", target, "--tokens", "ids", "-o", "c")
    assert code == 3
    assert "pickle" in error
    assert sorted(os.listdir()) == ["ids", "target"]


def test_without_the_libraries_it_says_what_to_install(told, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else real(name))
    code, _, error = told("--target", ".", "--tokens", "ids", "-o", "c")
    assert code == 2
    assert "pip install 'drafter-registry[values]'" in error


def test_the_command_itself_writes_nothing_but_what_it_says(drafters, random_target, ids, tmp_path):
    """As a process: no progress bar and no warning of a library on standard error."""
    done = drafters("capture", "--target", random_target, "--tokens", ids, "-o", "c", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2, done.stderr
