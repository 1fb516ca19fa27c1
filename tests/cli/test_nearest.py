from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_cli.nearest import distance, nearest

WORDS = st.text("abcd", max_size=6)


@given(WORDS, WORDS, WORDS)
def test_distance_is_symmetric_and_zero_only_for_equal_words(left, right, other):
    assert distance(left, right) == distance(right, left)
    assert (distance(left, right) == 0) == (left == right)
    assert distance(left, right) <= max(len(left), len(right))
    assert distance(left + other, right + other) <= distance(left, right)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("chekc", "check"), ("gaurd", "guard"), ("insp", "inspect"), ("Check", "check"), ("zebra", ""), ("", "")],
)
def test_nearest(word, expected):
    assert nearest(word, ("inspect", "check", "guard", "explain")) == expected
