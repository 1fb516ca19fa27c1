"""Every metric and label that rules and dashboard ask for is one that the engines or the registry export."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile

import pytest

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(_TESTS, "conformance"))  # files are imported one by one

from release_wheels import CACHE, cached  # noqa: E402 - in the folder above

SGLANG = ("0.4.5", "0.5.3", "0.5.9", "0.5.13", "0.5.23")
#: Not in every release; the rules have another way there, or the panel says so.
LATER = {"sglang:spec_verify_calls_total", "sglang:spec_num_steps", "sglang:spec_num_draft_tokens"}


@pytest.fixture(scope="module")
def expressions(rules, example):
    """Every expression of rules and dashboard, variables filled in."""
    with open(example("dashboard.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    drawn = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [rule["expr"] for rule in rules] + drawn


def test_every_metric_is_exported_by_somebody(expressions, rules, vocabulary):
    recorded = {rule["record"] for rule in rules if "record" in rule}
    names = set().union(*map(vocabulary.asked, expressions))
    assert names - recorded <= vocabulary.known()
    assert not recorded & vocabulary.known()
    assert {name.split(":")[0] for name in names if ":" in name} == {"sglang", "vllm", "drafters"}


def test_a_name_that_nobody_exports_is_seen(vocabulary):
    expression = 'sum by (job) (rate(vllm:spec_decode_num_draft_total{a="b"}[5m])) > on (job) group_left () up'
    assert vocabulary.asked(expression) == {"vllm:spec_decode_num_draft_total", "up"}
    assert "vllm:spec_decode_num_draft_total" not in vocabulary.known()
    with pytest.raises(AssertionError, match="maximum"):
        vocabulary.asked("maximum(up)")


def test_labels_of_the_registry_are_those_that_rules_match_by(expressions, vocabulary):
    labels = vocabulary.labels_of(vocabulary.of_registry())
    seen = {"name", "version", "engine", "release", "instance"}
    names = {name for name in set().union(*map(vocabulary.asked, expressions)) if name.startswith("drafters_")}
    assert len(names) >= 6
    assert {name for name in names if labels[name] != seen} == {"drafters_observed_left_out"}


def test_labels_of_a_real_sglang_are_those_that_rules_match_by(vocabulary):
    labels = vocabulary.labels_of(vocabulary.of_sglang())
    # `and` between the two gauges needs them alike.
    assert labels["sglang:spec_accept_length"] == labels["sglang:gen_throughput"] >= {"model_name", "tp_rank"}
    assert "model_name" in labels["sglang:generation_tokens_total"]


@pytest.mark.conformance
@pytest.mark.parametrize("release", SGLANG)
def test_releases_of_sglang_have_these_names(release, expressions, vocabulary):
    names = {name for name in set().union(*map(vocabulary.asked, expressions)) if name.startswith("sglang:")}
    text = _sources("", "sglang", release, r"/(metrics/collector|observability/metrics_collector)\.py$")
    missing = {name for name in names if f'"{name}"' not in text}
    assert missing == (set() if tuple(map(int, release.split("."))) >= (0, 5, 13) else LATER)


@pytest.mark.conformance
@pytest.mark.parametrize("release", ["0.11.0", "0.33.0"])
def test_releases_of_vllm_have_these_names(release, expressions, vocabulary):
    names = {name for name in set().union(*map(vocabulary.asked, expressions)) if name.startswith("vllm:")}
    text = _sources("vllm", "vllm", release, r"/v1/(spec_decode/metrics|metrics/loggers)\.py$")
    assert {name for name in names if f'"{name.removesuffix("_total")}"' not in text} == set()


def _sources(folder, engine, release, pattern):
    """Text of a wheel's files; the test is skipped where the wheel is not in the cache."""
    place = os.path.join(CACHE, folder)
    path = cached(place, engine, release)
    if not path:
        pytest.skip(f"the wheel of {engine} {release} is not in {place}")
    with zipfile.ZipFile(path) as wheel:
        return "\n".join(wheel.read(name).decode() for name in wheel.namelist() if re.search(pattern, name))
