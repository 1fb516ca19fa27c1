"""`drafters resolve --engine vllm==V`: the real command on a registry of its own, and the files that its flags name."""

from __future__ import annotations

import copy
import json
import os
import shlex
import shutil
import subprocess

import pytest
from small_drafter import CONFIG, TARGET, TENSORS

from drafter_contracts.checkpoint.skeleton import write_skeleton

IDS = "eagle_aux_hidden_state_layer_ids"
#: Outputs of layers 2, 10 and 40, as SGLang numbers them.
TRAINED = [2, 10, 40]


class Stored:
    """A registry with one drafter whose config says what SGLang reads, and nothing that vLLM reads."""

    def __init__(self, folder, run):
        self.run = run
        self.variables = {"DRAFTERS_DATA": str(folder / "data"), "DRAFTERS_CACHE": str(folder / "cache")}
        self.variables |= {"DRAFTERS_URL": None, "DRAFTERS_CONFIG": None, "HOME": str(folder)}
        self.target, self.drafter = str(folder / "target"), str(folder / "drafter")

    def publish(self):
        os.makedirs(self.target)
        with open(os.path.join(self.target, "config.json"), "w", encoding="utf-8") as file:
            json.dump(TARGET, file)
        write_skeleton(self.drafter, CONFIG | {"eagle_config": {IDS: TRAINED}}, TENSORS)
        done = self(
            "publish", self.drafter, "--name", "llama-eagle3", "--version", "1.0.0", "--target", self.target,
            "--output-ids", "2,10,40", "--steps", "3", "--topk", "1", "--draft-tokens", "4", "--alias", "prod",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def __call__(self, *arguments):
        return self.run(*arguments, variables=self.variables)

    def resolve(self, *arguments, engine="vllm==0.33.0"):
        return self("resolve", "llama-eagle3@prod", "--engine", engine, *arguments)


@pytest.fixture(scope="module")
def shared(runner, tmp_path_factory):
    """One registry for all tests."""
    made = Stored(tmp_path_factory.mktemp("vllm"), runner)
    made.publish()
    return made


@pytest.fixture
def stored(shared, tmp_path):
    """The same, with a cache of the test's own."""
    own = copy.copy(shared)
    own.variables = shared.variables | {"DRAFTERS_CACHE": str(tmp_path / "cache")}
    return own


def speculative(done):
    """The option's JSON."""
    assert done.returncode == 0, done.stderr
    option, text = shlex.split(done.stdout)
    assert option == "--speculative-config"
    return json.loads(text)


def test_the_option_names_a_directory_whose_config_both_engines_read_rightly(stored):
    said = speculative(stored.resolve())
    directory = said.pop("model")
    assert said == {"method": "eagle3", "num_speculative_tokens": 3}
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    assert config[IDS] == [3, 11, 41]
    assert config["eagle_config"][IDS] == TRAINED
    with open(os.path.join(directory, "drafters-manifest.json"), encoding="utf-8") as file:
        assert json.load(file)["render"]["engine"] == "vllm 0.33.0"


def test_sglang_is_fed_the_same_layers_by_the_directory_rendered_for_vllm(stored):
    directory = speculative(stored.resolve())["model"]
    launch = ["python", "-m", "sglang.launch_server", "--model-path", stored.target]
    launch += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", directory]
    launch += ["--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    done = stored("check", "--engine", "sglang==0.5.23", "--json", "--", *launch)
    verdict = json.loads(done.stdout)
    assert verdict["decision"] in {"allow", "warn"}, verdict
    assert "3, 11, 41" in verdict["context"]["captures"]


def test_json_carries_the_config_and_why(stored):
    done = stored.resolve("--json")
    told = json.loads(done.stdout)
    assert told["engine"] == "vllm 0.33.0"
    assert told["config"][IDS] == [3, 11, 41]
    assert any(change.startswith(IDS) for change in told["config_changes"])
    assert {"V1 captures", "V2 captures"} <= set(told["verdict"]["context"])


def test_shell_and_env_are_read_back(stored):
    line = stored.resolve("--format", "shell").stdout
    script = f'{line}\nprintf "%s\\n" "${{DRAFTERS_ARGS[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    option, text = done.stdout.splitlines()
    pairs = dict(one.split("=", 1) for one in stored.resolve("--format", "env").stdout.splitlines())
    assert option == "--speculative-config"
    assert pairs["DRAFTERS_RESOLVED_DRAFT_PATH"] == json.loads(text)["model"]
    assert pairs["DRAFTERS_RESOLVED_ENGINE"] == "vllm 0.33.0"


def test_yaml_is_refused_with_the_form_to_use_instead(stored):
    done = stored.resolve("--format", "yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--format args" in done.stderr


def test_a_release_that_reads_no_ids_is_refused(stored):
    done = stored.resolve(engine="vllm==0.11.0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "CAPTURE_LAYERS" in done.stderr
    assert "reads no ids from a drafter's config" in done.stderr


def test_a_tree_cannot_be_said_to_vllm(stored):
    done = stored.resolve("--topk", "4")
    assert (done.returncode, done.stdout) == (3, "")
    assert "SPECULATION_TREE" in done.stderr


def test_a_release_of_which_nothing_is_known_is_undecided_and_names_the_known(stored):
    done = stored.resolve(engine="vllm==0.12.0")
    assert (done.returncode, done.stdout) == (5, "")
    assert "0.33.0" in done.stderr


def test_another_directory_needs_files_that_flags_cannot_give(stored):
    done = stored.resolve("--draft-path", "/models/drafter")
    assert (done.returncode, done.stdout) == (3, "")
    assert "other files" in done.stderr


def test_where_no_other_files_are_needed_any_path_will_do(stored):
    done = stored("resolve", "llama-eagle3@prod", "--engine", "vllm==0.33.0", "--json")
    config = json.loads(done.stdout)["config"]
    write_skeleton(stored.drafter + "2", config, TENSORS)
    done = stored(
        "publish", stored.drafter + "2", "--name", "both-eagle3", "--version", "1.0.0", "--target", stored.target,
        "--output-ids", "2,10,40", "--steps", "3", "--topk", "1", "--draft-tokens", "4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = stored("resolve", "both-eagle3@1.0.0", "--engine", "vllm==0.22.0", "--draft-path", "/models/drafter")
    assert speculative(done)["model"] == "/models/drafter"
    shutil.rmtree(stored.drafter + "2")


def test_offline_the_same_answer_comes_from_the_cache(stored):
    online = stored.resolve().stdout
    offline = stored("resolve", "llama-eagle3@1.0.0", "--engine", "vllm==0.33.0", "--offline")
    assert offline.stdout == online


def test_launches_of_vllm_are_not_judged(stored):
    done = stored("check", stored.drafter, "--engine", "vllm==0.33.0", "--", "vllm", "serve", "M")
    assert done.returncode == 2
    assert "sglang==VERSION" in done.stderr


def test_the_known_releases_are_listed(stored):
    listed = json.loads(stored("engine", "list", "--json").stdout)
    releases = [one["release"] for one in listed if one["engine"] == "vllm"]
    assert releases == ["0.11.0", "0.18.0", "0.22.0", "0.29.0", "0.33.0"]
