"""The commands in a shell text."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.serving.shell import commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", [["a", "b"]]),
        ("a --n 8 > log 2>&1", [["a", "--n", "8"]]),
        ("a 8>log", [["a"]]),
        ("a &> log; b >> 'x y' c", [["a"], ["b", "c"]]),
        ("cd /x && a || b | c & d", [["cd", "/x"], ["a"], ["b"], ["c"], ["d"]]),
        ("a \\\n --b c\nd", [["a", "--b", "c"], ["d"]]),
        ('a \'\' "x $Y \\" \\n" z\\ z', [["a", "", 'x $Y " \\n', "z z"]]),
        ("a # not this\nb", [["a"], ["b"]]),
        ("a x#y", [["a", "x#y"]]),
        ("(a; b)", [["a"], ["b"]]),
        ("a 'open", []),
        ('a "open', []),
        ("", []),
    ],
)
def test_commands(text, expected):
    assert commands(text) == expected


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_quoted_words_come_back(words):
    assert commands(shlex.join(words)) == [words]
