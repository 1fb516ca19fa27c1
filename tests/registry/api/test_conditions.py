from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_registry.api import conditions
from drafter_registry.api.conditions import Span
from drafter_registry.errors import InvalidError, RangeError


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        ('"a"', True),
        ('W/"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("a", False),
        ("", False),
        ('"b" "a"', False),
        ('"a,b"', False),
    ],
)
def test_a_list_of_tags_is_compared_weakly(header, matches):
    assert conditions.not_modified(header, "a") is matches


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-0", Span(0, 1)),
        ("bytes=2-5", Span(2, 6)),
        ("bytes=2-", Span(2, 10)),
        ("bytes=-3", Span(7, 10)),
        ("bytes=-30", Span(0, 10)),
        ("bytes=8-900", Span(8, 10)),
        ("bytes=0-1,4-5", None),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("lines=0-1", None),
        ("bytes=x-1", None),
        ("bytes=99999999999999999999-", None),
    ],
)
def test_a_single_range_is_cut_to_the_file(header, span):
    assert conditions.single_range(header, 10) == span


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_a_range_outside_the_file_is_refused(header):
    with pytest.raises(RangeError):
        conditions.single_range(header, 10)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 50), st.integers(0, 50))
def test_a_range_is_what_slicing_gives(data, start, length):
    try:
        span = conditions.single_range(f"bytes={start}-{start + length}", len(data))
    except RangeError:
        assert start >= len(data)
    else:
        assert data[span.start : span.end] == data[start : start + length + 1]


@pytest.mark.parametrize(
    ("header", "holds"), [("", True), ('"a"', True), ('W/"a"', False), ('"b"', False), ("Tue, 1 Jan", False)]
)
def test_a_range_holds_only_under_the_same_strong_tag(header, holds):
    assert conditions.range_holds(header, "a") is holds


def test_a_chunk_says_where_it_belongs():
    assert conditions.upload_range("") is None
    assert conditions.upload_range("0-9") == Span(0, 10)
    assert conditions.upload_range("bytes 5-9/*") == Span(5, 10)
    for wrong in ("9-5", "5", "a-b", "5-9/x", "-5"):
        with pytest.raises(InvalidError):
            conditions.upload_range(wrong)


def test_a_move_expects_a_revision_or_none_or_nothing():
    assert conditions.expected_revision("", "") is None
    assert conditions.expected_revision('"3"', "") == 3
    assert conditions.expected_revision("", "*") == 0
    for match, none_match in [
        ('"0"', ""),
        ("3", ""),
        ('W/"3"', ""),
        ('"3", "4"', ""),
        ('"x"', ""),
        ("", '"3"'),
        ("*", ""),
        ('"3"', "*"),
    ]:
        with pytest.raises(InvalidError):
            conditions.expected_revision(match, none_match)
