"""An alias set, moved under conditions and removed."""

from __future__ import annotations

import json

import pytest
from small_registry import NAME, good, read, versions


def test_an_alias_moves_and_its_moves_are_kept(local):
    assert good(local("alias", "set", f"{NAME}@prod", "1.1.0", "--expect", "1.0.0", "--why", "canary")).stdout == ""
    moved = read(local("alias", "set", f"{NAME}@prod", "2.0.0", "--expect-revision", "2", "--json"))
    assert (moved["version"], moved["revision"]) == ("2.0.0", 3)
    good(local("alias", "rm", f"{NAME}@prod", "--expect", "2.0.0", "--why", "gone"))
    moves = read(local("alias", "history", f"{NAME}@prod", "--json"))["items"]
    assert [(move.get("from_version", ""), move.get("to_version", "")) for move in moves] == [
        ("2.0.0", ""),
        ("1.1.0", "2.0.0"),
        ("1.0.0", "1.1.0"),
        ("", "1.0.0"),
    ]
    assert [move.get("why", "") for move in moves] == ["gone", "", "canary", "first"]
    table = good(local("alias", "history", f"{NAME}@prod")).stdout
    assert "(removed)" in table
    assert "(made)" in table
    told = {line.split()[0]: line for line in table.splitlines()[1:]}
    assert "0,3,31" in told["3"]
    assert "3,31,59" in told["2"]
    assert told["1"].split()[-2] == told["2"].split()[-2] != told["3"].split()[-1]  # the contract


def test_a_move_to_another_contract_is_warned_of(local):
    assert "warning" not in good(local("alias", "set", f"{NAME}@prod", "1.1.0")).stderr
    done = good(local("alias", "set", f"{NAME}@prod", "2.0.0"))
    assert "2.0.0 has another contract than 1.1.0: layout.boundaries" in done.stderr
    assert f"drafters diff {NAME} 1.1.0 2.0.0" in done.stderr
    assert "warning" not in good(local("alias", "set", f"{NAME}@new", "2.0.0")).stderr


@pytest.mark.parametrize(
    ("belief", "version"),
    [(("--expect", "2.0.0"), "1.1.0"), (("--expect", "none"), "1.1.0"), (("--expect-revision", "7"), "1.1.0")],
)
def test_an_alias_that_is_elsewhere_does_not_move(local, belief, version):
    done = local("alias", "set", f"{NAME}@prod", version, *belief, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (8, "PRECONDITION_FAILED")
    assert versions(local("list", "--alias", "prod", "--json")) == ["1.0.0"]


def test_an_alias_that_is_not_there_yet(local):
    done = local("alias", "set", f"{NAME}@new", "1.1.0", "--expect", "1.0.0")
    assert (done.returncode, "there is no such alias" in done.stderr) == (8, True)
    good(local("alias", "set", f"{NAME}@new", "1.1.0", "--expect", "none"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", NAME, "1.0.0"),
        ("set", f"{NAME}@1.0.0", "1.0.0"),
        ("set", f"{NAME}@prod", "latest"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect", "1.0.0", "--expect-revision", "1"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect-revision", "x"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect", "latest"),
    ],
)
def test_alias_lines_that_cannot_be(inside, arguments):
    assert inside("alias", *arguments).returncode == 2
