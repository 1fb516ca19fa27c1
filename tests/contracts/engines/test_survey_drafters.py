"""The drafter's side of shipped profiles against a survey of the same releases that was made by reading.

Where the two differ, the release's source was read again: what the survey has wrong is listed here and told on
`docs/profiles-survey.md`, with the line that decides. Releases whose profile is not shipped are passed over.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from drafter_contracts.engines.profile import BROKEN, FITTED
from drafter_contracts.engines.store import load_profile, releases, version_key

SURVEY = json.loads((Path(__file__).parents[2] / "data/survey/drafters.json").read_text(encoding="utf-8"))
SHIPPED = releases("sglang")
#: What the survey has wrong: drafter class, first and last release, and what the class is instead.
WRONG = (("MistralLarge3ForCausalLMEagle", "0.5.6.post2", "0.5.9", BROKEN),)
each_release = pytest.mark.parametrize("release", SHIPPED)


def within(release, first, last):
    return version_key(first) <= version_key(release) <= version_key(last)


def rows(part, release):
    return [row for row in SURVEY[part] if within(release, row["first"], row["last"])]


def differences(found, says):
    """Fields in which a record is not as the survey says."""
    plain = {name: getattr(found, name) for name in says}
    if "shifts" in plain:
        plain["shifts"] = [{name: getattr(one, name) for name in one.__struct_fields__} for one in plain["shifts"]]
    plain = json.loads(msgspec.json.encode(plain))
    return {name: plain[name] for name in says if plain[name] != says[name]}


@each_release
def test_ids_are_read_where_the_survey_found_them(release):
    profile = load_profile("sglang", release)
    for row in rows("readings", release):
        reading = profile.readings[row["method"]]
        assert reading.status == FITTED, reading.reason
        assert not differences(reading, row["says"]), row["method"]
    for row in rows("requires", release):
        assert row["key"] in profile.readings[row["method"]].requires
    for row in rows("absent", release):
        assert row["method"] not in profile.readings


@each_release
def test_graphs_replay_what_the_survey_found(release):
    profile = load_profile("sglang", release)
    for row in rows("graphs", release):
        graphs = profile.graphs[row["method"]]
        assert not differences(graphs, row["says"]), (row["method"], graphs.reason)


@each_release
def test_buffers_are_sized_from_what_the_survey_found(release):
    buffers = load_profile("sglang", release).buffers
    for row in rows("buffers", release):
        if row["says"] is None:
            assert not buffers
        else:
            assert not differences(buffers["EAGLE3"], row["says"])


@each_release
def test_a_drafter_inherits_what_the_survey_found(release):
    launch = load_profile("sglang", release).launch
    for row in rows("launch", release):
        assert not differences(launch, row.get("says", {}))
        assert not differences(launch.overrides, row.get("overrides", {}))


@each_release
def test_drafter_classes_do_what_the_survey_found(release):
    drafters = load_profile("sglang", release).drafters
    for row in rows("drafters", release):
        for name in row["classes"]:
            drafter = drafters[name]
            wrong = [status for one, first, last, status in WRONG if one == name and within(release, first, last)]
            assert drafter.status == (wrong[0] if wrong else FITTED), (name, drafter.reason)
            if wrong:
                continue
            assert not differences(drafter, row.get("says", {})), name
            for field, part in row.get("ends", {}).items():
                assert list(getattr(drafter, field))[-len(part) :] == part, name
            for field, part in row.get("starts", {}).items():
                assert list(getattr(drafter, field))[: len(part)] == part, name
            assert set(row.get("loads", ())) <= set(drafter.loads), name
            assert set(row.get("ignores", ())) <= set(drafter.ignores), name
            assert row.get("lm_head", {}).items() <= drafter.lm_head.items(), name


@each_release
def test_every_class_that_a_checkpoint_becomes_in_draft_mode_is_a_drafter_class(release):
    profile = load_profile("sglang", release)
    assert set(profile.rewrites.values()) <= set(profile.drafters)


@each_release
def test_at_least_nineteen_of_twenty_drafter_classes_have_an_answer(release):
    drafters = load_profile("sglang", release).drafters
    decided = [name for name, one in drafters.items() if one.status in {FITTED, BROKEN}]
    assert len(decided) >= 0.95 * len(drafters), sorted(set(drafters) - set(decided))
