"""Acceptances attached by command, and observations that `show` draws: alone and against a server."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from small_registry import NAME, good, read, serving

from drafter_cli import main
from drafter_cli.client.configuration import read as settings
from drafter_cli.client.embedded import Embedded
from drafter_cli.client.remote import Remote
from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_registry.service.context import LOCAL_SCOPES, Actor
from drafter_registry.service.open import open_registry
from drafter_registry.settings import Settings

REF = f"{NAME}@1.0.0"
STATED = ("--length", "3.1", "--engine", "sglang 0.5.23", "--steps", "3", "--positions", "0.9,0.7,0.5")
RECORD = {"length": 3.1, "engine": "sglang 0.5.23", "steps": 3, "positions": [0.9, 0.7, 0.5]}


def observed(ago, length):
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago)
    return Observation(
        hour=hour.isoformat().replace("+00:00", "Z"),
        instance="gpu-1",
        conditions=Conditions(engine="sglang", release="0.5.23", target_revision="7f3c2a1"),
        readings=12,
        verify_steps=480,
        length=length,
        lowest=length,
        highest=length,
    )


@pytest.fixture
def in_process(monkeypatch, capsys, tmp_path):
    """Runs commands in this process under such variables: `in_process(variables)` gives what does."""

    def under(variables):
        for name in ("DRAFTERS_URL", "DRAFTERS_TOKEN", "DRAFTERS_DATA", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"HOME": str(tmp_path)} | variables).items():
            monkeypatch.setenv(name, value)

        def run(*arguments):
            capsys.readouterr()
            code = main.main(list(map(str, arguments)))
            return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

        return run

    return under


@pytest.fixture(params=["local_and_client", "served_and_client"])
def where(request):
    """Runs a command, and the client that it has; without a server and with one."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def local_and_client(in_process, data):
    registry = open_registry(Settings(data=str(data)))
    client = Embedded(registry, Actor("local:tests", LOCAL_SCOPES))
    yield in_process({"DRAFTERS_DATA": str(data)}), client
    client.close()


@pytest.fixture
def served_and_client(command, drafters, in_process, data, tmp_path):
    with serving(command, drafters, data, tmp_path) as run:
        variables = {"DRAFTERS_URL": run.url, "DRAFTERS_TOKEN": (tmp_path / "token").read_text().strip()}
        client = Remote(settings(environment=variables), "tests")
        yield in_process(variables), client
        client.close()


def test_what_is_attached_is_listed_shown_and_removed(where, tmp_path):
    run, _ = where
    before = good(run("show", REF, "--manifest")).stdout
    digest = good(run("acceptance", "add", REF, *STATED)).stdout.strip()
    assert digest.startswith("sha256:")
    record = tmp_path / "acceptance.json"
    record.write_text(json.dumps([RECORD, {"length": 2.5, "measured": "teacher-forced"}]))
    added = read(run("acceptance", "add", f"{NAME}@prod", "--file", record, "--json"))["items"]
    assert [(one["created"], one["version"]) for one in added] == [(False, "1.0.0"), (True, "1.0.0")]
    assert added[0]["item"]["digest"] == digest
    table = good(run("acceptance", "list", REF)).stdout
    assert table.splitlines()[1].split()[:4] == ["3.10", "3/-/-", "sglang", "0.5.23"]
    assert "teacher-forced" in table.splitlines()[2]
    assert good(run("show", REF, "--manifest")).stdout == before
    assert "3.1 tokens per step (sglang 0.5.23)" in good(run("show", REF)).stdout
    good(run("acceptance", "rm", REF, digest.removeprefix("sha256:")[:12]))
    assert [one["acceptance"]["length"] for one in read(run("acceptance", "list", REF, "--json"))["items"]] == [2.5]
    assert run("acceptance", "rm", REF, digest).returncode == 2


def test_what_was_seen_is_kept_told_and_drawn(where):
    run, client = where
    told = [observed(2, 3.0), observed(1, 2.0), observed(0, 1.0)]
    assert client.observe(f"{NAME}@prod", told).taken == 3
    assert client.observe(REF, told).known == 3
    assert client.observe(REF, told[:1], run="another").taken == 1
    page = client.history(REF, limit=2)
    assert [one.observation for one in page.items] == [told[2], told[1]]
    (last,) = client.history(REF, limit=2, cursor=page.next).items
    assert (last.observation.readings, last.observation.verify_steps) == (24, 960)
    assert len(client.history(REF, since=told[1].hour, until=told[2].hour).items) == 1
    shown = good(run("show", f"{NAME}@prod")).stdout
    assert "sglang 0.5.23, target 7f3c2a1, 1 instance" in shown
    assert "1.00 to 3.00, last 1.00" in shown
    table = good(run("acceptance", "history", REF, "--limit", "2"))
    assert [line.split()[7] for line in table.stdout.splitlines()[1:]] == ["1.00", "2.00"]
    assert "there is more" in table.stderr
    assert len(read(run("acceptance", "history", REF, "--all", "--json"))["items"]) == 3


@pytest.mark.parametrize("wrong", [
    (), ("--length", "0.5"), ("--length", "x"), ("--length", "2", "--steps", "1.5"), ("--length", "2", "--file", "f"),
    ("--length", "2", "--positions", "0.5;0.4"), ("--length", "2", "--measured", "guessed"), ("--engine", "sglang"),
])  # fmt: skip
def test_what_is_no_acceptance_is_a_usage_error(inside, wrong):
    assert inside("acceptance", "add", REF, *wrong).returncode == 2


def test_nothing_promised_and_nothing_seen_is_said(inside):
    for verb, words in (("list", "nothing is promised"), ("history", "nothing was seen")):
        done = good(inside("acceptance", verb, f"{NAME}@1.1.0"))
        assert (done.stdout, words in done.stderr) == ("", True)
        assert inside("acceptance", verb, f"{NAME}@9.9").returncode == 2
