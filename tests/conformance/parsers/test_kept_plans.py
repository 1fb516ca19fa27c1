"""Kept results of the generated manifests: what the releases' parsers took is still what a plan prints."""

from __future__ import annotations

import json

import pytest
from generated import COUNT, generate
from planned import LACKING, PLANNED, RELEASES, RENDERED, RESOLVED, counted
from section import RESULTS

AGAIN = "make conformance CONFORMANCE_ARGS='-k planned' asks the releases again"


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The drafters, in a folder of their own."""
    return generate(str(tmp_path_factory.mktemp("generated")))


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_release_took_is_what_is_printed_today(release, generated):
    with open(RESULTS, encoding="utf-8") as file:
        kept = json.load(file)["releases"][release]["planned"]
    today, launches = counted(release, generated)
    before, now = kept["printed"].split(), today["printed"].split()
    assert [n for n in range(COUNT) if before[n] != now[n]] == [], AGAIN
    assert {name: kept[name] for name in today} == today, AGAIN
    assert kept["parsed"] == {"equal": len(launches)}
    assert sum(kept["in force"].values()) == len(launches)
    assert kept["plans"].keys() == set(PLANNED)
    able = COUNT - kept["plans"][LACKING]
    assert kept["plans"][RESOLVED] + kept["plans"][RENDERED] >= 0.6 * able


def test_the_drafters_are_the_same_each_time(generated, tmp_path):
    again = generate(str(tmp_path), range(7))
    assert [case.manifest for case in again] == [case.manifest for case in generated[:7]]
