"""Acceptances that `drafters publish` is given: one by options, or a file as a manifest records them."""

from __future__ import annotations

import json

import pytest

from drafter_cli.commandline import parse
from drafter_cli.errors import UsageError
from drafter_cli.publishing import options
from drafter_cli.publishing.command import COMMANDS
from drafter_contracts.errors import EvidenceError

ONE = {"length": 2.75, "dataset": "texts", "measured": "teacher-forced", "steps": 3}


def stated(*arguments):
    return options.statement(parse(COMMANDS["publish"], ["./drafter", *map(str, arguments)]), None).acceptance


def written(tmp_path, value):
    path = tmp_path / "a.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_record_or_a_list_of_them_is_taken_as_it_is(tmp_path):
    (one,) = stated("--acceptance", written(tmp_path, ONE), "--steps", 5)
    assert (one.length, one.dataset, one.measured, one.steps) == (2.75, "texts", "teacher-forced", 3)
    first, second = stated("--acceptance", written(tmp_path, [ONE, {"length": 1}]))
    assert (first, second.length) == (one, 1)


def test_one_by_options_is_measured_with_the_recommended_steps():
    (one,) = stated("--accept-length", "2.5", "--steps", 3, "--topk", 1, "--draft-tokens", 4)
    assert (one.length, one.steps, one.topk, one.draft_tokens) == (2.5, 3, 1, 4)


@pytest.mark.parametrize("option", ["--accept-length", "--accept-dataset", "--accept-engine"])
def test_it_is_stated_once(tmp_path, option):
    with pytest.raises(UsageError, match=f"--acceptance and {option} state the same thing"):
        stated("--acceptance", written(tmp_path, ONE), option, "2")
    if option != "--accept-length":
        with pytest.raises(UsageError, match="says nothing without --accept-length"):
            stated(option, "x")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "an empty list"),
        ({"length": 0.5}, "length"),
        ({"length": 2, "lenght": 3}, "lenght"),
        ([ONE, {"dataset": "x"}], "length"),
        ({"length": True}, "length"),
        ('{"length": NaN}', "JSON"),
        ("2.5", "object"),
        ("[" * 100000, "a.json"),
        ({"schema": "drafters.evaluation.v1"}, "is given by --evidence"),
    ],
)
def test_what_is_no_acceptance_is_refused(tmp_path, value, text):
    with pytest.raises(EvidenceError) as caught:
        stated("--acceptance", written(tmp_path, value))
    assert text in caught.value.diagnostics()


def test_a_file_that_is_not_there_or_too_large(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        stated("--acceptance", tmp_path / "none.json")
    with pytest.raises(EvidenceError, match="too large"):
        stated("--acceptance", written(tmp_path, " " * (5 << 20)))
