"""The shipped advisories: each says for which releases, when, what happens and how that is known."""

from __future__ import annotations

import re

import pytest

from drafter_contracts.engines.store import advisories_for, load_advisories, version_key
from drafter_contracts.serving.conditions import holds
from drafter_contracts.verdict import SEVERITIES

ADVISORIES = load_advisories("sglang")
#: Conditions that are no test of an option (`rules.combination`).
NAMED = ("always", "tbo", "pp", "dp", "topk", "graphs", "lora")
each = pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda one: one.id)


def test_ids_are_unique():
    assert len({one.id for one in ADVISORIES}) == len(ADVISORIES) > 5


@each
def test_an_advisory_names_its_place_its_evidence_and_what_to_do(advisory):
    assert re.search(r"[\w/]+\.py:\d+", advisory.source)
    assert re.search(r"\b(read|run|upstream)\b", advisory.evidence)
    assert advisory.severity in SEVERITIES
    assert advisory.effect
    assert advisory.remedy.endswith(".")


@each
def test_its_range_of_releases_is_one(advisory):
    if advisory.first and advisory.last:
        assert version_key(advisory.first) <= version_key(advisory.last)
    for release in (advisory.first, advisory.last):
        if release:
            assert advisory in advisories_for(ADVISORIES, release)


@each
def test_its_condition_is_one_that_rules_know(advisory):
    if advisory.when not in NAMED and not re.fullmatch(r"tap:(\d+|N)|tensor:\S+", advisory.when):
        assert holds(advisory.when, {}) in (True, False)


def test_the_embedding_s_alias_ends_where_it_was_copied():
    def ids(release):
        return {one.id for one in advisories_for(ADVISORIES, release)}

    assert "SGLANG-EMBEDDING-ALIAS" in ids("0.5.15")
    assert "SGLANG-EMBEDDING-ALIAS" not in ids("0.5.23")
    assert "SGLANG-EMBEDDING-ALIAS-MOE" in ids("0.5.2")
    assert "SGLANG-EMBEDDING-ALIAS-MOE" not in ids("0.5.9")


def test_what_holds_between_releases_is_told_of_each_of_them():
    def ids(release):
        return {one.id for one in advisories_for(ADVISORIES, release)}

    assert "SGLANG-EMBEDDING-ALIAS" in ids("0.4.9") & ids("0.5.20")
    assert "SGLANG-EMBEDDING-ALIAS-MOE" in ids("0.5.4.post1") - ids("0.5.4.post2")
    assert "SGLANG-DRAFT-REVISION" in ids("0.5.1.post3") - ids("0.5.2")
    assert "SGLANG-TOKEN-MAP-OVERRIDES" in ids("0.5.15.post1") & ids("0.5.16") - ids("0.5.17")
    assert "SGLANG-LORA-DRAFTER" in ids("0.5.5.post2") - ids("0.5.5.post3")
    assert "SGLANG-DEEPSEEK-V41-TAPS" in ids("0.5.21") - ids("0.5.20")
    assert "SGLANG-PAGES-FLASHINFER-051" in ids("0.5.1.post1") - ids("0.5.1.post2")
