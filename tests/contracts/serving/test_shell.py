"""The commands in a shell text."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.serving.shell import OpenWord, commands


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


KNOWN = {"MODEL": "/m", "MORE": "--a  b", "EMPTY": "", "HOME": "/h"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a $MODEL ${MODEL}x", [["a", "/m", "/mx"]]),
        ('a $MORE x$MORE "$MORE" $EMPTY', [["a", "--a", "b", "x--a", "b", "--a  b"]]),
        ("A='-x y'; c $A; export B=$MODEL && c $B", [["A=-x y"], ["c", "-x", "y"], ["export", "B=/m"], ["c", "/m"]]),
        ("set -e; A=1 && B=2\nc $A $B", [["set", "-e"], ["A=1"], ["B=2"], ["c", "1", "2"]]),
        ("c ~;c ~", [["c", "/h"], ["c", "/h"]]),
        ("c ~/x '~' ~you", [["c", "/h/x", "~", "~you"]]),
        ("c '$MODEL' \\$MODEL", [["c", "$MODEL", "$MODEL"]]),
    ],
)
def test_known_variables_are_expanded(text, expected):
    assert commands(text, KNOWN) == expected


@pytest.mark.parametrize(
    "word",
    ["$X", '"$X"', '"$@"', "$1", "${X:-y}", "$(x)", "$(x; y (z))", "`x`", "a$X", "a$(x)b", "{--a,b}", "--$X=1", "<(x)"],
)
def test_a_word_that_may_become_others_is_marked(word):
    (words,) = commands(f"c --switch=1 {word} end")
    assert [isinstance(found, OpenWord) for found in words] == [False, False, True, False]


@pytest.mark.parametrize("word", ['--a "$X"', '--a="$X"', '--a "$(x)"', "'$X'", '--a "{x,y}"'])
def test_a_word_that_stays_one_value_is_not(word):
    (words,) = commands(f"c {word} end")
    assert not any(isinstance(found, OpenWord) for found in words)
    assert words[-1] == "end"


@pytest.mark.parametrize(
    "before",
    [
        "read MODEL",
        "for MODEL in 1",
        "source x",
        "if x; then MODEL=y; fi",
        "if x\nthen\nMODEL=y\nfi",
        "[ x ] && MODEL=y",
        "x || MODEL=y",
        "MODEL=$(x)",
        "MODEL+=y",
        "MODEL=(y z)",
        "(MODEL=y)",
        "MODEL=y | x",
        "MODEL=y & x",
    ],
)
def test_a_variable_that_may_have_changed_is_not_known(before):
    assert commands(f"{before}; c $MODEL", KNOWN)[-1] == ["c", "$MODEL"]


def test_a_here_document_is_no_list_of_commands():
    assert commands("cat <<EOF\na b\nEOF") == []


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_quoted_words_come_back(words):
    assert commands(shlex.join(words)) == [words]
