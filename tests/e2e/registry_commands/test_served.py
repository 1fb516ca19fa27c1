"""Every change against a real server, and a server whose database a newer release upgraded."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from urllib.request import urlopen

from small_registry import NAME, good, read, serving, versions


def test_servers_go_on_after_the_next_releases_upgrade_and_none_of_this_one_starts(
    command, drafters, local, data, tmp_path
):
    with serving(command, drafters, data, tmp_path) as run:
        with closing(sqlite3.connect(data / "registry.db")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = 'drafters_9999'")
        with urlopen(run.url + "/readyz", timeout=30) as answer:  # noqa: S310 - the server started above
            assert json.load(answer)["ready"] is True
        assert versions(run("list", "--json")) == ["2.0.0", "1.1.0", "1.0.0"]
    for arguments in (("db", "check"), ("db", "upgrade"), ("serve", "--port", "0"), ("list",)):
        done = local(*arguments)
        assert (done.returncode, "newer than this release's" in done.stderr) == (6, True), done.stderr


def test_every_change_against_a_server(command, drafters, data, tmp_path):
    with serving(command, drafters, data, tmp_path) as run:
        assert read(run("alias", "set", f"{NAME}@prod", "1.1.0", "--expect", "1.0.0", "--json"))["revision"] == 2
        moved = run("alias", "set", f"{NAME}@prod", "2.0.0", "--expect", "1.0.0")
        assert (moved.returncode, "1.1.0" in moved.stderr) == (8, True)
        assert len(read(run("alias", "history", f"{NAME}@prod", "--json"))["items"]) == 2
        good(run("alias", "rm", f"{NAME}@prod", "--expect-revision", "2"))
        good(run("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
        assert "wrong labels" in good(run("show", f"{NAME}@1.0.0")).stdout
        good(run("delete", f"{NAME}@1.0.0", "--why", "gone", "--yes"))
        made = read(run("token", "create", "reader", "--scope", "read", "--json"))
        other = {"DRAFTERS_TOKEN": made["token"]}
        assert good(run("list", more=other)).stdout
        assert run("delete", f"{NAME}@2.0.0", "--why", "x", "--yes", more=other).returncode == 2, (
            "as if it were missing"
        )
        good(run("token", "revoke", made["record"]["id"]))
        refused = run("list", more=other)
        assert (refused.returncode, made["token"] in refused.stderr) == (4, False)
        actions = [entry["action"] for entry in read(run("audit", "--limit", "4", "--json"))["items"]]
        assert actions == ["token.revoke", "token.create", "version.delete", "version.yank"]
