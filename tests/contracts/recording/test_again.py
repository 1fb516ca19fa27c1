"""Publishing again with a release that reads more off the files is the same publication."""

from __future__ import annotations

import msgspec
import pytest

from drafter_contracts.manifest import Recommended
from drafter_contracts.recording.again import recorded_before
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement

NAMED = Statement(name="d", version="1.0", boundaries=(3, 15, 28), option="--boundaries 3,15,28")
replace = msgspec.structs.replace


@pytest.fixture
def recorded(drafters, fitting_target, listed):
    facts = drafters["eagle3"]
    return record(facts, NAMED, fitting_target(facts), listed)


def test_what_is_stored_is_the_same_publication(recorded):
    assert recorded_before(recorded.manifest, recorded)


@pytest.mark.parametrize("field", ["context_length", "attention", "rope_theta", "has_lm_head"])
def test_a_fact_that_was_not_read_in_those_days_changes_nothing(recorded, field):
    unread = None if field != "attention" else ""
    assert getattr(recorded.manifest.draft, field) not in (None, "")
    stored = replace(recorded.manifest, draft=replace(recorded.manifest.draft, **{field: unread}))
    assert recorded_before(stored, recorded)


def test_another_reason_in_words_changes_nothing(recorded):
    layout = replace(recorded.manifest.layout, evidence=("as it was said in those days",))
    assert recorded_before(replace(recorded.manifest, layout=layout), recorded)


def test_a_fact_that_is_read_otherwise_today_is_another_publication(recorded):
    stored = replace(recorded.manifest, draft=replace(recorded.manifest.draft, context_length=7))
    assert not recorded_before(stored, recorded)


def test_a_fact_that_is_no_longer_recorded_is_another_publication(recorded):
    stored = replace(recorded.manifest, recommended=Recommended(steps=3))
    assert not recorded_before(stored, recorded)


def test_new_words_are_another_publication(recorded, drafters, fitting_target, listed):
    facts = drafters["eagle3"]
    more = record(facts, replace(NAMED, steps=3), fitting_target(facts), listed)
    assert more.manifest.recommended.steps == 3
    assert not recorded_before(recorded.manifest, more)


def test_other_files_are_another_publication(recorded):
    files = tuple(replace(file, sha256="0" * 64) for file in recorded.manifest.files)
    assert not recorded_before(replace(recorded.manifest, files=files), recorded)


def test_obstacles_are_no_publication(recorded):
    assert not recorded_before(recorded.manifest, replace(recorded, manifest=None))
