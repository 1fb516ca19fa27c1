"""Tables for people: aligned, cut where the terminal ends, and nothing in them that a terminal would obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_cli.table import UNLIMITED, Column, layout

COLUMNS = (Column("NAME", shrinks=True), Column("SIZE", leaves=2, right=True), Column("NOTE", leaves=1))
ROWS = [("kimi-k2.5-eagle3@1.0.0", "2.4 GB", "trained on boundaries 3, 31, 59"), ("b@1", "7 B", "")]


def test_columns_are_aligned():
    assert layout(COLUMNS, ROWS, width=UNLIMITED) == (
        "NAME                      SIZE  NOTE",
        "kimi-k2.5-eagle3@1.0.0  2.4 GB  trained on boundaries 3, 31, 59",
        "b@1                        7 B",
    )


def test_what_does_not_fit_leaves_in_its_order_and_then_is_cut():
    assert layout(COLUMNS, ROWS, width=40)[1] == "kimi-k2.5-eagle3@1.0.0  2.4 GB"
    assert layout(COLUMNS, ROWS, width=20)[1] == "kimi-k2.5-e~  2.4 GB"
    assert layout(COLUMNS, ROWS, width=9)[1] == "kimi-k2.~"
    assert layout(COLUMNS, ROWS, width=1)[1] == "kimi-k2~"


def test_a_column_without_any_text_is_left_out():
    assert layout(COLUMNS, [("a", "", "x"), ("b", "", "")], width=80) == ("NAME  NOTE", "a     x", "b")


def test_signs_that_a_terminal_obeys_are_escaped():
    assert "\x1b" not in layout(COLUMNS, [("a\x1b[2J", "", "x\ny")], width=80)[1]
    assert "\n" not in layout(COLUMNS, [("a", "", "x\ny")], width=80)[1]


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1, max_size=5), st.integers(1, 200))
def test_no_line_is_wider_than_the_terminal_or_than_what_must_stay(rows, width):
    lines = layout(COLUMNS, rows, width=width)
    assert len(lines) == len(rows) + 1
    assert all(len(line) <= max(width, 8) for line in lines[1:])


@pytest.mark.parametrize("width", [9, 20, 40, UNLIMITED])
def test_all_rows_have_the_same_columns(width):
    first, second = layout(COLUMNS, [("a", "1", "n"), ("b", "2", "m")], width=width)[1:]
    assert len(first) == len(second)
