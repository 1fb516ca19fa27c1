from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_cli.commandline import JSON, Command, Option, help_text, parse, wants_help
from drafter_cli.errors import UsageError

COMMAND = Command(
    name="try",
    summary="",
    description="Tries.",
    words=("PATH", "[OTHER]"),
    options=(
        Option("--ids", "numbers", "LIST"),
        Option("--output", "file", "FILE", short="-o"),
        Option("--mode", "how", "MODE", choices=("a", "b")),
        JSON,
    ),
    examples=(("drafters try x", "tries x"),),
    launch=True,
)


@pytest.mark.parametrize(
    "argv", [["--ids", "-1,2,30", "p"], ["p", "--ids=-1,2,30"], ["--ids", "-1,2,30", "p", "--", "x"]]
)
def test_a_value_may_start_with_a_minus(argv):
    parsed = parse(COMMAND, argv)
    assert parsed.value("--ids") == "-1,2,30"
    assert parsed.words == ("p",)


def test_the_last_of_repeated_options_wins_and_short_forms_are_the_same_option():
    assert parse(COMMAND, ["p", "-o", "x", "--output=y=z"]).value("--output") == "y=z"


def test_everything_after_the_first_separator_is_the_launch():
    parsed = parse(COMMAND, ["p", "--json", "--", "python", "--json", "--", "--ids"])
    assert parsed.launch == ("python", "--json", "--", "--ids")
    assert parsed.has("--json")
    assert not parsed.has("--ids")


@given(st.lists(st.text()))
def test_a_launch_is_never_touched(launch):
    assert parse(COMMAND, ["p", "--", *launch]).launch == tuple(launch)


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["p", "--id", "1"], "no option --id", "did you mean --ids?"),
        (["p", "--outptu", "1"], "no option --outptu", "did you mean --output?"),
        (["p", "--zzzzzzz"], "no option --zzzzzzz", "see drafters try --help"),
        (["p", "--ids"], "--ids needs a value", "--ids LIST"),
        (["p", "--ids", "--", "x"], "--ids needs a value", ""),
        (["p", "--json=1"], "--json takes no value", ""),
        (["p", "--mode", "c"], "--mode is 'c'", "one of a, b"),
        ([], "try needs PATH", "usage"),
        (["p", "q", "r"], "does not know what 'r' is", ""),
        (["p", "python", "-m", "sglang.launch_server"], "goes after --", "-- python -m sglang.launch_server"),
    ],
)
def test_mistakes_are_named_with_the_way_out(argv, message, hint):
    with pytest.raises(UsageError) as caught:
        parse(COMMAND, argv)
    assert message in caught.value.message
    assert hint.replace("usage", "drafters try PATH") in caught.value.hint


def test_a_command_without_a_launch_refuses_one():
    with pytest.raises(UsageError, match="takes no launch"):
        parse(Command("plain", "", ""), ["--", "x"])


def test_help_is_asked_for_before_the_launch_only():
    assert wants_help(["p", "-h"])
    assert not wants_help(["p", "--", "engine", "--help"])


def test_help_names_every_option_and_example():
    text = help_text(COMMAND)
    for expected in ("drafters try PATH [OTHER] [options] -- LAUNCH...", "-o, --output FILE", "--help", "# tries x"):
        assert expected in text


LISTS = Command(
    name="lists",
    summary="",
    description="Takes many.",
    words=("A", "[RELEASE...]"),
    options=(Option("--dirs", "directories", "DIR...", many=True), JSON),
)


def test_an_option_may_take_many_values_and_adds_up():
    parsed = parse(LISTS, ["a", "--dirs", "x", "y", "--json", "b", "c", "--dirs=z"])
    assert parsed.many("--dirs") == ("x", "y", "z")
    assert parsed.words == ("a", "b", "c")
    assert parse(LISTS, ["a"]).many("--dirs") == ()


def test_the_last_word_may_stand_for_any_number():
    assert parse(LISTS, ["a"]).words == ("a",)
    assert parse(LISTS, ["a", "b", "c", "d"]).words == ("a", "b", "c", "d")
    with pytest.raises(UsageError, match="needs A"):
        parse(LISTS, [])


SWITCHES = Command(
    name="switches",
    summary="",
    description="Takes a value after an equals sign only.",
    words=("[PATH]",),
    options=(Option("--locked", "against a file", inline="FILE"), Option("--engine", "which", "PATH"), JSON),
    launch=True,
)


def test_a_switch_may_have_a_value_after_an_equals_sign_and_takes_no_word():
    parsed = parse(SWITCHES, ["--locked", "x", "--", "y"])
    assert (parsed.has("--locked"), parsed.value("--locked"), parsed.words) == (True, "", ("x",))
    assert parse(SWITCHES, ["--locked=a=b", "--", "y"]).value("--locked") == "a=b"
    assert "--locked[=FILE]" in help_text(SWITCHES)


@pytest.mark.parametrize("argument", ["--locked=", "--json=x", "--json="])
def test_a_switch_with_nothing_after_the_equals_sign_or_with_what_it_does_not_take_is_a_mistake(argument):
    with pytest.raises(UsageError):
        parse(SWITCHES, [argument])


def test_the_value_of_an_option_is_not_taken_for_a_launch():
    assert parse(SWITCHES, ["--engine", "/env/site-packages/sglang"]).value("--engine") == "/env/site-packages/sglang"
    with pytest.raises(UsageError, match="after --"):
        parse(SWITCHES, ["--engine", "x", "sglang", "serve"])
