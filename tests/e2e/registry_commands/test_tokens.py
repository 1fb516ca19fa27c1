"""Tokens made, listed and revoked, and the audit log."""

from __future__ import annotations

import pytest
from small_registry import NAME, VERSIONS, good, read


def test_a_token_is_printed_once_and_alone(local):
    made = good(local("token", "create", "trainer", "--scope", "read", "publish:kimi-*", "--expires", "30d"))
    assert len(made.stdout.split()) == 1
    token = made.stdout.strip()
    assert token not in made.stderr
    assert "publish:kimi-*" in made.stderr
    listed = good(local("token", "list"))
    assert "trainer" in listed.stdout
    assert token not in listed.stdout
    (record,) = [one for one in read(local("token", "list", "--json"))["items"] if one["name"] == "trainer"]
    assert record["expires_at"] > record["created_at"]
    good(local("token", "revoke", record["id"]))
    assert "revoked" in next(line for line in good(local("token", "list")).stdout.splitlines() if "trainer" in line)
    assert token not in good(local("audit", "--all", "--json")).stdout


def test_a_token_without_an_end(local):
    record = read(local("token", "create", "launcher", "--scope", "read", "--expires", "never", "--json"))["record"]
    assert record["expires_at"] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "t"),
        ("create", "t", "--scope", "write"),
        ("create", "t", "--scope", "read", "--expires", "soon"),
        ("create", "t", "--scope", "read", "--expires", "12h"),
        ("create", "t", "--scope", "read", "--expires", "0d"),
        ("revoke", "nothing"),
    ],
)
def test_tokens_that_cannot_be(inside, arguments):
    done = inside("token", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr


def test_the_audit_log(local):
    good(local("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
    newest = read(local("audit", "--limit", "1", "--json"))
    assert newest["items"][0]["subject"] == f"{NAME}@1.0.0"
    assert newest["items"][0]["detail"]["why"] == "wrong labels"
    assert newest["next"]
    everything = read(local("audit", "--limit", "2", "--all", "--json"))
    assert len(everything["items"]) > len(VERSIONS)
    assert everything["next"] == ""
    subjects = {item["subject"] for item in read(local("audit", "--subject", f"{NAME}@1.0.0", "--json"))["items"]}
    assert subjects == {f"{NAME}@1.0.0"}
    assert "wrong labels" in good(local("audit")).stdout
