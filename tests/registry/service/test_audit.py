"""The log of writes: there if and only if the write is, a page at a time, for admins."""

from __future__ import annotations

import pytest

from drafter_registry.errors import InvalidError, NotFoundError
from drafter_registry.service import audit
from drafter_registry.service.context import Actor


def write(registry, actor, *subjects):
    with registry.database.write() as connection:
        for subject in subjects:
            audit.record(connection, registry, actor, "version.publish", subject, why="tests")


def test_an_entry_says_who_what_when_and_on_which_request(rows, local_admin):
    write(rows, local_admin, "kimi@1.0")
    (entry,) = audit.entries(rows, local_admin).items
    assert (entry.actor, entry.action, entry.subject) == ("local:tests", "version.publish", "kimi@1.0")
    assert (entry.at, entry.detail) == ("2026-03-01T12:00:00Z", {"why": "tests"})
    assert (entry.request_id, entry.address) == ("request-1", "127.0.0.1")


def test_a_write_that_failed_is_not_logged(rows, local_admin):
    def fail():
        with rows.database.write() as connection:
            audit.record(connection, rows, local_admin, "version.publish", "kimi@1.0")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert audit.entries(rows, local_admin).items == ()


def test_pages_hold_every_entry_once_newest_first(rows, local_admin):
    written = [f"d{i}@1" for i in range(7)]
    write(rows, local_admin, *written)
    seen, cursor = [], ""
    while True:
        page = audit.entries(rows, local_admin, cursor=cursor, limit=3)
        seen += [entry.subject for entry in page.items]
        assert len(seen) < 100
        cursor = page.next
        if not cursor:
            break
        write(rows, local_admin, "later@1")  # what comes meanwhile moves nothing
    assert seen == written[::-1]


def test_a_page_that_is_just_full_is_the_last(rows, local_admin):
    write(rows, local_admin, "a@1", "b@1")
    assert audit.entries(rows, local_admin, limit=2).next == ""


def test_a_drafters_name_means_its_versions_and_aliases_and_no_others(rows, local_admin):
    write(rows, local_admin, "kimi", "kimi@1.0", "kimi@prod", "kimi-2@1.0", "kimi_@1", "xkimi@1.0")
    assert [e.subject for e in audit.entries(rows, local_admin, subject="kimi").items] == [
        "kimi@prod",
        "kimi@1.0",
        "kimi",
    ]
    assert [e.subject for e in audit.entries(rows, local_admin, subject="kimi@1.0").items] == ["kimi@1.0"]
    assert [e.subject for e in audit.entries(rows, local_admin, subject="kim_").items] == []


@pytest.mark.parametrize(
    "cursor", ["x", "!", "YXVkaXQ6MQ==", "dmVyc2lvbnM6MQ", "YXVkaXQ6LTE", "é", "YXVkaXQ6" + "OTk5" * 9]
)
def test_a_bad_cursor_is_refused(rows, local_admin, cursor):
    with pytest.raises(InvalidError, match="cursor"):
        audit.entries(rows, local_admin, cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, 501])
def test_a_page_has_bounds(rows, local_admin, limit):
    with pytest.raises(InvalidError, match="500"):
        audit.entries(rows, local_admin, limit=limit)


def test_only_an_admin_reads_it(rows):
    with pytest.raises(NotFoundError):
        audit.entries(rows, Actor("ci", ("read", "publish:*", "alias:*")))


@pytest.mark.parametrize("subject", ["a\x00b", "\ud800", "x" * 256])
def test_a_subject_that_none_can_be_is_refused(rows, local_admin, subject):
    with pytest.raises(InvalidError, match="is no subject"):
        audit.entries(rows, local_admin, subject=subject)


def test_no_write_fails_because_of_a_long_request_id(rows, local_admin):
    write(rows, Actor("ci", ("admin",), "r" * 300, "a" * 300), "kimi@1.0")
    assert audit.entries(rows, local_admin).items[0].request_id == "r" * 64
