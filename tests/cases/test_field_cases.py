"""Public field reports give the verdict that would have helped, on the profiles of real releases.

A case names a state of the engine's main branch; the table below names the nearest shipped release and why. A case's
ids with their convention state the trained layout. The ids in the checkpoint's config are those that make the release
feed that layout where the report says that the pairing itself was right (`RAW` names the cases whose own numbers are
written); what the same numbers do when written unchanged is tested beside.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import msgspec
import pytest

from drafter_cli.gate import judge
from drafter_cli.gate_options import Request
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.manifest import FILE_NAME, canonical, read_manifest
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement
from drafter_contracts.rules import find_rule
from drafter_contracts.serving.target import read_target

HERE = Path(__file__).parent
DATA = json.loads((HERE / "data/field-cases.json").read_text(encoding="utf-8"))
CASES = {case["id"]: case for case in DATA["cases"]}

_spec = importlib.util.spec_from_file_location("build", HERE / "build.py")
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)

ALLOW_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"

#: Case to the release it is run on, and why that one.
RELEASES = {
    "a02-gptoss-boundary-36": ("0.5.15", "main before PR 32334; 0.5.15 is the last profile before it (0.5.17 has it)"),
    "a02-gptoss-boundary-36-fixed": ("0.5.23", "main with PR 32334, first released in 0.5.17"),
    "a04-dflash2-ids-absent": ("0.5.23", "main of 2026-09-01"),
    "a07-two-conventions-undeclared": ("0.5.15", "main of 2026-05-16, the day of PR 25454, first released in 0.5.13"),
    "a08-dspark-in-range": ("0.5.23", "DSPARK exists from 0.5.16; the newest profile"),
    "a08-dspark-last-layer-78": ("0.5.23", "DSPARK exists from 0.5.16; the newest profile"),
    "a08-dspark-last-layer-sglang": ("0.5.23", "DSPARK exists from 0.5.16; the newest profile"),
    "a12-five-taps-three-supported": ("0.5.9", "before PR 24663, first released in 0.5.12"),
    "a13-dspark-speculators-raw": ("0.5.23", "DSPARK exists from 0.5.16; the newest profile"),
    "c01-lm-head-missing": ("0.5.15", "main of 2026-06-10, after PR 25454 (0.5.13)"),
    "c01-lm-head-null-vocab": ("0.5.2", "main of 2025-08 with PR 9739, first released in 0.5.2"),
    "c06-random-embed-sglang": ("0.5.9", "2026-03"),
    "d01-tokenizer-family": ("0.5.9", "before PR 23838 (2026-04), which 0.5.12.post1 may hold"),
    "e01-base-arch-name": ("0.5.15", "main of 2026-08-07; 0.5.15 is nearer than 0.5.23"),
    "e01-repackaged": ("0.5.15", "main of 2026-08-07; 0.5.15 is nearer than 0.5.23"),
    "e04-multi-layer-eagle3": ("0.5.2", "2025-08"),
    "f01-eagle-flag-eagle3-head": ("0.5.12.post1", "2026-03-24; 0.5.9 does not capture for this target, 0.5.10 does"),
    "g01-topk1-draft24": ("0.5.9", "2025-11; 0.5.9 is the first profile after it"),
    "g03-consistent-triple": ("0.5.9", "2025-12"),
    "g04-partial-triple": ("0.5.12.post1", "main of 2026-04-15"),
    "g05-tree-too-big": ("0.5.9", "any release"),
    "g12-k-copied-to-sglang": ("0.5.23", "2026-09"),
    "g12-k-copied-wrong": ("0.5.23", "2026-09"),
    "h01-quant-explicit-sglang": ("0.5.15", "main of 2026-06-14, after 0.5.12.post1"),
    "h01-quant-inherit-sglang": ("0.5.15", "main of 2026-06-14, after 0.5.12.post1"),
    "i01-maxpos-2048": ("0.5.2", "2025-10"),
    "i01-maxpos-2048-override": ("0.5.9", "main with PR 10787 (2025-09), after 0.5.2"),
    "j02-thinking-mode": ("0.5.9", "2025-11; 0.5.9 is the first profile after it"),
    "j03-lora": ("0.5.2", "2025-08"),
}
#: Cases whose own numbers stand in the config: as published, or because the numbers are what the report is about.
RAW = {
    "a02-gptoss-boundary-36",
    "a02-gptoss-boundary-36-fixed",
    "a07-two-conventions-undeclared",
    "a08-dspark-in-range",
    "a08-dspark-last-layer-78",
    "a08-dspark-last-layer-sglang",
    "a12-five-taps-three-supported",
    "a13-dspark-speculators-raw",
    "c01-lm-head-missing",
    "c01-lm-head-null-vocab",
}
#: Real classes and widths for what a report leaves open or calls by another name.
TARGETS = {
    "Qwen3_8": {"arch": "Qwen3_5ForConditionalGeneration", "hidden_size": 5120, "vocab_size": 248320},
    "43-layer target": {"arch": "GlmMoeDsaForCausalLM", "hidden_size": 4096, "vocab_size": 154880, "attn_kind": "MLA"},
    "78-layer target": {"arch": "GlmMoeDsaForCausalLM", "hidden_size": 6144, "vocab_size": 154880, "attn_kind": "MLA"},
    "GLM-5.2": {
        "arch": "GlmMoeDsaForCausalLM",
        "num_layers": 78,
        "hidden_size": 6144,
        "vocab_size": 154880,
        "attn_kind": "MLA",
    },
    "MiMo": {"arch": "MiMoForCausalLM", "num_layers": 36, "hidden_size": 4096, "vocab_size": 151680},
    "any MTP model": {
        "arch": "DeepseekV3ForCausalLM",
        "num_layers": 61,
        "hidden_size": 7168,
        "vocab_size": 129280,
        "attn_kind": "MLA",
        "mtp_layers": 1,
    },
    "any": {"arch": "Qwen3ForCausalLM"},
    "Gemma2ForCausalLM": {"num_layers": 42, "hidden_size": 3584},
}
#: What a launch cannot show, told by the drafter's manifest.
MANIFESTS = {
    "c06-random-embed-sglang": {"draft": {"embeddings": "target"}},
    "g12-k-copied-to-sglang": {"recommended": {"speculative_tokens": 7}},
    "g12-k-copied-wrong": {"recommended": {"speculative_tokens": 7}},
    "j02-thinking-mode": {"draft": {"thinking_mode": "off"}},
    "i01-maxpos-2048-override": {"draft": {"trained_context": 2048}},
}
#: The release's own code widens the positions only with this variable (configs/model_config.py,
#: ModelConfig._derive_context_length): the report's launch had it set.
ENVIRONMENTS = {"i01-maxpos-2048-override": (f"{ALLOW_LONGER}=1",)}


def target_of(case: dict) -> dict:
    known = {key: value for key, value in case["target"].items() if value is not None}
    return {**known, **TARGETS.get(case["target"]["arch"], {})}


def trained(case: dict) -> tuple[int, ...] | None:
    """Boundaries that the drafter was trained on, as the case's facts state them."""
    stated = case["drafter_config"]
    if stated.get("trained_ids"):
        return tuple(i + 1 for i in stated["trained_ids"])
    ids, convention = stated.get("aux_ids"), stated.get("aux_convention")
    if ids is None or convention is None:
        return None
    return tuple(i + 1 for i in ids) if convention == "output_of_layer" else tuple(ids)


def written_ids(case: dict, *, raw: bool) -> list[int] | None:
    """Ids for the config: the case's own, or those that the majority rule (add one) turns into the trained layout."""
    ids = case["drafter_config"].get("aux_ids")
    if ids is None or raw or trained(case) is None:
        return ids
    return [boundary - 1 for boundary in trained(case)]


def write_drafter(folder: Path, case: dict, target: dict, *, raw: bool) -> None:
    algorithm = case["drafter_config"]["algorithm"]
    ids = written_ids(case, raw=raw)
    if algorithm == "EAGLE3":
        build.write_eagle3(folder, case, target, ids)
    elif algorithm == "EAGLE":
        build.write_eagle(folder, case, target)
    elif algorithm == "STANDALONE":
        build.write_standalone(folder, case, target)
    elif algorithm == "DFLASH":
        build.write_block(folder, case, target, ids, architecture="DFlashDraftModel", taps=5)
    elif case["drafter_config"].get("format") == "speculators":
        build.write_speculators(folder, case, target)
    elif algorithm == "DSPARK":
        build.write_block(folder, case, target, ids, architecture="Qwen3DSparkModel", taps=3)


def request(case: dict, folder: Path, *, raw: bool, environment: tuple[str, ...] = (), **changes) -> Request:
    target = {**target_of(case), **changes.pop("target", {})}
    path = build.write_target(folder / "target", target)
    drafter = folder / "drafter"
    write_drafter(drafter, case, target, raw=raw)
    manifest = MANIFESTS.get(case["id"])
    if manifest:
        (drafter / FILE_NAME).write_text(json.dumps({"schema": "drafters.manifest.v1", **manifest}), encoding="utf-8")
    flags = [flag.replace("<drafter>", str(drafter)).replace("<adapter>", "/adapter") for flag in case["launch_flags"]]
    wrapper = ("env", *environment) if environment else ()
    launch = (*wrapper, "python3", "-m", "sglang.launch_server", "--model-path", path, *flags)
    boundaries = changes.pop("boundaries", trained(case))
    release = changes.pop("release", RELEASES[case["id"]][0])
    return Request(launch, engine=release, boundaries=boundaries, option="--boundaries" if boundaries else "")


def entries(verdict) -> set[str]:
    """Catalogue entries of everything that was found above a note."""
    codes = {finding.code for finding in verdict.findings if finding.severity != "note"}
    return {entry for code in codes for entry in find_rule(code).catalogue}


def told(verdict) -> str:
    return "\n".join(f"{finding.severity} {finding.code}: {finding.message}" for finding in verdict.findings)


def test_every_sglang_case_has_a_release_and_the_others_are_exactly_those_left_out():
    assert set(RELEASES) == set(CASES)
    assert {case["engine"] for case in DATA["cases"]} == {"sglang"}
    left_out = {case["id"]: case["engine"] for case in DATA["other_engines"]}
    assert len(left_out) == 18
    assert set(left_out.values()) == {"vllm", "vllm-ascend", "modelopt", "speculators", "specforge", "lmdeploy"}
    assert all(case["url"].startswith("https://") for case in (*DATA["cases"], *DATA["other_engines"]))


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    case = CASES[name]
    verdict = judge(request(case, tmp_path, raw=name in RAW, environment=ENVIRONMENTS.get(name, ())))
    expected = case["expected"]
    assert verdict.decision == expected["verdict"], told(verdict)
    assert set(expected["codes"]) <= entries(verdict), told(verdict)
    if expected["verdict"] == "allow":
        assert entries(verdict) == set(), told(verdict)


#: Cases whose facts call the ids inputs of layers, the engine's numbering included. The releases themselves add one
#: to every id of these targets (source of each finding), so that the same numbers in `eagle_config` are one late.
ONE_LATE = [
    "c06-random-embed-sglang",
    "e01-repackaged",
    "e04-multi-layer-eagle3",
    "g01-topk1-draft24",
    "g12-k-copied-to-sglang",
    "h01-quant-explicit-sglang",
    "i01-maxpos-2048",
    "j02-thinking-mode",
]


@pytest.mark.parametrize("name", ONE_LATE)
def test_the_same_numbers_written_unchanged_are_one_layer_late(name, tmp_path):
    verdict = judge(request(CASES[name], tmp_path, raw=True))
    assert verdict.decision == "refuse", told(verdict)
    late = next(finding for finding in verdict.findings if finding.code == "CAPTURE_LAYERS")
    first = trained(CASES[name])[0]
    assert f"boundary {first} (output of layer {first - 1}) becomes boundary {first + 1}" in late.message
    assert "set_eagle3_layers_to_capture" in late.source
    assert str([boundary - 1 for boundary in trained(CASES[name])]) in late.remedy


#: Every case that brings a drafter.
WITH_DRAFTER = [name for name in CASES if CASES[name]["drafter_config"]["algorithm"] != "MTP"]


@pytest.mark.parametrize("name", WITH_DRAFTER)
def test_the_manifest_that_is_recorded_of_a_drafter_changes_no_verdict(name, tmp_path):
    """Recorded facts were read off the files, so that they repeat what the gate reads there; doubts stay doubts."""
    asked = request(CASES[name], tmp_path, raw=name in RAW, environment=ENVIRONMENTS.get(name, ()))
    before = judge(asked)
    target, folder = read_target(str(tmp_path / "target")), str(tmp_path / "drafter")
    facts = read_drafter(folder, target_layers=target.num_layers, target_hidden_size=target.hidden_size)
    statement = Statement(
        name=name, version="1", boundaries=asked.boundaries, option=asked.option, manifest=read_manifest(folder)
    )
    recorded = record(facts, statement, target, ())
    if recorded.manifest is None:  # the config states no ids, or other than fc takes: nothing to record before it does
        assert all(claim.pointer.startswith("/layout") for claim in recorded.obstacles)
        return
    (tmp_path / "drafter" / FILE_NAME).write_bytes(canonical(recorded.manifest))
    for again in (judge(asked), judge(msgspec.structs.replace(asked, boundaries=None, option=""))):
        assert again.decision == before.decision, told(again)
        assert {(f.code, f.severity) for f in again.findings} == {(f.code, f.severity) for f in before.findings}


def test_positions_are_widened_only_where_the_variable_allows_it(tmp_path):
    """The report's engine widened by itself; every release does so only with the variable, and raises without."""
    verdict = judge(request(CASES["i01-maxpos-2048-override"], tmp_path, raw=False))
    assert verdict.decision == "refuse", told(verdict)
    assert ALLOW_LONGER in next(f for f in verdict.findings if f.code == "CONTEXT").remedy


def test_the_dspark_target_of_43_layers_that_is_published_captures_its_last_layer(tmp_path):
    """Of DeepSeek-V4 itself the releases capture the last layer too: the report's limit is not in their source."""
    case = CASES["a08-dspark-last-layer-sglang"]
    verdict = judge(request(case, tmp_path, raw=True, target={"arch": "DeepseekV4ForCausalLM"}))
    assert verdict.decision == "allow", told(verdict)
    assert "boundary 43 (output of layer 42, mean over streams)" in verdict.context["captures"]
