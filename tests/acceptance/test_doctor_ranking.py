"""Causes in the order in which to look at them, and the word that follows."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.causes import CONFIDENCES, Cause, Open, conclude, is_bad, rank
from drafter_contracts.acceptance.causes_of_engine import conditions
from drafter_contracts.acceptance.promises import Promise, nearest
from drafter_contracts.acceptance.records import (
    AS_PROMISED,
    COLLAPSED,
    DEGRADED,
    NOT_PROMISED,
    TOO_LITTLE,
    Conditions,
    Judgement,
)
from drafter_contracts.manifest_records import Acceptance

CODES = ("CAPTURE_LAYERS", "SPECULATION_OFF", "TEMPLATE_REPLACED", "DTYPE", "STATES_DIFFER", "CONDITIONS_DIFFER")
OPEN = Open(what="x", why="y", settle="z", decides=True)
SMALL = Open(what="x", why="y", settle="z")


def cause(code, confidence):
    return Cause(code=code, message=code.lower(), confidence=confidence)


def seen(word, **values):
    return Judgement(word=word, alpha=0.01, readings=9, reason="so it is", **values)


causes = st.lists(st.builds(cause, st.sampled_from(CODES), st.sampled_from(CONFIDENCES)), max_size=12)


@given(causes)
@settings(deadline=None, max_examples=60)
def test_ranking_keeps_each_once_and_the_surest_first(found):
    ranked = rank(found)
    assert {one.code for one in ranked} == {one.code for one in found}
    assert len({(one.code, one.message) for one in ranked}) == len(ranked)
    places = [CONFIDENCES.index(one.confidence) for one in ranked]
    assert places == sorted(places)
    assert rank(ranked) == ranked


def test_what_explains_more_comes_first_among_equals():
    found = [
        cause(code, "seen") for code in ("CONDITIONS_DIFFER", "CAPTURE_LAYERS", "SPECULATION_OFF", "STATES_DIFFER")
    ]
    assert [one.code for one in rank(found)] == [
        "SPECULATION_OFF",
        "STATES_DIFFER",
        "CAPTURE_LAYERS",
        "CONDITIONS_DIFFER",
    ]


@pytest.mark.parametrize(
    ("found", "left_open", "judgement", "word"),
    [
        ([], [], seen(AS_PROMISED), "nothing wrong found"),
        ([], [SMALL], seen(AS_PROMISED), "nothing wrong found"),
        ([], [OPEN], seen(AS_PROMISED), "cannot be told"),
        ([], [], seen(NOT_PROMISED), "nothing wrong found"),
        ([], [OPEN], seen(NOT_PROMISED), "cannot be told"),
        ([], [], seen(NOT_PROMISED, never_accepted=True), "cause found"),
        ([], [], seen(TOO_LITTLE), "cannot be told"),
        ([], [], None, "cannot be told"),
        ([], [], seen(DEGRADED), "cause found"),
        ([], [OPEN], seen(COLLAPSED), "cause found"),
        (["possible"], [], seen(AS_PROMISED), "nothing wrong found"),
        (["possible"], [], seen(DEGRADED), "cause found"),
        (["possible"], [], None, "cannot be told"),
        (["seen"], [], seen(AS_PROMISED), "cause found"),
        (["proved"], [OPEN], None, "cause found"),
    ],
)
def test_the_word(found, left_open, judgement, word):
    told, ranked = conclude([cause("DTYPE", one) for one in found], left_open, judgement)
    assert told == word
    unexplained = is_bad(judgement) and not found
    assert [one.code for one in ranked] == (["UNEXPLAINED"] if unexplained else ["DTYPE"] * len(found))


def test_the_unexplained_points_at_the_states():
    states = Open(what="the states fed, by their numbers", why="none", settle="drafters fingerprint")
    _, (one,) = conclude([], [SMALL, states], seen(COLLAPSED))
    assert (one.next, one.evidence, one.confidence) == ("drafters fingerprint", ("so it is",), "seen")
    _, (one,) = conclude([], [SMALL], seen(COLLAPSED))
    assert one.next.startswith("drafters verify")


@pytest.mark.parametrize("told", [False, True])
def test_conditions_that_differ_are_apart_from_those_that_nobody_says(told):
    """By the words in which the nearest promise says them."""
    kept = Acceptance(length=2.8, engine="sglang 0.5.20", steps=3, topk=1, draft_tokens=4, target_dtype="float16")
    kept = msgspec.structs.replace(kept, dataset="mt-bench")
    runs = Conditions(
        engine="sglang", release="0.5.23", steps=3, topk=1, draft_tokens=4, target_dtype="bfloat16", temperature=0.7
    )
    differs = nearest([Promise(acceptance=kept)], runs).differs
    other, unsaid = conditions(seen(DEGRADED, differs=differs, promise="2.80"), told=told)
    assert (other.code, other.confidence) == ("CONDITIONS_DIFFER", "possible")
    assert "0.5.20" in other.message
    assert ("float16" in other.message) is not told
    assert "mt-bench" not in other.message
    assert "temperature" not in other.message
    assert "mt-bench" in unsaid.why
    assert "temperature" in unsaid.why
    assert not unsaid.decides
    assert conditions(None, told=told) == conditions(seen(DEGRADED), told=told) == ()
