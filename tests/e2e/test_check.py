"""`drafters check` as a process: what it compares, where it takes it from, and what it prints."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess

import pytest

STATED = ("--output-ids", "2,30,58")
TRAINED = "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"


def verdict_of(done):
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"], done.stderr
    return document


def codes(document):
    return {finding["code"] for finding in document["findings"] if finding["severity"] == "refuse"}


def test_the_incident_is_refused_although_every_shape_fits(bench, drafters):
    done = drafters("check", *STATED, "--", *bench.launch(bench.wrong))
    assert done.returncode == 3, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("REFUSE")
    for named in (bench.wrong, "sglang 0.5.12.post1", bench.target):
        assert named in first
    flat = " ".join(done.stdout.split())
    assert TRAINED in flat
    assert "boundaries 0, 3, 31 (embedding output, outputs of layers 2, 30)" in flat
    assert "remedy" in flat
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "no colour into a pipe"


def test_the_right_ids_are_allowed(bench, drafters):
    document = verdict_of(drafters("check", "--json", *STATED, "--", *bench.launch(bench.right)))
    assert document["decision"] in {"allow", "warn"}
    assert codes(document) == set()


def test_the_document_has_every_key(bench, drafters):
    document = verdict_of(drafters("check", "--json", *STATED, "--", *bench.launch(bench.wrong)))
    assert set(document) == {"schema", "decision", "exit_code", "findings", "checked", "context"}
    assert document["schema"] == "drafters.verdict.v1"
    for finding in document["findings"]:
        assert set(finding) == {"code", "severity", "message", "expected", "actual", "source", "remedy", "flags"}
    order = ["refuse", "unknown", "warn", "note"]
    ranks = [order.index(finding["severity"]) for finding in document["findings"]]
    assert ranks == sorted(ranks), "worst first"
    assert len(document["checked"]) > 1


def test_engine_target_and_drafter_come_from_the_launch_and_the_output_says_so(bench, drafters):
    done = drafters("check", *STATED, "--", *bench.launch(bench.right))
    flat = " ".join(done.stdout.split())
    assert "taken from" in flat
    assert "sglang 0.5.12.post1" in flat
    assert bench.binaries.rpartition("/")[0] in flat, "where the engine is installed"
    assert "--output-ids 2,30,58" in flat


def test_options_win_over_the_launch(bench, drafters):
    document = verdict_of(
        drafters("check", "--json", "--engine", "sglang==0.5.23", *STATED, "--", *bench.launch(bench.right))
    )
    assert document["decision"] == "refuse", "since 0.5.13 this family takes these ids as boundaries"
    assert "0.5.23" in document["context"]["engine"]
    document = verdict_of(drafters("check", bench.wrong, "--json", *STATED, "--", *bench.launch(bench.right)))
    assert document["decision"] == "refuse", "the drafter given is the one that is read"


def test_boundaries_and_output_ids_are_two_ways_to_say_the_same(bench, drafters):
    launch = bench.launch(bench.right)
    one = verdict_of(drafters("check", "--json", *STATED, "--", *launch))
    other = verdict_of(drafters("check", "--json", "--boundaries", "3,31,59", "--", *launch))
    assert one["decision"] == other["decision"]
    assert codes(one) == codes(other)
    shifted = verdict_of(drafters("check", "--json", "--output-ids", "-1,2,30", "--", *launch))
    assert shifted["decision"] == "refuse"


def test_a_manifest_beside_the_weights_states_the_layout(bench, drafters):
    manifest = {"schema": "drafters.manifest.v1", "layout": {"boundaries": [3, 31, 59]}}
    path = os.path.join(bench.wrong, "drafters-manifest.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    done = drafters("check", "--", *bench.launch(bench.wrong))
    assert done.returncode == 3, done.stdout
    assert "drafters-manifest.json" in done.stdout
    assert TRAINED in " ".join(done.stdout.split())


def test_a_manifest_elsewhere_is_read_when_named(bench, drafters):
    path = os.path.join(bench.folder, "contract.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schema": "drafters.manifest.v1", "layout": {"boundaries": [0, 3, 31]}}, file)
    document = verdict_of(drafters("check", "--json", "--manifest", path, "--", *bench.launch(bench.right)))
    assert document["decision"] == "refuse"
    missing = drafters("check", "--manifest", path + ".none", "--", *bench.launch(bench.right))
    assert missing.returncode == 2
    assert path + ".none" in missing.stderr


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir])
def test_a_manifest_that_is_no_file_is_not_waited_for(bench, drafters, make):
    make(os.path.join(bench.right, "drafters-manifest.json"))
    done = drafters("check", *STATED, "--", *bench.launch(bench.right))
    assert done.returncode == 7
    assert "the manifest cannot be read" in done.stderr


def test_an_unknown_release_is_unknown_and_says_what_to_do(bench, drafters):
    done = drafters("check", "--engine", "sglang==0.0.1", *STATED, "--", *bench.launch(bench.right))
    assert done.returncode == 5, done.stdout
    assert done.stdout.startswith("UNKNOWN")
    assert "0.0.1" in done.stdout
    assert "remedy" in done.stdout


def test_no_engine_installed_is_unknown(bench, drafters):
    launch = bench.launch(bench.right, python="/nowhere/bin/python")
    done = drafters("check", *STATED, "--", *launch)
    assert done.returncode == 5, done.stdout
    assert "--engine sglang==" in " ".join(done.stdout.split())


@pytest.mark.parametrize("missing", ["target", "right"])
def test_files_that_are_not_here_are_unknown_and_named(bench, drafters, missing):
    os.rename(getattr(bench, missing), os.path.join(bench.folder, "elsewhere"))
    done = drafters("check", *STATED, "--", *bench.launch(bench.right))
    assert done.returncode == 5, done.stdout
    assert getattr(bench, missing) in done.stdout


def test_a_launch_in_a_container_is_read_and_its_image_named(bench, drafters):
    inner = ["python3", "-m", "sglang.launch_server", *bench.launch(bench.wrong)[3:]]
    docker = ["docker", "run", "--rm", "--gpus", "all", "-v", "/m:/m", "lmsysorg/sglang:v0.5.12.post1-cu129"]
    document = verdict_of(
        drafters("check", "--json", "--engine", "sglang==0.5.12.post1", *STATED, "--", *docker, *inner)
    )
    assert document["decision"] == "refuse"
    guessed = verdict_of(drafters("check", "--json", *STATED, "--", *docker, *inner))
    assert guessed["decision"] == "refuse"
    assert guessed["context"]["engine from"] == f"a guess from its name: {docker[-1]}"
    assert docker[-1] in guessed["context"]["files from"]
    nameless = verdict_of(drafters("check", "--json", *STATED, "--", *docker[:-1], "registry.local/engine", *inner))
    assert nameless["decision"] == "unknown"


def test_behind_wrappers_it_is_the_same_launch(bench, drafters):
    launch = ["env", "CUDA_VISIBLE_DEVICES=0", "nohup", *bench.launch(bench.wrong)]
    document = verdict_of(drafters("check", "--json", *STATED, "--", *launch))
    assert document["decision"] == "refuse"


def test_no_speculation_is_allowed(bench, drafters):
    document = verdict_of(drafters("check", "--json", "--", *bench.plain()))
    assert document["decision"] == "allow"


def test_a_reader_that_goes_away_does_not_change_the_answer(bench, command):
    process = subprocess.Popen(
        [command, "check", *STATED, "--", *bench.launch(bench.wrong)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    talk = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 3
    assert talk == "", "no traceback, no complaint"


def test_colour_when_asked_for_and_never_with_no_color(bench, drafters):
    arguments = ("check", *STATED, "--", *bench.launch(bench.wrong))
    assert "\x1b[" in drafters(*arguments, variables={"CLICOLOR_FORCE": "1"}).stdout
    quiet = drafters(*arguments, variables={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"})
    assert "\x1b" not in quiet.stdout


def test_a_terminal_without_unicode_still_gets_the_verdict(bench, drafters):
    done = drafters(
        "check", *STATED, "--", *bench.launch(bench.wrong), variables={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("REFUSE")


def test_closed_streams_do_not_change_the_answer(bench, command):
    launch = " ".join(bench.launch(bench.wrong))
    script = f"{command} check {' '.join(STATED)} -- {launch} >&- 2>&-"
    assert subprocess.run(["sh", "-c", script], check=False, timeout=60).returncode == 3


def found_codes(document, severity):
    return {finding["code"] for finding in document["findings"] if finding["severity"] == severity}


def test_an_allow_that_rests_on_an_images_tag_is_a_warning(bench, drafters):
    image = "lmsysorg/sglang:v0.5.12.post1-cu126"
    launch = ["docker", "run", image, "python3", *bench.launch(bench.right)[1:]]
    document = verdict_of(drafters("check", "--json", *STATED, "--", *launch))
    assert document["decision"] == "warn"
    assert "ENGINE_GUESSED" in found_codes(document, "warn")
    sure = verdict_of(drafters("check", "--json", "--engine", "sglang==0.5.12.post1", *STATED, "--", *launch))
    assert "ENGINE_GUESSED" not in found_codes(sure, "warn")


def test_a_variable_that_the_launch_inherits_counts_like_one_that_it_sets(bench, drafters):
    launch = bench.launch(bench.right)
    inherited = drafters("check", "--json", *STATED, "--", *launch, variables={"SGLANG_SIMULATE_ACC_LEN": "3"})
    assert "SIMULATED_ACCEPTANCE" in {finding["code"] for finding in verdict_of(inherited)["findings"]}
    own = drafters("check", "--json", *STATED, "--", "env", "SGLANG_SIMULATE_ACC_LEN=3", *launch)
    assert "SIMULATED_ACCEPTANCE" in {finding["code"] for finding in verdict_of(own)["findings"]}


def test_a_draft_model_without_an_algorithm_is_said_to_be_unused(bench, drafters):
    launch = [*bench.plain(), "--speculative-draft-model-path", bench.right]
    document = verdict_of(drafters("check", "--json", "--", *launch))
    assert document["decision"] == "warn"
    assert "NO_SPECULATION" in found_codes(document, "warn")


def test_an_override_of_a_part_of_the_text_config_keeps_the_rest(bench, drafters):
    override = '{"text_config": {"rope_theta": 50000.0}}'
    launch = bench.launch(bench.right, "--json-model-override-args", override)
    document = verdict_of(drafters("check", "--json", "--engine", "sglang==0.5.23", *STATED, "--", *launch))
    assert "TARGET_UNREADABLE" not in {finding["code"] for finding in document["findings"]}
    assert "61 layers" in document["context"]["target"]


def test_what_strangers_wrote_cannot_draw_on_the_terminal(bench, drafters, tmp_path):
    forged = "Model\x1b[2J\x1b]0;title\x07\nALLOW  drafter"
    config = {"architectures": [forged], "hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 10}
    (tmp_path / "config.json").write_text(json.dumps(config))
    launch = (
        "python3",
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(tmp_path),
        "--speculative-algorithm",
        "EAGLE3",
    )
    engine = ("--engine", "sglang==0.5.9")
    for words in (
        ("check", *engine, str(tmp_path), "--", *launch),
        ("inspect", str(tmp_path)),
        ("inspect", f"{tmp_path}/{forged}"),
        ("engine", "show", forged),
    ):
        done = drafters(*words)
        shown = done.stdout + done.stderr
        assert "Model\\x1b[2J" in shown, words
        assert "\x1b" not in shown, words
        assert not any(line.lstrip().startswith("ALLOW") for line in shown.splitlines()), words


def test_a_folder_here_is_not_taken_for_one_where_the_launch_runs(bench, drafters):
    elsewhere = os.path.join(bench.folder, "elsewhere")
    os.mkdir(elsewhere)
    launch = ["env", f"--chdir={elsewhere}", *bench.launch("right")]
    document = verdict_of(drafters("check", "--json", *STATED, "--", *launch, cwd=bench.folder))
    assert document["decision"] == "unknown"
    os.symlink(bench.right, os.path.join(elsewhere, "right"))
    document = verdict_of(drafters("check", "--json", *STATED, "--", *launch, cwd=bench.folder))
    assert document["decision"] in {"allow", "warn"}


def test_a_recorded_tokenizer_is_compared_with_the_targets_own(bench, drafters):
    def codes_with(digest):
        manifest = {"schema": "drafters.manifest.v1", "target": {"tokenizer_sha256": digest}}
        with open(os.path.join(bench.right, "drafters-manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        document = verdict_of(drafters("check", "--json", *STATED, "--", *bench.launch(bench.right)))
        return found_codes(document, "warn")

    with open(os.path.join(bench.target, "tokenizer.json"), "wb") as file:
        file.write(b"{}")
    assert "TARGET_TOKENIZER" not in codes_with(hashlib.sha256(b"{}").hexdigest())
    assert "TARGET_TOKENIZER" in codes_with("0" * 64)
