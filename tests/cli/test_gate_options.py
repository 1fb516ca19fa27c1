from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_cli.check_command import COMMANDS
from drafter_cli.commandline import parse
from drafter_cli.errors import UsageError
from drafter_cli.gate_options import release, request

CHECK = COMMANDS["check"]


def asked(*argv):
    return request(parse(CHECK, [*argv, "--", "sglang", "serve"]))


@pytest.mark.parametrize(
    "text",
    ["sglang==0.5.12.post1", "sglang-0.5.12.post1", "sglang@v0.5.12.post1", "v0.5.12.post1", "SGLang 0.5.12.post1"],
)
def test_spellings_of_a_release(text):
    assert release(text) == "0.5.12.post1"


@pytest.mark.parametrize("text", ["vllm==0.9.1", "sglang", "sglang==", "latest", ""])
def test_what_names_no_release_of_sglang_is_refused(text):
    with pytest.raises(UsageError):
        release(text)


@given(st.lists(st.integers(-1, 500), min_size=1))
def test_output_ids_and_boundaries_state_the_same_layout(ids):
    by_output = asked("--output-ids", ",".join(map(str, ids)))
    by_boundary = asked("--boundaries", ",".join(str(i + 1) for i in ids))
    assert by_output.boundaries == by_boundary.boundaries == tuple(i + 1 for i in ids)


def test_a_list_may_be_pasted_from_a_config():
    assert asked("--output-ids", "[2, 30, 58]").boundaries == (3, 31, 59)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--boundaries", "-1,2"), "--boundaries -1 does not exist"),
        (("--output-ids", "-2,2"), "--output-ids -2 does not exist"),
        (("--boundaries", "3;31"), "--boundaries is '3;31'"),
        (("--boundaries", ""), "--boundaries is ''"),
        (("--boundaries", "1", "--output-ids", "0"), "state the same thing"),
    ],
)
def test_layouts_that_cannot_be(argv, message):
    with pytest.raises(UsageError, match=message):
        asked(*argv)


def test_a_gate_needs_a_launch():
    for argv in ([], ["--"]):
        with pytest.raises(UsageError, match="no launch command"):
            request(parse(CHECK, argv))
