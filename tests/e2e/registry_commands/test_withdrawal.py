"""Versions yanked and deleted, and what keeps that from being a slip."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest
from small_registry import NAME, good, read, versions


def test_a_yanked_version_resolves_by_its_exact_name_and_says_why(local):
    done = good(local("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
    assert done.stdout == ""
    assert f"{NAME}@prod points to it and resolves no more" in done.stderr
    assert "yanked" in good(local("alias", "history", f"{NAME}@prod")).stdout
    assert "warning" not in good(local("yank", f"{NAME}@1.1.0", "--why", "nobody uses it")).stderr
    good(local("yank", f"{NAME}@1.1.0", "--undo"))
    assert versions(local("list", "--json")) == ["2.0.0", "1.1.0"]
    shown = good(local("show", f"{NAME}@1.0.0")).stdout
    assert "yanked" in shown.splitlines()[0]
    assert "wrong labels" in shown
    assert local("show", f"{NAME}@prod").returncode == 2
    assert read(local("yank", f"{NAME}@1.0.0", "--undo", "--json"))["state"] == "live"
    good(local("show", f"{NAME}@prod"))


def test_a_deleted_version_is_gone_for_ever(local):
    good(local("delete", f"{NAME}@2.0.0", "--why", "holds customer data", "--yes"))
    assert versions(local("list", "--json")) == ["1.1.0", "1.0.0"]
    assert versions(local("list", "--state", "deleted", "--json")) == ["2.0.0"]
    assert local("show", f"{NAME}@2.0.0").returncode == 2


def test_a_version_that_an_alias_points_to_is_not_deleted(inside):
    done = inside("delete", f"{NAME}@1.0.0", "--why", "x", "--yes")
    assert (done.returncode, "prod" in done.stderr) == (8, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("yank", f"{NAME}@1.0.0"), "needs --why"),
        (("yank", f"{NAME}@prod", "--why", "x"), "names no version exactly"),
        (("delete", f"{NAME}@1.0.0", "--why", "x"), "cannot be undone"),
        (("delete", f"{NAME}@1.0.0", "--yes"), "needs --why"),
        (("delete", f"{NAME}@prod", "--why", "x", "--yes"), "names no version exactly"),
    ],
)
def test_what_is_not_taken_away_by_mistake(inside, arguments, message):
    done = inside(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert len(versions(inside("list", "--json"))) == 3


@pytest.mark.parametrize(("typed", "code", "left"), [(f"{NAME}@2.0.0", 0, 2), ("yes", 2, 3), ("", 2, 3)])
def test_on_a_terminal_the_name_must_be_typed(command, data, local, tmp_path, typed, code, left):
    ours, theirs = pty.openpty()
    argv = [command, "delete", f"{NAME}@2.0.0", "--why", "x"]
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path)}
    with subprocess.Popen(argv, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        os.write(ours, f"{typed}\n".encode())
        assert process.wait(timeout=60) == code
        os.close(ours)
    assert len(versions(local("list", "--json"))) == left
