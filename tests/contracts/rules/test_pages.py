"""The registry of rules and its documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drafter_contracts.errors import InputError
from drafter_contracts.rules import RULES, explain
from drafter_contracts.rules.pages import CATALOGUE, markdown
from drafter_contracts.verdict import Finding

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "contracts/drafter_contracts/rules").glob("*.py"))


def test_the_documentation_is_current():
    assert (ROOT / "docs/rules.md").read_text(encoding="utf-8") == markdown(), (
        "run `python -m drafter_contracts.rules.pages > docs/rules.md`"
    )


def test_every_code_in_the_source_has_a_rule_and_every_rule_is_in_the_source():
    written = set()
    for path in SOURCES:
        written |= set(re.findall(r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*)",\n', path.read_text(encoding="utf-8")))
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes))
    assert set(codes) <= written
    emitted = set()
    for path in SOURCES:
        emitted |= set(re.findall(r'Finding\(\s*"([A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert emitted <= set(codes)
    assert len(emitted) > 50


def test_every_rule_says_what_it_checks_what_goes_wrong_and_where_that_was_seen():
    for rule in RULES:
        assert rule.check.__doc__, rule.code
        assert rule.title, rule.code
        assert len(rule.what_goes_wrong) > 40, rule.code
        assert rule.reference.startswith("https://"), rule.code
        assert rule.catalogue, rule.code
        assert set(rule.catalogue) <= set(CATALOGUE), rule.code


def test_explain_takes_a_code_in_any_case_and_names_the_nearest_otherwise():
    assert explain("capture-layers") == explain("CAPTURE_LAYERS")
    assert "https://" in explain("CAPTURE_GRAPHS")
    with pytest.raises(InputError) as caught:
        explain("CAPTURE_LAYER")
    assert "CAPTURE_LAYERS" in caught.value.diagnostics()


def test_a_rule_emits_findings_of_its_own_code_only(scene):
    scene.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [3, 3, 40]
    scene.config |= {"num_hidden_layers": 3, "norm_output": True, "max_position_embeddings": 1}
    scene.values |= {"quantization": "fp8", "dtype": "half", "attention_backend": "flashmla", "lora_paths": ["a"]}
    situation = scene.situation()
    emitted = {}
    for rule in RULES:
        for finding in rule.check(situation) or ():
            assert isinstance(finding, Finding)
            emitted.setdefault(rule.code, set()).add(finding.code)
    assert len(emitted) > 8
    assert all(codes == {code} for code, codes in emitted.items())
