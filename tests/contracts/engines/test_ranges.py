"""Releases as ranges of those known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.engines.ranges import span_text, spans

KNOWN = ("0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12")


def test_neighbours_are_one_range_and_the_newest_is_open():
    assert span_text(KNOWN, ["0.5.9", "0.5.10", "0.5.11", "0.5.12"]) == "0.5.9 to 0.5.10, from 0.5.11 on"
    assert span_text(KNOWN, ["0.5.12"]) == "0.5.12"
    assert span_text(KNOWN, []) == ""
    assert [span.phrase() for span in spans(KNOWN, KNOWN[3:])] == ["from 0.5.11 on"]
    assert [span.phrase() for span in spans(KNOWN, KNOWN[:2])] == ["in 0.5.9 to 0.5.10"]


def test_a_range_knows_what_follows_it_and_whether_it_is_the_oldest():
    first, second = spans(KNOWN, ["0.5.9", "0.5.11"])
    assert (first.following, first.oldest) == ("0.5.10", True)
    assert (second.following, second.oldest) == ("0.5.12", False)
    assert spans(KNOWN, ["0.5.12"])[0].following == ""


@given(st.sets(st.sampled_from(KNOWN)))
def test_ranges_hold_every_member_once_and_nothing_else(members):
    held = []
    for span in spans(KNOWN, members):
        held += KNOWN[KNOWN.index(span.first) : KNOWN.index(span.last) + 1]
    assert held == [release for release in KNOWN if release in members]
