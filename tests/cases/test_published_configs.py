"""No published config makes the gate fall over, and everything it says of one has a page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from drafter_cli.gate import judge
from drafter_cli.gate_options import Request
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.store import releases
from drafter_contracts.rules import find_rule
from drafter_contracts.verdict import DECISIONS

HERE = Path(__file__).parent
CONFIGS = sorted((HERE.parent / "data/configs").glob("p*.json"))  # as published; templates add nothing here

_spec = importlib.util.spec_from_file_location("build", HERE / "build.py")
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)

TARGET = {"arch": "Qwen3ForCausalLM", "num_layers": 36, "hidden_size": 4096, "vocab_size": 151936}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_gets_an_answer_with_pages_for_all_it_says(path, tmp_path):
    document = json.loads(path.read_text(encoding="utf-8"))
    config = document.get("config", document)
    target = build.write_target(tmp_path / "target", TARGET)
    write_skeleton(str(tmp_path / "drafter"), config, {})
    for release in releases("sglang")[-4::3]:
        for algorithm in ("EAGLE3", "DFLASH"):
            launch = ("python3", "-m", "sglang.launch_server", "--model-path", target)
            launch += (
                "--speculative-algorithm",
                algorithm,
                "--speculative-draft-model-path",
                str(tmp_path / "drafter"),
            )
            verdict = judge(Request(launch, engine=release))
            assert verdict.decision in DECISIONS
            assert verdict.findings or verdict.decision == "allow"
            for finding in verdict.findings:
                assert find_rule(finding.code)
                assert finding.message
                assert "None" not in finding.message, finding.message
