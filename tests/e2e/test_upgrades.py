"""`drafters engine diff | history | coverage` as a user meets them: words, documents and exit codes."""

from __future__ import annotations

import json

import msgspec
import pytest

from drafter_cli.demo_files import KIMI, write_drafter
from drafter_contracts.engines.local.kept import write_added
from drafter_contracts.engines.store import load_profile, releases

BEFORE, AFTER = "0.5.12.post1", "0.5.23"


@pytest.fixture
def drafter(tmp_path):
    return write_drafter(str(tmp_path / "kimi-k2.5-eagle3"), ids=[2, 30, 58])


def document(done):
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_an_upgrade_that_moves_a_drafters_capture_says_so_and_how_to_keep_it(drafters, drafter):
    done = drafters("engine", "diff", BEFORE, AFTER, "--architecture", KIMI, "--layers", 61, "--drafters", drafter)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert f"{KIMI}: this upgrade moves its capture from 3, 31, 59 to 2, 30, 58" in text
    assert "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)" in text
    assert "set eagle_config.eagle_aux_hidden_state_layer_ids to [3, 31, 59]" in text


def test_several_drafters_and_a_target_that_nobody_names(drafters, drafter, tmp_path):
    other = write_drafter(str(tmp_path / "other"), ids=None)
    done = drafters("engine", "diff", BEFORE, AFTER, "--drafters", drafter, other, "--json")
    first, second = document(done)["drafters"]
    assert (first["drafter"], second["drafter"]) == (drafter, other)
    assert first["target"]["assumed"] == "a target of more than 59 layers"
    (family,) = [move for move in first["captures"] if KIMI in move["architectures"]]
    assert (family["from"]["boundaries"], family["to"]["boundaries"]) == ([3, 31, 59], [2, 30, 58])
    assert family["keep"]["ids"] == [3, 31, 59]
    assert second["ids"] is None
    assert KIMI not in {name for move in second["captures"] for name in move["architectures"]}


def test_a_pipeline_can_stop_at_a_move(drafters, drafter, tmp_path):
    arguments = ("engine", "diff", BEFORE, AFTER, "--fail-on-change", "--layers", 61)
    on_kimi = ("--architecture", KIMI, "--drafters", drafter)
    assert drafters(*arguments, *on_kimi).returncode == 3
    assert drafters(*arguments, "--architecture", "Qwen3ForCausalLM", "--drafters", drafter).returncode == 0
    assert drafters(*arguments, "--architecture", KIMI).returncode == 3
    assert drafters("engine", "diff", AFTER, AFTER, "--fail-on-change", *on_kimi).returncode == 0


def test_a_pipeline_can_stop_where_nothing_is_known(drafters, drafter, tmp_path):
    profile = json.loads(drafters("engine", "show", AFTER, "--json").stdout)
    profile["rules"].append({"status": "opaque", "reason": "no rule fits"})
    profile["targets"][KIMI] = {"EAGLE3": len(profile["rules"]) - 1}
    scanned = tmp_path / "fork.json"
    scanned.write_text(json.dumps(profile))
    done = drafters(
        "engine", "diff", BEFORE, scanned, "--architecture", KIMI, "--drafters", drafter, "--fail-on-change"
    )
    assert done.returncode == 5
    assert "not decidable: no rule fits" in done.stdout


def test_a_class_alone_with_what_ids_mean(drafters):
    done = drafters("engine", "diff", BEFORE, AFTER, "--architecture", KIMI, "--ids", "2,30,58", "--method", "EAGLE3")
    first, said, *_ = done.stdout.splitlines()
    assert first == f"sglang {BEFORE} -> sglang {AFTER}"
    assert f"{KIMI}, EAGLE3: ids [2, 30, 58] mean boundaries 3, 31, 59 in " in said
    assert "2, 30, 58 from 0.5.1" in said
    assert "--allowed-media-domains" not in done.stdout
    assert f"EAGLE3, {KIMI}: ids become boundaries: id+1 -> id+1 if first==1, else id" in done.stdout


def test_everything_names_flags_and_classes(drafters):
    done = drafters("engine", "diff", BEFORE, AFTER, "--json")
    changes = document(done)["changes"]
    assert {"capture", "reading", "drafter", "flag", "launch"} <= {change["kind"] for change in changes}
    assert any("--enable-hicache" in change["text"] for change in changes)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["diff", BEFORE, AFTER, "--architecture", "KimiK25ForConditionalGenerator"], KIMI),
        (["diff", BEFORE, AFTER, "--ids", "2,30,58"], "--architecture"),
        (["diff", BEFORE, AFTER, "--architecture", KIMI, "--ids", "two"], "whole numbers"),
        (["diff", BEFORE, AFTER, "--architecture", KIMI, "--layers", "-3"], "decoder layers"),
        (["diff", BEFORE, AFTER, "--architecture", KIMI, "--method", "EAGLE4"], "EAGLE3"),
        (["diff", BEFORE, AFTER, "--drafters", "/nowhere"], "/nowhere"),
        (["history", "KimiK25ForConditionalGenerator"], KIMI),
        (["history", KIMI, "--method", "EAGLE4"], "EAGLE3"),
    ],
)
def test_mistakes_are_told_with_what_to_write(drafters, arguments, hint):
    done = drafters("engine", *arguments)
    assert done.returncode == 2
    assert hint in done.stderr


def test_history_of_ids(drafters):
    done = drafters("engine", "history", KIMI, "--ids", "2,30,58", "--layers", 61, "--method", "EAGLE3", "--json")
    (history,) = document(done)["histories"]
    assert history["releases"] == list(releases("sglang"))
    by_release = {}
    for line in history["lines"]:
        first, last = (history["releases"].index(line[end]) for end in ("first", "last"))
        by_release |= dict.fromkeys(history["releases"][first : last + 1], line)
    assert list(by_release) == history["releases"]
    assert by_release[BEFORE]["boundaries"] == [3, 31, 59]
    assert by_release[AFTER]["boundaries"] == [2, 30, 58]
    assert by_release["0.5.9"]["status"] == "no hook"
    assert history["sentence"].startswith(f"{KIMI}, EAGLE3: ids [2, 30, 58] mean boundaries 3, 31, 59 in ")


def test_history_of_a_class_and_of_a_drafter_class(drafters):
    rule = drafters("engine", "history", "GptOssForCausalLM", "--method", "EAGLE3").stdout
    assert "id+1 -> id if max==N, else id+1" in " ".join(rule.split())
    assert "models/gpt_oss.py:" in rule
    fused = drafters("engine", "history", "LlamaForCausalLMEagle3").stdout
    assert "norm_before_fc" in fused
    assert "no release has a capture hook" in drafters("engine", "history", "Qwen2AudioForConditionalGeneration").stdout


def test_coverage_of_all_releases_and_of_one(drafters, tmp_path):
    every = document(drafters("engine", "coverage", "--json"))["releases"]
    assert [one["release"] for one in every] == list(releases("sglang"))
    newest = every[-1]["capture"]
    assert newest["found"] == newest["fitted"] + newest["broken"] + newest["opaque"]
    table = drafters("engine", "coverage", "0.5.2").stdout.splitlines()
    assert table[-1].split()[:4] == ["0.5.2", "14", "11", "3"]
    told = drafters("engine", "coverage", "0.5.2", "--all").stdout
    assert "broken  Qwen2ForCausalLM EAGLE3: " in told
    assert "[models/qwen2.py:637 (Qwen2ForCausalLM.set_eagle3_layers_to_capture)]" in told
    scanned = tmp_path / "mine.json"
    scanned.write_text(drafters("engine", "show", "0.5.2", "--json").stdout)
    assert drafters("engine", "coverage", scanned, "0.5.9").stdout.splitlines()[2:][0] == table[-1]


def test_a_release_that_was_added_here_counts(drafters, tmp_path):
    newer = msgspec.structs.replace(load_profile("sglang", AFTER), release="9.0.0")
    write_added(str(tmp_path / "profiles"), newer, "a wheel")
    variables = {"DRAFTERS_CACHE": str(tmp_path)}
    coverage = json.loads(drafters("engine", "coverage", "--json", variables=variables).stdout)
    assert coverage["releases"][-1]["release"] == "9.0.0"
    arguments = ("engine", "history", KIMI, "--method", "EAGLE3", "--ids", "2,30,58", "--json")
    (history,) = json.loads(drafters(*arguments, variables=variables).stdout)["histories"]
    assert history["lines"][-1]["last"] == "9.0.0"
