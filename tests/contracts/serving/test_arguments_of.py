"""Option values written as arguments: what is written reads back to the same, and what cannot be written is told."""

from __future__ import annotations

import dataclasses
import enum
import os
import pathlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.launch_rules import Flag, flag_dest
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.arguments_of import arguments_of, plain, record_fields, stated_values
from drafter_contracts.serving.parse import parse_arguments

RELEASES = ("0.4.6.post5", "0.5.2", "0.5.9", "0.5.15", "0.5.23")
FLAGS = {release: load_profile("sglang", release).launch.flags for release in RELEASES}

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
KINDS = {"str": texts, "nullable_str": texts, "int": st.integers(), "human_int": st.integers(), "float": numbers}


def values_of(flag):
    """Values that a caller in Python may give for an option, right and wrong ones."""
    if flag.action in ("store_true", "store_false", "BooleanOptionalAction"):
        return st.booleans()
    one = KINDS.get(flag.type.partition("?")[0], json_values)
    if flag.choices is not None:
        one = st.sampled_from(flag.choices)
    many = st.lists(one, max_size=4)
    wanted = many if flag.nargs in ("+", "*") or flag.nargs.isdecimal() else one
    return st.one_of(wanted, wanted, wanted, json_values)


@st.composite
def launches(draw):
    """A release's flag table, and values for some of its options."""
    release = draw(st.sampled_from(RELEASES))
    chosen = draw(st.lists(st.sampled_from(FLAGS[release]), unique_by=flag_dest, max_size=6))
    chosen = [flag for flag in chosen if flag.action not in ("help", "version")]
    return FLAGS[release], {flag_dest(flag): draw(values_of(flag)) for flag in chosen}


def read(flags, argv):
    found = parse_arguments(flags, argv)
    assert [problem for problem in found.problems if problem.kind != "required"] == []
    return found


@settings(max_examples=100, deadline=None)
@given(launches())
def test_what_is_written_reads_back_to_the_same_values_and_nothing_else_is_given(launch):
    flags, values = launch
    written = arguments_of(flags, values)
    found = read(flags, written.argv)
    left = written.unknown.keys() | written.unwritable.keys()
    assert found.given.keys() <= values.keys() - left
    for name in values.keys() - left:
        assert found.values[name] == plain(values[name])
        assert isinstance(found.values[name], bool) == isinstance(values[name], bool)


@settings(max_examples=50, deadline=None)
@given(launches())
def test_whatever_a_command_line_can_say_can_be_written_again(launch):
    """The inverse: the values of a command line are written as one that reads to the same values."""
    flags, values = launch
    said = read(flags, arguments_of(flags, values).argv)
    again = arguments_of(flags, {name: said.values[name] for name in said.given})
    assert not again.unknown
    assert not again.unwritable
    assert read(flags, again.argv).values == said.values


@pytest.mark.parametrize("release", RELEASES)
def test_every_default_can_be_written_or_is_left_out(release):
    defaults = parse_arguments(FLAGS[release], []).values
    for flag in FLAGS[release]:
        if flag.action not in ("help", "version", "ignore", "refuse"):
            written = arguments_of(FLAGS[release], {flag_dest(flag): defaults[flag_dest(flag)]})
            assert (written.unknown, written.unwritable) == ({}, {}), flag.names
            assert read(FLAGS[release], written.argv).values == defaults


@pytest.mark.parametrize("release", RELEASES)
def test_any_long_name_of_an_option_is_its_name(release):
    written = arguments_of(FLAGS[release], {"tp_size": 8})
    assert written == arguments_of(FLAGS[release], {"tensor_parallel_size": 8})
    assert read(FLAGS[release], written.argv).given


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: tuple = ()


class Struct(msgspec.Struct):
    x: int
    y: Point


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (pathlib.Path("a/b"), os.path.join("a", "b")),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
        (Struct(1, Point(2, (3,))), {"x": 1, "y": {"x": 2, "y": [3]}}),
        ({"a": pathlib.Path("b")}, {"a": "b"}),
        (None, None),
    ],
)
def test_values_of_python_become_values_of_json(given, made):
    assert plain(given) == made


TABLE = (
    Flag(("--path",), required=True),
    Flag(("--steps", "--step-count"), type="int"),
    Flag(("--old-steps",), dest="steps", type="int", deprecated="use --steps"),
    Flag(("--objects",), type="json"),
    Flag(("--many",), nargs="+", type="int"),
    Flag(("--on", "--no-on"), action="BooleanOptionalAction", default=None),
    Flag(("--quiet",), action="store_false", dest="loud", default=True),
    Flag(("--mode",), choices=("a", "b"), default="a"),
    Flag(("--each",), action="append"),
    Flag(("--text",), default="x"),
    Flag(("--gone",), action="refuse"),
)


@pytest.mark.parametrize(
    ("name", "value", "argv"),
    [
        ("steps", 3, ("--steps", "3")),
        ("step_count", 3, ("--steps", "3")),
        ("steps", -3, ("--steps", "-3")),
        ("path", "-x", ("--path=-x",)),
        ("path", "--steps", ("--path=--steps",)),
        ("path", "", ("--path", "")),
        ("path", pathlib.Path("a"), ("--path", "a")),
        ("objects", {"a": [1]}, ("--objects", '{"a":[1]}')),
        ("objects", "text", ("--objects", '"text"')),
        ("many", (1, 2), ("--many", "1", "2")),
        ("on", True, ("--on",)),
        ("on", False, ("--no-on",)),
        ("on", None, ()),
        ("loud", False, ("--quiet",)),
        ("loud", True, ()),
        ("mode", "b", ("--mode", "b")),
        ("each", ["1", "-2"], ("--each=1", "--each=-2")),
    ],
)
def test_how_values_are_written(name, value, argv):
    written = arguments_of(TABLE, {name: value})
    assert (written.argv, written.unknown, written.unwritable) == (argv, {}, {})


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("steps", "3", "int"),
        ("steps", True, "int"),
        ("steps", 3.5, "int"),
        ("path", 3, "text"),
        ("path", {"a": 1}, "text"),
        ("many", 1, "a list of int"),
        ("many", [], "a list of int"),
        ("many", ["1"], "a list of int"),
        ("on", 1, "true or false"),
        ("mode", "c", "one of a, b"),
        ("text", None, "text"),
        ("objects", object(), "json"),
    ],
)
def test_what_no_argument_gives_is_told_with_what_the_option_takes(name, value, takes):
    written = arguments_of(TABLE, {name: value})
    assert (written.argv, written.unwritable) == ((), {name: takes})


def test_a_name_that_no_option_has_is_told_with_the_nearest():
    written = arguments_of(TABLE, {"stesp": 3, "gone": 1, "path": "x"})
    assert written.unknown["stesp"] == "steps"
    assert set(written.unknown) == {"stesp", "gone"}
    assert written.argv == ("--path", "x")


@dataclasses.dataclass
class Data:
    path: str
    steps: int | None = None
    mode: str = "a"
    text: str | None = None
    own: int = 1
    lists: list = dataclasses.field(default_factory=list)


class Record(msgspec.Struct):
    path: str
    steps: int | None = None
    mode: str = "a"
    text: str | None = None
    own: int = 1
    lists: list = []


@pytest.mark.parametrize("kind", [Data, Record])
def test_a_record_says_what_is_not_its_options_default(kind):
    assert stated_values(TABLE, kind("p")) == {"path": "p"}
    said = kind("p", steps=3, mode="b", text="y", own=2, lists=[1])
    assert stated_values(TABLE, said) == {
        "path": "p", "steps": 3, "mode": "b", "text": "y", "own": 2, "lists": [1],
    }  # fmt: skip
    assert stated_values(TABLE, kind("p", text="x")) == {"path": "p"}, "the option's default, not the record's"


def test_only_records_have_fields():
    assert record_fields(Data("p"))[:2] == ("path", "steps")
    assert record_fields(Record) == ("path", "steps", "mode", "text", "own", "lists")
    assert record_fields({"a": 1}) is None
    assert record_fields("text") is None
