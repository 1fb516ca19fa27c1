"""A survey of launch options, written by reading, against the shipped profiles, derived by running.

Where the survey was wrong, `refuted` in the data says so with the place in the release, and the test asserts that
the profile differs there: a statement is either confirmed or refuted, never skipped.
"""

import functools
import json
from pathlib import Path

import pytest

from drafter_contracts.engines.store import load_profile, releases, version_key

SURVEY = json.loads((Path(__file__).parents[2] / "data" / "survey" / "launch.json").read_text())
SHIPPED = [release for release in releases("sglang") if release in SURVEY["surveyed"]]
REFUTED = {(entry["about"], release) for entry in SURVEY["refuted"] for release in entry["releases"]}

launch = functools.cache(lambda release: load_profile("sglang", release).launch)


def within(release, first, last):
    return version_key(first) <= version_key(release) <= version_key(last)


def agrees(about, release, seen, stated):
    """Whether profile and survey agree; turned round where the survey is known to be wrong."""
    return (seen == stated) != ((about, release) in REFUTED)


def in_range(statements):
    return [(row, release) for row in statements for release in SHIPPED if within(release, row["from"], row["to"])]


def test_there_is_something_to_compare():
    assert len(SHIPPED) >= 6


@pytest.mark.parametrize("option", SURVEY["options"])
def test_options_come_and_go(option):
    span = SURVEY["options"][option]
    first, last = span.get("first", SURVEY["surveyed"][0]), span.get("last", SURVEY["surveyed"][-1])
    wrong = [
        release
        for release in SHIPPED
        if not agrees(
            option, release, any(option in flag.names for flag in launch(release).flags), within(release, first, last)
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("algorithm", SURVEY["algorithms"])
def test_algorithms_come(algorithm):
    first = SURVEY["algorithms"][algorithm]
    wrong = [
        release
        for release in SHIPPED
        if not agrees(
            algorithm,
            release,
            algorithm in launch(release).speculative.algorithms,
            version_key(release) >= version_key(first),
        )
    ]
    assert wrong == []


def test_automatic_numbers():
    for row, release in in_range(SURVEY["automatic"]):
        auto = launch(release).speculative.auto
        chosen = auto.get(row["architecture"]) or auto.get("*")
        seen = [chosen.steps, chosen.topk, chosen.draft_tokens] if chosen else None
        assert agrees("automatic", release, seen, row["triple"]), (release, row, seen)


def test_topk_above_one_with_pages():
    for row, release in in_range(SURVEY["topk_above_one_with_pages"]):
        rules = launch(release).speculative
        needs = sorted(rules.topk_needs) if rules.topk_needs is not None else None
        stated = (row.get("becomes_one", False), row.get("backends"))
        assert agrees("pages", release, (rules.topk_paged_one, needs), stated), (release, row, needs)


def test_overlap_scheduler():
    for row, release in in_range(SURVEY["overlap"]):
        assert agrees("overlap", release, launch(release).speculative.overlap, row["is"]), (release, row)


@pytest.mark.parametrize(
    ("key", "see"),
    [
        ("any_name_from", lambda rules: rules.speculative.open),
        ("chain_of_topk_one_from", lambda rules: rules.speculative.topk1_tokens == "S+1"),
        ("plugins_from", lambda rules: rules.plugins == "sglang.srt.plugins"),
        ("draft_revision_main_from", lambda rules: rules.speculative.draft_revision == "main"),
        ("serve_from", lambda rules: "serve" in rules.entries),
        ("config_mapping_json_from", lambda rules: bool(rules.config_file and rules.config_file.mapping == "json")),
    ],
)
def test_what_begins_with_a_release(key, see):
    first = SURVEY[key]
    wrong = [r for r in SHIPPED if not agrees(key, r, see(launch(r)), version_key(r) >= version_key(first))]
    assert wrong == []


def test_nothing_of_the_launch_rules_is_left_unfitted():
    left = {r: launch(r).speculative.unfitted | launch(r).unknown for r in releases("sglang")}
    allowed = SURVEY["left_unfitted"]
    assert {r: sorted(what) for r, what in left.items() if what} == {
        r: sorted(names) for r, names in allowed.items() if r in left
    }


def test_a_rule_about_serve_rests_on_the_command_s_own_file():
    profiles = [load_profile("sglang", release) for release in releases("sglang")]
    wrong = [p.release for p in profiles if (p.launch.serve is not None) != ("../cli/serve.py" in p.sources)]
    assert wrong == []
