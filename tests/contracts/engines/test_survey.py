"""The shipped profiles against a survey of the same releases that was made by reading, class by class.

Where the two differ, the release's source was read again: what the survey has wrong is listed here and told on
`docs/profiles-survey.md`, with the line that decides. Releases whose profile is not shipped are passed over.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.profile import BROKEN, FITTED, OPAQUE
from drafter_contracts.engines.store import load_profile, releases, version_key
from drafter_contracts.layout import STATES

SURVEY = json.loads((Path(__file__).parents[2] / "data/survey/targets.json").read_text(encoding="utf-8"))
SHIPPED = releases("sglang")
#: What the survey has wrong: class, method (or "" for all), first and last release, and what the class is instead.
WRONG = (
    ("Qwen2ForCausalLM", "", "0.5.2", "0.5.2", BROKEN),
    ("Glm4MoeLiteForCausalLM", "", "0.5.8", "0.5.12.post1", BROKEN),
    ("Qwen2_5_VLForConditionalGeneration", "", "0.5.5.post3", "0.5.5.post3", BROKEN),
    ("InternS1ProForConditionalGeneration", "", "0.5.13", "0.5.23", BROKEN),
    ("Gemma4UnifiedForConditionalGeneration", "", "0.5.18", "0.5.20", BROKEN),
)
#: Exceptions that the survey has wrong: release, row, and what is raised instead.
RAISED = {(f"0.5.{i}", "section 5, table: a packer counts"): "AssertionError" for i in (17, 18, 19)}
each_release = pytest.mark.parametrize("release", SHIPPED)


def within(release, first, last):
    return version_key(first) <= version_key(release) <= version_key(last)


def wrong(architecture, method, release):
    return next(
        (
            status
            for name, of, first, last, status in WRONG
            if name == architecture and of in ("", method) and within(release, first, last)
        ),
        "",
    )


def rows(part, release):
    """Rows of a part of the survey that speak of a release, one per class that the release has the hook for."""
    profile = load_profile("sglang", release)
    for row in SURVEY[part]:
        for name in row["classes"] if within(release, row["first"], row["last"]) else ():
            rule = profile.capture_method(name, row["method"])
            if rule is not None:
                yield row, name, rule


def span(cell):
    first, _, last = cell.partition(" to ")
    return first, last or "0.5.23"


@each_release
def test_a_hook_is_there_from_the_release_on_that_the_survey_names(release):
    profile = load_profile("sglang", release)
    for name, methods in SURVEY["hooks"].items():
        for method, cell in methods.items():
            if within(release, *span(cell)):
                assert profile.capture_method(name, method) is not None, (name, method)
            elif release in SURVEY["analysed"]:
                assert profile.capture_method(name, method) is None, (name, method)


@each_release
def test_no_class_has_a_hook_that_the_survey_does_not_name(release):
    if release not in SURVEY["analysed"]:
        pytest.skip("the survey did not look at this release")
    profile = load_profile("sglang", release)
    for name in profile.targets:
        for method in ("EAGLE3", "DFLASH"):
            rule = profile.capture_method(name, method)
            if rule is not None and rule.status != OPAQUE:
                assert method in SURVEY["hooks"].get(name, {}), (name, method)


@each_release
def test_ids_become_the_boundaries_that_the_survey_names(release):
    for row, name, rule in rows("captures", release):
        label = (row["what"], name, row["method"])
        differs = wrong(name, row["method"], release) or any(
            name in other["classes"]
            and other["method"] == row["method"]
            and within(release, other["first"], other["last"])
            for other in SURVEY["broken"]
        )
        if differs:
            assert rule.status == BROKEN, label
            continue
        assert rule.status == FITTED, label
        for ids, wanted in row["captures"]:
            capture = capture_once(rule, row["layers"], ids)
            found = capture.error or [tap.boundary for tap in capture.taps]
            raised = RAISED.get((release, row["what"]), wanted) if isinstance(wanted, str) else wanted
            assert bool(capture.error) if raised == "error" else found == raised, (*label, ids)
            assert rule.capture.state in STATES, label


@each_release
def test_what_cannot_work_by_the_survey_is_broken(release):
    for row, name, rule in rows("broken", release):
        assert rule.status == BROKEN, (row["what"], name)


@each_release
def test_a_state_that_is_no_residual_stream_by_the_survey_is_called_so(release):
    for row, name, rule in rows("foreign", release):
        assert capture_once(rule, 32, [3, 7]).foreign, (row["what"], name)


@each_release
def test_what_the_survey_has_wrong_is_as_the_page_says(release):
    profile = load_profile("sglang", release)
    for name, of, first, last, status in WRONG:
        for method in profile.targets.get(name, {}) if within(release, first, last) else ():
            if of in ("", method):
                assert profile.capture_method(name, method).status == status, (name, method)


@pytest.mark.parametrize("release", sorted(SURVEY["field"]["without"]))
def test_every_target_of_a_drafter_in_the_field_is_fitted_where_the_release_has_the_hook(release):
    profile, field = load_profile("sglang", release), SURVEY["field"]
    for name in [*field["captures"], *field["none"]]:
        methods = [m for m in ("EAGLE3", "DFLASH", "DSPARK") if profile.capture_method(name, m) is not None]
        assert bool(methods) == (name in field["captures"] and name not in field["without"][release]), name
        for method in methods:
            broken = [name, method] in field["broken"][release]
            assert profile.capture_method(name, method).status == (BROKEN if broken else FITTED), (name, method)


@each_release
def test_nineteen_of_twenty_hooks_that_can_work_are_understood(release):
    profile = load_profile("sglang", release)
    found = [profile.capture_method(name, method) for name in profile.targets for method in profile.targets[name]]
    statuses = [rule.status for rule in found if rule is not None]
    assert statuses.count(FITTED) >= 0.95 * (len(statuses) - statuses.count(BROKEN))
