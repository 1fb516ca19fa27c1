"""`drafters resolve`, and references in `check` and `guard`: the real command on a registry of its own."""

from __future__ import annotations

import copy
import json
import os
import shlex

import msgspec
import pytest

from drafter_cli.demo_files import drafter_config, target_config
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.store import load_profile

#: The incident's drafter, narrow: hashing 5 GB of zeros would tell nothing more.
WIDTH, VOCABULARY = 16, 256
NARROW = {"hidden_size": WIDTH, "vocab_size": VOCABULARY, "num_attention_heads": 2, "num_key_value_heads": 2}
TENSORS = {
    "fc.weight": (WIDTH, 3 * WIDTH),
    "midlayer.hidden_norm.weight": (WIDTH,),
    "midlayer.input_layernorm.weight": (WIDTH,),
    "midlayer.self_attn.q_proj.weight": (16, 2 * WIDTH),
    "midlayer.self_attn.k_proj.weight": (16, 2 * WIDTH),
    "midlayer.self_attn.v_proj.weight": (16, 2 * WIDTH),
    "midlayer.self_attn.o_proj.weight": (WIDTH, 16),
    "midlayer.post_attention_layernorm.weight": (WIDTH,),
    "midlayer.mlp.gate_proj.weight": (32, WIDTH),
    "midlayer.mlp.up_proj.weight": (32, WIDTH),
    "midlayer.mlp.down_proj.weight": (WIDTH, 32),
    "norm.weight": (WIDTH,),
    "lm_head.weight": (VOCABULARY, WIDTH),
}
AS_23_NEEDS = '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[3,31,59],"use_aux_hidden_state":true}}'
NUMBERS = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")


def write_target(path, **more):
    config = target_config()
    config.get("text_config", config).update(NARROW)
    os.makedirs(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config | more, file)
    return str(path)


class Stored:
    """A registry with the incident's drafter, and what `drafters` says of it."""

    def __init__(self, folder, run):
        self.folder, self.run = folder, run
        folder.mkdir(exist_ok=True)
        self.variables = {"DRAFTERS_DATA": str(folder / "data"), "DRAFTERS_CACHE": str(folder / "cache")}
        self.variables |= {"DRAFTERS_URL": None, "DRAFTERS_CONFIG": None, "HOME": str(folder)}
        self.target = write_target(folder / "target")

    def publish(self):
        directory = str(self.folder / "drafter")
        config = drafter_config((2, 30, 58)) | NARROW
        config |= {"draft_vocab_size": VOCABULARY, "intermediate_size": 32, "head_dim": 8}
        write_skeleton(directory, config, {tensor: ("BF16", shape) for tensor, shape in TENSORS.items()})
        done = self(
            "publish", directory, "--name", "kimi-eagle3", "--version", "1.0.0", "--target", self.target,
            "--output-ids", "2,30,58", "--steps", "3", "--topk", "1", "--draft-tokens", "4", "--alias", "prod",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def __call__(self, *arguments, **variables):
        return self.run(*arguments, variables=self.variables | variables)

    def resolve(self, *arguments, reference="kimi-eagle3@prod", engine="sglang==0.5.23", **variables):
        return self("resolve", reference, *(("--engine", engine) if engine else ()), *arguments, **variables)


@pytest.fixture(scope="module")
def shared(runner, tmp_path_factory):
    """One registry for the tests that only read it."""
    made = Stored(tmp_path_factory.mktemp("resolve"), runner)
    made.publish()
    return made


@pytest.fixture
def stored(shared, tmp_path):
    """The same, with a cache of the test's own."""
    own = copy.copy(shared)
    own.variables = shared.variables | {"DRAFTERS_CACHE": str(tmp_path / "cache")}
    return own


def flags_of(done):
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def test_where_the_alias_pointed_is_told_for_the_log_of_the_start(stored):
    by_alias = stored.resolve()
    reference, _, version = next(line for line in by_alias.stderr.splitlines() if " is " in line).partition(" is ")
    assert reference.startswith("drafters: ")
    assert reference.endswith("@prod")
    exact = stored.resolve(reference=version)
    assert exact.stdout == by_alias.stdout
    assert f" is {version}" not in exact.stderr


def test_a_name_becomes_flags_and_files_for_0_5_23(stored):
    flags = flags_of(stored.resolve())
    assert flags[:2] == ["--speculative-algorithm", "EAGLE3"]
    directory = flags[3]
    assert flags[4:] == [*NUMBERS, "--json-model-override-args", AS_23_NEEDS]
    assert directory.startswith(stored.variables["DRAFTERS_CACHE"])
    assert {"config.json", "model.safetensors", "drafters-manifest.json"} <= set(os.listdir(directory))


def test_0_5_9_is_refused_with_nothing_on_standard_output(stored):
    done = stored.resolve(engine="sglang==0.5.9")
    assert (done.returncode, done.stdout) == (3, "")
    assert "CAPTURE_NO_HOOK" in done.stderr
    assert "from 0.5.10 on" in done.stderr
    assert not os.path.exists(os.path.join(stored.variables["DRAFTERS_CACHE"], "drafters")), "nothing was fetched"


def test_a_refusal_is_one_document_for_a_program(stored):
    done = stored.resolve("--json", engine="sglang==0.5.9")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["error"]["code"]) == (3, 3, "REFUSED")
    assert told["verdict"]["decision"] == "refuse"


def test_a_release_of_which_nothing_is_known_is_undecided(stored):
    done = stored.resolve(engine="sglang==9.9.9")
    assert (done.returncode, done.stdout) == (5, "")
    assert "drafters engine update 9.9.9" in done.stderr


def test_the_flags_pass_the_gate_and_the_drafter_is_found_by_its_directory(stored):
    line = stored.resolve().stdout.strip()
    launch = ["python", "-m", "sglang.launch_server", "--model-path", stored.target, *shlex.split(line)]
    done = stored("check", "--engine", "sglang==0.5.23", "--", *launch)
    assert done.returncode == 0, done.stdout
    assert "manifest" in done.stdout


def test_env_is_lines_that_are_not_quoted(stored):
    lines = dict(line.split("=", 1) for line in stored.resolve("--format", "env").stdout.splitlines())
    assert lines["DRAFTERS_RESOLVED_VERSION"] == "1.0.0"
    assert lines["DRAFTERS_RESOLVED_ENGINE"] == "sglang 0.5.23"
    flags = shlex.split(lines["DRAFTERS_RESOLVED_ARGS"])
    assert flags[3] == lines["DRAFTERS_RESOLVED_DRAFT_PATH"]


def test_yaml_is_a_config_file_of_the_release(stored, tmp_path):
    file = os.path.join(tmp_path, "launch.yaml")
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(stored.resolve("--format", "yaml").stdout)
    launch = ["python", "-m", "sglang.launch_server", "--model-path", stored.target, "--config", file]
    done = stored("check", "--engine", "sglang==0.5.23", "--", *launch)
    assert done.returncode == 0, done.stdout
    assert "EAGLE3" in done.stdout


def test_a_config_of_its_own_comes_with_the_directory(stored, tmp_path):
    """The target's config has the key too: an override would change both."""
    target = write_target(tmp_path / "with-key", eagle_config={"theirs": 1})
    done = stored.resolve("--target", target)
    flags = flags_of(done)
    assert "--json-model-override-args" not in flags
    assert "is set to [3, 31, 59]" in done.stderr
    with open(os.path.join(flags[3], "config.json"), encoding="utf-8") as file:
        assert json.load(file)["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]
    plain = flags_of(stored.resolve())[3]
    assert plain != flags[3]
    assert os.path.samefile(os.path.join(plain, "model.safetensors"), os.path.join(flags[3], "model.safetensors"))
    launch = ["python", "-m", "sglang.launch_server", "--model-path", target, *flags]
    assert stored("check", "--engine", "sglang==0.5.23", "--", *launch).returncode == 0
    unsaid = stored.resolve("--target", target, "--draft-path", "/srv/d")
    assert (unsaid.returncode, unsaid.stdout) == (3, "")
    said = json.loads(stored.resolve("--target", target, "--draft-path", "/srv/d", "--format", "json").stdout)
    assert said["config"]["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]


def test_options_of_ones_own_are_judged_and_not_printed(stored):
    flags = flags_of(stored.resolve("--", "--page-size", "64"))
    assert "--page-size" not in flags
    assert stored.resolve("--", "--no-such-option").returncode == 3


def test_numbers_among_ones_own_options_count_like_wishes(stored):
    flags = flags_of(stored.resolve("--", "--speculative-num-steps", "5"))
    assert flags[4:10] == [*NUMBERS[:1], "5", *NUMBERS[2:5], "6"]
    assert flags == flags_of(stored.resolve("--steps", "5"))
    both = stored.resolve("--steps", "3", "--", "--speculative-num-steps", "5")
    assert (both.returncode, both.stdout) == (2, "")
    assert "steps 3 and --speculative-num-steps 5" in both.stderr


def test_ones_own_options_are_never_overridden_but_refused_and_all_of_them(stored):
    own = ("--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "/models/other")
    overrides = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}
    done = stored.resolve("--json", "--", *own, "--json-model-override-args", json.dumps(overrides))
    told = json.loads(done.stdout)
    assert done.returncode == 3
    found = [one for one in told["verdict"]["findings"] if one["code"] == "OPTION_CONTRADICTS"]
    assert [(one["actual"].split()[0], one["severity"]) for one in found] == [
        ("--speculative-algorithm", "refuse"), ("--speculative-draft-model-path", "refuse"),
        ("--json-model-override-args", "refuse"), ("--json-model-override-args", "refuse"),
    ]  # fmt: skip
    assert "[1,2,3]" in found[2]["actual"]
    assert "[3,31,59]" in found[2]["expected"]
    same = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/srv/d")
    assert flags_of(stored.resolve("--draft-path", "/srv/d", "--", *same))[:4] == list(same)


def test_a_flag_that_a_rule_asks_for_is_printed_and_told(stored):
    done = stored.resolve("--", "--quantization", "fp8")
    assert flags_of(done)[-2:] == ["--speculative-draft-model-quantization", "unquant"]
    assert "--speculative-draft-model-quantization unquant is added" in done.stderr


def test_nothing_is_fetched_where_that_is_not_wanted(stored):
    assert flags_of(stored.resolve("--no-pull"))[3] == "{drafter}"
    assert flags_of(stored.resolve("--draft-path", "/srv/d"))[3] == "/srv/d"
    assert not os.path.exists(os.path.join(stored.variables["DRAFTERS_CACHE"], "drafters"))


def test_offline_an_exact_version_or_digest_is_answered_from_the_cache(stored):
    online = stored.resolve("--format", "json")
    told = json.loads(online.stdout)
    gone = {"DRAFTERS_URL": "http://127.0.0.1:9", "DRAFTERS_DATA": None}
    for reference in ("kimi-eagle3@1.0.0", f"kimi-eagle3@{told['digest']}"):
        for options, variables in ((("--offline",), {}), ((), gone)):
            done = stored.resolve("--format", "json", *options, reference=reference, **variables)
            assert done.returncode == 0, done.stderr
            again = json.loads(done.stdout)
            assert again["flags"] == told["flags"]
            assert again["fingerprint"] == told["fingerprint"]
            assert again["verdict"] == told["verdict"]
            assert "yanked meanwhile" in done.stderr


def test_offline_an_alias_or_what_was_not_pulled_is_unreachable(stored):
    alias = stored.resolve("--offline")
    assert (alias.returncode, alias.stdout) == (6, "")
    assert "kimi-eagle3@VERSION" in alias.stderr
    gone = stored.resolve(DRAFTERS_URL="http://127.0.0.1:9", DRAFTERS_DATA=None)
    assert gone.returncode == 6
    assert "http://127.0.0.1:9 cannot be reached" in gone.stderr
    assert "kimi-eagle3@VERSION" in gone.stderr
    unpulled = stored.resolve("--offline", reference="kimi-eagle3@1.0.0")
    assert unpulled.returncode == 6
    assert "drafters pull kimi-eagle3@1.0.0" in unpulled.stderr


def test_a_yanked_version_resolves_by_its_exact_version_and_says_so(tmp_path, drafters):
    stored = Stored(tmp_path / "registry", drafters)
    stored.publish()
    assert stored("yank", "kimi-eagle3@1.0.0", "--why", "wrong labels").returncode == 0
    assert stored.resolve().returncode == 2
    done = stored.resolve(reference="kimi-eagle3@1.0.0")
    assert os.path.isdir(flags_of(done)[3])
    assert "was yanked: wrong labels" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--steps", "0"), "--steps"),
        (("--format", "xml"), "--format"),
        (("--format", "args", "--json"), "two formats"),
        (("--draft-path", "-x"), "--draft-path"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(stored, arguments, said):
    done = stored.resolve(*arguments)
    assert (done.returncode, said in done.stdout + done.stderr) == (2, True)


def test_the_engine_of_this_environment_is_the_default(stored, bench):
    missing = stored.resolve(engine="", PATH="/nowhere")
    assert missing.returncode == 2
    assert "--engine sglang==VERSION" in missing.stderr
    path = os.pathsep.join([bench.binaries, os.environ["PATH"]])
    done = stored.resolve("--format", "json", engine="", PATH=path, DRAFTERS_CACHE=os.environ["DRAFTERS_CACHE"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["engine"] == "sglang 0.5.12.post1"


def test_an_engine_that_no_registry_knows_is_judged_here_by_the_fetched_files(stored, tmp_path):
    profile = msgspec.structs.replace(load_profile("sglang", "0.5.23"), release="0.5.23+ours")
    file = tmp_path / "ours.json"
    file.write_bytes(msgspec.json.encode(profile))
    published = flags_of(stored.resolve())
    assert flags_of(stored.resolve(engine=str(file))) == published
    unfetched = stored.resolve("--no-pull", engine=str(file))
    assert (unfetched.returncode, unfetched.stdout) == (2, "")
    assert "leave out --no-pull" in unfetched.stderr
    older = msgspec.structs.replace(load_profile("sglang", "0.5.9"), release="0.5.9+ours")
    file.write_bytes(msgspec.json.encode(older))
    refused = stored.resolve(engine=str(file))
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "CAPTURE_NO_HOOK" in refused.stderr


def test_check_and_guard_take_a_reference(stored, bench):
    launch = [bench.python, "-m", "sglang.launch_server", "--model-path", stored.target]
    launch += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/elsewhere", *NUMBERS]
    engine = ("--engine", "sglang==0.5.12.post1")
    good = stored("check", "kimi-eagle3@prod", *engine, "--", *launch)
    assert good.returncode == 0, good.stdout
    assert "kimi-eagle3@prod" in good.stdout
    override = json.loads(AS_23_NEEDS)
    bad = stored(
        "guard", "kimi-eagle3@prod", *engine, "--", *launch, "--json-model-override-args", json.dumps(override)
    )
    assert bad.returncode == 3, bad.stderr
    assert stored("check", "kimi-eagle3@9.9.9", *engine, "--", *launch).returncode == 2
    started = stored("guard", "kimi-eagle3@1.0.0", *engine, "--", *launch, **bench.variables())
    assert started.returncode == 0, started.stderr
    assert bench.started


def test_the_model_path_of_the_launch_is_the_target_that_is_judged(stored, tmp_path):
    other = write_target(str(tmp_path / "other"))
    with open(os.path.join(other, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["text_config"]["num_hidden_layers"] = 27
    with open(os.path.join(other, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    done = stored.resolve("--json", "--", "--model-path", other)
    assert done.returncode == 3
    assert "TARGET_DEPTH" in [one["code"] for one in json.loads(done.stdout)["verdict"]["findings"]]
    done = stored.resolve("--json", "--target", stored.target, "--", "--model-path", other)
    assert done.returncode == 3
    assert "OPTION_CONTRADICTS" in [one["code"] for one in json.loads(done.stdout)["verdict"]["findings"]]


def test_a_recorded_tokenizer_is_compared_with_the_targets_own(tmp_path, runner):
    own = Stored(tmp_path, runner)
    place = os.path.join(own.target, "tokenizer.json")

    def told():
        document = json.loads(own.resolve("--target", own.target, "--json").stdout)
        return "TARGET_TOKENIZER" in {finding["code"] for finding in document["verdict"].get("findings", ())}

    with open(place, "wb") as file:
        file.write(b"{}")
    own.publish()
    assert not told()
    with open(place, "wb") as file:
        file.write(b"{ }")
    assert told(), "another tokenizer, and another question than before"
