"""Scans of a small release in vLLM's shape: what is derived changes with the release's text, and with nothing else."""

from __future__ import annotations

import pytest
import vllm_toy as toy

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.vllm.profile import Step, Switch
from drafter_contracts.engines.vllm.scan import encode, scan
from drafter_contracts.engines.vllm.tree import is_vllm
from drafter_contracts.errors import ScanError

NESTED = """part = getattr(config, "part", None)
        if part: return part.get("ids")
        return getattr(config, "ids", None)"""
BY_TYPE = """other = getattr(config, "model_type", "") == "other"
        return [i + (0 if other else 1) for i in getattr(config, "ids", None) or []]"""


def captured(profile, ids, n=12):
    made = capture_once(profile.rules[profile.targets["ToyForCausalLM"]], n, ids)
    return made.error or [tap.boundary for tap in made.taps]


def test_a_whole_release(tmp_path):
    profile = scan(toy.write(tmp_path))
    assert (profile.engine, profile.release) == ("vllm", "0.99.0")
    assert profile.methods == ("eagle3", "ngram")
    assert profile.options == ("model", "parallel_drafting")
    assert {name: one.steps for name, one in profile.runners.items()} == {"V1": (Step("ids"),), "V2": (Step("ids"),)}
    assert profile.renames == {
        "eagle3": {"Eagle3ToyForCausalLM": "Eagle3ToyForCausalLM", "ToyForCausalLM": "Eagle3ToyForCausalLM"}
    }
    assert profile.targets["BareForCausalLM"] == -1
    drafter = profile.drafters["Eagle3ToyForCausalLM"]
    assert (drafter.taps, drafter.width) == (("taps", "3"), ("target_hidden_size", "hidden_size"))
    assert drafter.switches == {"norm_output": Switch(("norm_output",))}
    assert encode(profile) == encode(scan(str(tmp_path / "vllm"))), "the package itself gives the same bytes"


def test_layers_after_or_before_which_a_class_captures(tmp_path):
    after = scan(toy.write(tmp_path / "after"))
    assert (captured(after, [2, 12]), captured(after, [0, 3]), captured(after, None)) == ([2, 12], [3], [2, 6, 9])
    before = scan(toy.write(tmp_path / "before", before=toy.BEFORE, after="pass"))
    assert (captured(before, [2, 12]), captured(before, [0, 3])) == ([2], "TypeError")


def test_a_class_that_captures_one_layer_off_is_seen(tmp_path):
    off = scan(toy.write(tmp_path, after=toy.AFTER.replace("idx + 1", "idx")))
    assert captured(off, [2, 5]) == [3, 6]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("return None", ()),
        ('return [i + 1 for i in getattr(config, "ids", None) or ()]', (Step("ids", 1),)),
        (NESTED, (Step("part.ids", decides=True), Step("ids"))),
        (BY_TYPE, (Step("ids", 1, {"other": 0}),)),
    ],
)
def test_how_a_runner_reads_is_what_its_text_does(tmp_path, text, steps):
    profile = scan(toy.write(tmp_path, first=text))
    assert (profile.runners["V1"].status, profile.runners["V1"].steps) == ("fitted", steps)
    assert profile.runners["V2"].steps == (Step("ids"),)


def test_a_runner_that_no_places_explain_is_opaque(tmp_path):
    sorted_by_half = 'return sorted(getattr(config, "ids", None) or [], key=lambda i: -i)'
    runner = scan(toy.write(tmp_path, first=sorted_by_half)).runners["V1"]
    assert runner.status == "opaque"
    assert "the release gives" in runner.reason


def test_a_class_whose_width_no_keys_explain_is_opaque(tmp_path):
    odd = '((getattr(config, "taps", None) or 3) + (getattr(config, "taps", 0) == 2))'
    drafter = scan(toy.write(tmp_path, taps=odd)).drafters["Eagle3ToyForCausalLM"]
    assert drafter.status == "opaque"
    assert "columns" in drafter.reason


def test_a_switch_that_is_on_without_its_key(tmp_path):
    profile = scan(toy.write(tmp_path, output='getattr(config, "norm_output", True)'))
    assert profile.drafters["Eagle3ToyForCausalLM"].switches == {"norm_output": Switch(("norm_output",), True)}


def test_what_is_no_release(tmp_path):
    (tmp_path / "vllm").mkdir()
    assert not is_vllm(str(tmp_path))
    with pytest.raises(ScanError, match="version"):
        scan(str(tmp_path))
    with pytest.raises(ScanError, match="not a vllm release"):
        scan(str(tmp_path / "nothing"))
