"""Listing what a registry holds, for people and scripts: filters, pages, a terminal's width."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest
from small_registry import NAME, VERSIONS, good, read, versions


def test_a_list_for_people(look):
    done = good(look("list"))
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:2] == ["DRAFTER", "ALIASES"]
    assert [row.split()[0] for row in rows] == [f"{NAME}@{version}" for version in reversed(VERSIONS)]
    assert "prod" in rows[-1]
    assert "3,31,59" in rows[-1]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), ["2.0.0", "1.1.0", "1.0.0"]),
        (("--name", NAME, "--output-ids", "58"), None),
        (("--output-id", "58"), ["1.1.0", "1.0.0"]),
        (("--output-id", "-1,2"), ["2.0.0"]),
        (("--boundary", "0"), ["2.0.0"]),
        (("--boundary", "3", "--output-id", "58"), ["1.1.0", "1.0.0"]),
        (("--alias", "prod"), ["1.0.0"]),
        (
            ("--target", "org/kimi", "--method", "eagle3", "--architecture", "LlamaForCausalLM"),
            ["2.0.0", "1.1.0", "1.0.0"],
        ),
        (("--name", "kimi-*", "--state", "all"), ["2.0.0", "1.1.0", "1.0.0"]),
        (("--state", "yanked"), []),
        (("--name", "other"), []),
    ],
)
def test_filters(inside, filters, expected):
    done = inside("list", *filters, "--json")
    if expected is None:
        assert done.returncode == 2
        assert "did you mean --output-id" in json.loads(done.stdout)["error"]["hint"]
    else:
        assert versions(done) == expected


def test_versions_of_one_contract_are_found_by_its_fingerprint(look):
    first = read(look("show", f"{NAME}@1.0.0", "--json"))["summary"]["fingerprint"]
    assert versions(look("list", "--fingerprint", first, "--json")) == ["1.1.0", "1.0.0"]


def test_pages(look):
    page = read(look("list", "--limit", "2", "--json"))
    assert [item["version"] for item in page["items"]] == ["2.0.0", "1.1.0"]
    rest = read(look("list", "--limit", "2", "--cursor", page["next"], "--json"))
    assert ([item["version"] for item in rest["items"]], rest["next"]) == (["1.0.0"], "")
    assert versions(look("list", "--limit", "1", "--all", "--json")) == ["2.0.0", "1.1.0", "1.0.0"]
    people = good(look("list", "--limit", "2"))
    assert f"--cursor {page['next']}" in people.stderr
    assert page["next"] not in people.stdout


def test_an_empty_list_says_what_to_do(local, tmp_path):
    done = local("list", variables={"DRAFTERS_DATA": str(tmp_path / "new")})
    assert (done.returncode, done.stdout) == (6, "")
    assert "drafters publish" in done.stderr
    assert "leave out a filter" in good(local("list", "--name", "other")).stderr
    assert read(local("list", "--name", "other", "--json")) == {"items": [], "next": ""}


@pytest.mark.parametrize(
    "arguments", [("--limit", "0"), ("--limit", "501"), ("--limit", "x"), ("--boundary", "-1"), ("--output-id", "-2")]
)
def test_numbers_that_cannot_be(inside, arguments):
    done = inside("list", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[0] in done.stderr


def test_tables_fit_the_terminal(command, data, tmp_path):
    """On a terminal columns leave and names are cut; in a pipe everything stays."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path), "COLUMNS": "60", "NO_COLOR": "1"}
    with subprocess.Popen([command, "list"], stdout=theirs, stdin=subprocess.DEVNULL, env=environment) as process:
        assert process.wait(timeout=60) == 0
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert all(len(line) <= 60 for line in shown.splitlines())
    assert NAME in shown
