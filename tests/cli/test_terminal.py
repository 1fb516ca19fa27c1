from __future__ import annotations

import io

import pytest

from drafter_cli.terminal import RED, Style, colours, wrap


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "stream", "expected"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"CLICOLOR_FORCE": "1"}, io.StringIO(), True),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, Terminal(), False),
        ({}, None, False),
    ],
)
def test_colour_only_where_it_is_wanted(monkeypatch, variables, stream, expected):
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert colours(stream) is expected


def test_paint():
    assert Style(on=False).paint("x", RED) == "x"
    assert Style(on=True).paint("x", RED) == "\x1b[31mx\x1b[0m"


def test_wrap_keeps_what_must_be_pasted_whole():
    value = '\'{"eagle_config":{"ids":[3,31,59]}}\'' * 5
    lines = wrap(f"add --json-model-override-args {value} to the launch", indent="  ", width=40).split("\n")
    assert f"  {value}" in lines
    assert all(line.startswith("  ") for line in lines)
