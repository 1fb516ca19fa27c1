"""Tokens: their form, whom they name, when they end, and that nobody can read them off the registry."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select

from drafter_registry.db.models import AuditRow, TokenRow
from drafter_registry.documents import TokenRequest
from drafter_registry.errors import InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.service import audit, tokens
from drafter_registry.service.context import Actor, timestamp


def made(registry, local_admin, name="ci", scopes=("read",), days=None):
    return tokens.create(registry, local_admin, TokenRequest(name=name, scopes=scopes, expires_in_days=days))


def test_a_token_names_its_holder_and_what_they_may(rows, local_admin):
    new = made(rows, local_admin, scopes=("publish:kimi-*", "alias:*"))
    actor = tokens.authenticate(rows, new.token, "request-7", "127.0.0.1")
    assert actor == Actor("ci", ("publish:kimi-*", "alias:*"), "request-7", "127.0.0.1")


def test_the_form_can_be_checked_by_a_scanner(rows, local_admin):
    new = made(rows, local_admin)
    assert re.fullmatch(r"drt_[0-9A-Za-z]{36}", new.token)
    assert tokens.looks_valid(new.token)
    for i in range(len(new.token)):  # no single character can be another one
        other = new.token[:i] + ("a" if new.token[i] != "a" else "b") + new.token[i + 1 :]
        assert not tokens.looks_valid(other)
    for other in ("", "drt_", new.token[:-1], new.token + "0", new.token.upper(), "x" + new.token, "é" * 40):
        assert not tokens.looks_valid(other)


def test_the_checksum_is_crc32_in_base_62():
    body = "drt_" + "0" * 30
    assert tokens.looks_valid(body + "4HP9bA")


def test_no_token_and_no_digest_can_be_read_back(rows, local_admin):
    new = made(rows, local_admin)
    ours = Actor("ci", ("admin",))
    with rows.database.read() as connection:
        (row,) = connection.execute(select(TokenRow.__table__)).all()
        log = repr(connection.execute(select(AuditRow.__table__)).all())
    assert new.token not in repr(row)
    assert new.token[4:] not in log
    listed = repr(tokens.listing(rows, ours))
    assert row.sha256 not in listed + log + repr(audit.entries(rows, ours))
    assert new.token not in listed


def test_every_refusal_reads_the_same(rows, local_admin, row_clock):
    revoked, expired, good = made(rows, local_admin), made(rows, local_admin, days=1), made(rows, local_admin)
    tokens.revoke(rows, local_admin, revoked.record.id)
    row_clock.forward(days=1)
    unknown = "drt_" + "0" * 30 + "4HP9bA"
    assert tokens.looks_valid(unknown)
    said = set()
    for token in (revoked.token, expired.token, unknown, good.token[:-1], "", "Bearer x", "\x00"):
        with pytest.raises(NotAuthorisedError) as caught:
            tokens.authenticate(rows, token)
        said.add((str(caught.value), caught.value.hint))
        assert not token or token not in str(caught.value)
    assert len(said) == 1
    assert tokens.authenticate(rows, good.token).name == "ci"


def test_a_token_lives_to_its_last_moment(rows, local_admin, row_clock):
    new = made(rows, local_admin, days=2)
    row_clock.forward(days=2, seconds=-1)
    assert tokens.authenticate(rows, new.token).name == "ci"
    row_clock.forward(seconds=1)
    with pytest.raises(NotAuthorisedError):
        tokens.authenticate(rows, new.token)


def test_the_last_use_is_kept_once_a_minute(rows, local_admin, row_clock):
    new = made(rows, local_admin)
    first = row_clock.moment

    def used():
        tokens.authenticate(rows, new.token)
        return tokens.listing(rows, local_admin).items[0].last_used_at

    assert used() == timestamp(first)
    row_clock.forward(seconds=59)
    assert used() == timestamp(first)
    row_clock.forward(seconds=1)
    assert used() == timestamp(first + timedelta(seconds=60))


def test_a_busy_database_keeps_nobody_out(tmp_path, local_admin, row_clock, monkeypatch):
    from drafter_registry.db import database, schema
    from drafter_registry.service.context import Registry
    from drafter_registry.settings import Settings

    monkeypatch.setattr(database, "LOCK_TIMEOUT", 50)
    rows = Registry(database.Database(f"sqlite:///{tmp_path}/r.db"), None, Settings(), row_clock)
    schema.create_or_check(rows.database)
    new = made(rows, local_admin)
    with rows.database.write():
        assert tokens.authenticate(rows, new.token).name == "ci"
    assert tokens.listing(rows, local_admin).items[0].last_used_at == ""
    rows.database.close()


def test_revoking_is_logged_once_and_unknown_ids_are_missing(rows, local_admin):
    new = made(rows, local_admin)
    tokens.revoke(rows, local_admin, new.record.id)
    tokens.revoke(rows, local_admin, new.record.id)
    assert [entry.action for entry in audit.entries(rows, local_admin).items] == ["token.revoke", "token.create"]
    for unknown in ("nobody", "0" * 16, "a\x00b", "\ud800"):
        with pytest.raises(NotFoundError, match="is not here"):
            tokens.revoke(rows, local_admin, unknown)


def test_listing_is_newest_first_and_says_what_is_known(rows, local_admin, row_clock):
    made(rows, local_admin, "old")
    row_clock.forward(hours=1)
    made(rows, local_admin, "new", ("read", "alias:*"), days=1)
    newest, oldest = tokens.listing(rows, local_admin).items
    assert (newest.name, newest.scopes, newest.created_by) == ("new", ("read", "alias:*"), "local:tests")
    assert (newest.created_at, newest.expires_at) == ("2026-03-01T13:00:00Z", "2026-03-02T13:00:00Z")
    assert (oldest.name, oldest.expires_at) == ("old", "")


@pytest.mark.parametrize("name", ["", " ci", "anonymous", "local:root", "a\nb", "x" * 97, "a\x00"])
def test_names_that_mean_somebody_else_are_refused(rows, local_admin, name):
    with pytest.raises(InvalidError):
        made(rows, local_admin, name)
    assert tokens.listing(rows, local_admin).items == ()


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_an_expiry_has_bounds(rows, local_admin, days):
    with pytest.raises(InvalidError):
        made(rows, local_admin, days=days)


def test_only_an_admin_deals_with_tokens(rows, local_admin):
    new = made(rows, local_admin)
    ci = Actor("ci", ("read", "publish:*", "alias:*"))
    for verb in (
        lambda: made(rows, ci),
        lambda: tokens.listing(rows, ci),
        lambda: tokens.revoke(rows, ci, new.record.id),
    ):
        with pytest.raises(NotFoundError):
            verb()
    assert tokens.authenticate(rows, new.token).name == "ci"


def test_the_first_start_makes_one_admin_and_no_later_start_does(rows, local_admin):
    with ThreadPoolExecutor(8) as pool:
        given = [token for token in pool.map(lambda _: tokens.ensure_admin(rows), range(8)) if token]
    assert len(given) == 1
    first = tokens.authenticate(rows, given[0])
    assert first.scopes == ("admin",)
    tokens.revoke(rows, first, tokens.listing(rows, first).items[0].id)
    assert tokens.ensure_admin(rows) is None


PROGRAM = """
import sys
from drafter_registry.db import schema
from drafter_registry.db.database import Database
from drafter_registry.service.context import Registry
from drafter_registry.service.tokens import ensure_admin
from drafter_registry.settings import Settings

database = Database(sys.argv[1])
schema.create_or_check(database)
print(ensure_admin(Registry(database, None, Settings())) or "")
"""


def test_two_servers_that_start_at_once_print_one_token(settings):
    command = [sys.executable, "-c", PROGRAM, settings.database_url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len([output for output in outputs if output]) == 1
