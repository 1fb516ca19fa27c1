"""The other commands as processes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from drafter_cli.errors import EXIT_CODES
from drafter_cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(drafters, name):
    done = drafters(*name.split(), "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: drafters {name}")
    assert "examples:" in done.stdout
    assert "--json" in done.stdout
    assert done.stderr == ""


def test_the_program_explains_itself(drafters):
    for argv in ([], ["--help"], ["help"]):
        done = drafters(*argv)
        assert done.returncode == 0
        for name in COMMANDS:
            assert name in done.stdout
        for code, meaning in EXIT_CODES:
            assert f"{code}" in done.stdout
            assert meaning in done.stdout
    assert drafters("help", "check").stdout == drafters("check", "--help").stdout
    assert drafters("--version").stdout.startswith("drafters ")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["chekc"], "check"),
        (["--jsn"], "--help"),
        (["engine", "lst"], "engine list"),
        (["engine", "show", "0.5.9", "--targt", "x"], "--target"),
        (["inspect"], "inspect PATH"),
        (["inspect", "/nowhere"], "/nowhere"),
        (["inspect", ".", "--layers", "many"], "--layers 61"),
        (["explain", "CAPTURE_LAYER"], "CAPTURE_LAYERS"),
        (["engine", "scan", "/nowhere.whl"], "/nowhere.whl"),
        (["engine", "show", "vllm==0.9"], "sglang==VERSION"),
        (["engine", "show", "0.5.9", "--target", "LlamaForCausaLM"], "LlamaForCausalLM"),
        (["check", "python", "-m", "sglang.launch_server"], "-- python -m sglang.launch_server"),
    ],
)
def test_usage_errors_exit_with_2_and_name_the_way_out(drafters, argv, hint):
    done = drafters(*argv)
    assert done.returncode == 2, done.stderr
    assert hint in done.stderr
    assert done.stdout == ""


def test_errors_are_documents_with_json(drafters):
    done = drafters("inspect", "/nowhere", "--json")
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode == 2
    assert "/nowhere" in document["error"]["message"]
    assert done.stderr == ""


def test_inspect(bench, drafters):
    done = drafters("inspect", bench.right, "--layers", "61")
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert "EAGLE3" in flat
    assert "21504" in flat
    assert "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)" in flat
    facts = json.loads(drafters("inspect", bench.right, "--target", bench.target, "--json").stdout)
    assert facts["method"] == "EAGLE3"
    assert facts["fc"]["in_width"] == 21504
    assert facts["fc"]["taps"] == 3


def test_inspect_refuses_pickle_and_says_how_to_convert(bench, drafters):
    os.remove(os.path.join(bench.right, "model.safetensors"))
    with open(os.path.join(bench.right, "pytorch_model.bin"), "wb") as file:
        file.write(b"\x80\x04never read")
    done = drafters("inspect", bench.right)
    assert done.returncode == 3
    assert "safetensors" in done.stderr


def test_inspect_fails_where_config_and_tensors_contradict_each_other_and_names_both(bench, drafters):
    config_file = os.path.join(bench.right, "config.json")
    with open(config_file, encoding="utf-8") as file:
        config = json.load(file)
    with open(config_file, "w", encoding="utf-8") as file:
        json.dump(config | {"draft_vocab_size": 500}, file)
    done = drafters("inspect", bench.right)
    assert done.returncode == 7
    flat = " ".join(done.stdout.split())
    assert "draft_vocab_size = 500" in flat
    assert "lm_head.weight [163840, 7168]" in flat
    assert drafters("inspect", bench.right, "--json").returncode == 7


def test_inspect_says_that_a_header_is_broken(bench, drafters):
    with open(os.path.join(bench.right, "model.safetensors"), "wb") as file:
        file.write(b"\xff" * 64)
    done = drafters("inspect", bench.right)
    assert done.returncode == 7
    assert "model.safetensors" in done.stderr


def test_explain(drafters):
    listed = drafters("explain")
    assert listed.returncode == 0
    codes = [line.split()[0] for line in listed.stdout.splitlines()]
    assert len(codes) == len(set(codes)) > 20
    for code in codes[:3]:
        assert code in drafters("explain", code.lower()).stdout
    documents = json.loads(drafters("explain", "--json").stdout)
    assert [document["code"] for document in documents] == codes


#: Releases of vLLM whose profiles are shipped.
VLLM = ("0.11.0", "0.18.0", "0.22.0", "0.29.0", "0.33.0")


def test_engine_list_names_every_shipped_release_oldest_first(drafters):
    done = drafters("engine", "list")
    stable = (ROOT / "contracts" / "stable-releases" / "sglang.txt").read_text().split()
    known = [*(f"sglang=={version}" for version in stable), *(f"vllm=={version}" for version in VLLM)]
    assert done.stdout.split() == known
    listed = json.loads(drafters("engine", "list", "--json").stdout)
    assert [f"{entry['engine']}=={entry['release']}" for entry in listed] == known


def test_engine_show_and_diff_tell_that_an_upgrade_moves_the_capture(drafters):
    before = drafters("engine", "show", "0.5.12.post1", "--target", "DeepseekV3ForCausalLM")
    after = drafters("engine", "show", "sglang==0.5.23", "--target", "DeepseekV3ForCausalLM")
    assert before.returncode == after.returncode == 0, before.stderr + after.stderr
    assert "first==1" not in before.stdout
    assert "first==1" in after.stdout
    done = drafters("engine", "diff", "0.5.12.post1", "0.5.23")
    assert done.returncode == 0, done.stderr
    assert any("DeepseekV3ForCausalLM" in line for line in done.stdout.splitlines())
    assert json.loads(drafters("engine", "diff", "0.5.9", "0.5.9", "--json").stdout)["changes"] == []


def test_engine_show_of_a_release_without_profile(drafters):
    done = drafters("engine", "show", "0.0.1")
    assert done.returncode == 5
    assert "0.0.1" in done.stderr


def test_a_profile_file_can_be_shown_and_compared(drafters, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(drafters("engine", "show", "0.5.9", "--json").stdout)
    done = drafters("engine", "diff", path, "0.5.9", "--json")
    assert json.loads(done.stdout)["changes"] == []
    path.write_text("{}")
    assert drafters("engine", "show", path).returncode == 7
    assert drafters("engine", "show", tmp_path / "none.json").returncode == 2


@pytest.mark.parametrize("argv", [["engine", "list"], ["engine", "list", "--json"], ["--help"]])
def test_an_answer_that_cannot_be_written_is_said_in_one_line(drafters, command, argv):
    with open("/dev/full", "w") as full:
        done = subprocess.run([command, *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        wrong = subprocess.run([command, "nothing", *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, wrong.returncode) == (2, 2)
    assert "no command nothing" in wrong.stderr
    assert done.stderr.startswith("drafters: standard output cannot be written: No space left")
    assert "Traceback" not in done.stderr + wrong.stderr


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir])
def test_a_profile_that_is_no_file_is_not_waited_for(drafters, tmp_path, make):
    make(str(tmp_path / "profile.json"))
    done = drafters("engine", "show", str(tmp_path / "profile.json"))
    assert done.returncode == 2
    assert "profile.json cannot be read as a profile: not a regular file" in done.stderr
