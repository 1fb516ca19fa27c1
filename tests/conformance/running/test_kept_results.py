"""Kept results of running engines: the shipped profiles still predict them, and the page is made from them."""

from __future__ import annotations

import os

import compare
import page
import pytest
import results

from drafter_contracts.engines import store

FOUND = results.load()
JUDGED = [release for release in page.ordered(FOUND["releases"]) if release in store.releases("sglang")]
PAGE = os.path.join(os.path.dirname(results.PATH), *[os.pardir] * 3, "docs", "conformance.md")


@pytest.mark.parametrize("release", JUDGED)
def test_the_shipped_profile_predicts_what_the_engine_did(release):
    for shape, rows in page.judged(release, FOUND["releases"][release]).items():
        for row in rows:
            assert row["counts"] != "different", f"{shape}: {page.example(row)}"


def test_every_open_difference_still_occurs():
    judged = [page.judged(release, FOUND["releases"][release]) for release in JUDGED]
    seen = {row["why"] for shapes in judged for rows in shapes.values() for row in rows if row["counts"] == "open"}
    assert seen == set(compare.OPEN)


def test_the_page_is_what_the_results_and_profiles_say():
    with open(PAGE, encoding="utf-8") as file:
        assert file.read() == page.page(FOUND), "make docs writes it"


def answer(distances, own=None):
    parts = [{"square": row, "most": [2 * value for value in row]} for row in distances]
    own = own and [{"square": row, "most": row} for row in own]
    return {"parts": parts, "own": own}


def test_a_state_is_the_boundary_that_it_is_clearly_nearest_to():
    assert compare.identified(answer([[5.0, 0.1, 6.0]])) == {"boundaries": [1], "right": 0.2, "wrong": 10.0}
    assert compare.identified(answer([[5.0, 4.0, 6.0]]))["boundaries"] == [-1]


def test_what_the_engines_own_layers_were_given_decides_where_transformers_cannot():
    found = compare.identified(answer([[5.0, 4.0, 6.0]], [[5.0, 4.0, 0.0]]))
    assert (found["boundaries"], found["against"]) == ([2], "own layers")
    assert compare.identified(answer([[5.0, 4.0, 6.0]], [[5.0, 4.0, 6.0]]))["boundaries"] == [-1]


@pytest.mark.parametrize(
    ("expected", "seen", "same"),
    [
        ({"boundaries": [1, 3]}, {"boundaries": [1, 3]}, True),
        ({"boundaries": [1, 3]}, {"boundaries": [3, 1]}, False),
        ({"boundaries": [1, 3]}, {"boundaries": [1]}, False),
        ({"boundaries": []}, {"phase": "forward", "error": "ValueError", "where": "srt/models/a.py:1"}, False),
        ({"phase": "setter", "error": "IndexError"}, {"phase": "setter", "error": "IndexError"}, True),
        ({"phase": "setter", "error": "IndexError"}, {"phase": "forward", "error": "IndexError"}, False),
        ({"phase": "setter", "error": "IndexError"}, {"boundaries": [1]}, False),
        ({"phase": "forward", "error": "broken"}, {"error": "ValueError", "where": "srt/models/a.py:1"}, True),
        ({"phase": "forward", "error": "broken"}, {"error": "ValueError", "where": "srt/layers/a.py:1"}, False),
        ({"phase": "opaque", "error": "no rule"}, {"boundaries": [1]}, False),
    ],
)
def test_a_prediction_and_an_observation_are_compared_whole(expected, seen, same):
    assert compare.agrees(expected, seen) is same
