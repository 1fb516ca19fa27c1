"""The list: every filter alone and together, whole pages, three queries, nothing guessed."""

from __future__ import annotations

import pytest
from sqlalchemy import event, insert, select

from drafter_registry import limits
from drafter_registry.db.models import AliasRow, BoundaryRow, DrafterRow, VersionRow
from drafter_registry.errors import InvalidError, NotAuthorisedError
from drafter_registry.service import aliases
from drafter_registry.service.access import anonymous
from drafter_registry.service.context import Actor
from drafter_registry.service.listing import list_versions

READER = Actor("launcher", ("read",))
QWEN = {"target_model": "Qwen/Qwen3_235B%", "target_architecture": "Qwen3MoeForCausalLM"}


@pytest.fixture
def catalogue(rows, add_row, local_admin):
    """Six versions of three drafters."""
    add_row(rows, "kimi-eagle3", "1.0")
    add_row(rows, "kimi-eagle3", "2.0", (2, 30, 58))
    add_row(rows, "qwen-eagle3", "1.0", (3, 31), **QWEN)
    add_row(rows, "qwen-dflash", "1.0", (3, 31, 3), method="DFLASH", **QWEN)
    add_row(rows, "qwen-dflash", "1.1", state="yanked", method="DFLASH", **QWEN)
    add_row(rows, "qwen-dflash", "1.2", (), state="deleted", method="DFLASH", **QWEN)
    for name, version, alias in (("kimi-eagle3", "1.0", "prod"), ("qwen-eagle3", "1.0", "prod")):
        aliases.move(rows, local_admin, name, alias, version, expected=0)
    aliases.move(rows, local_admin, "kimi-eagle3", "canary", "2.0", expected=0)
    aliases.move(rows, local_admin, "kimi-eagle3", "gone", "1.0", expected=0)
    aliases.remove(rows, local_admin, "kimi-eagle3", "gone", expected=1)
    return rows


def found(registry, **query):
    return [f"{item.name}@{item.version}" for item in list_versions(registry, READER, query).items]


K1, K2, Q1, D0, D1, D2 = (
    "kimi-eagle3@1.0", "kimi-eagle3@2.0", "qwen-eagle3@1.0", "qwen-dflash@1.0", "qwen-dflash@1.1", "qwen-dflash@1.2",
)  # fmt: skip

CASES = [
    ({}, [D0, Q1, K2, K1]),
    ({"name": "kimi-eagle3"}, [K2, K1]),
    ({"name": "kimi"}, []),
    ({"name": "qwen-*"}, [D0, Q1]),
    ({"name": "*eagle3"}, [Q1, K2, K1]),
    ({"name": "*"}, [D0, Q1, K2, K1]),
    ({"name": "kimi_*"}, []),
    ({"target": "moonshotai/Kimi-K2.5"}, [K2, K1]),
    ({"target": "Kimi-K2.5"}, []),
    ({"target": "*kimi-k2.5"}, [K2, K1]),
    ({"target": "Qwen/*"}, [D0, Q1]),
    ({"target": "Qwen/Qwen3_235B%"}, [D0, Q1]),
    ({"target": "Qwen/Qwen3_235B%*"}, [D0, Q1]),
    ({"target": "Qwen/Qwen3%*"}, []),
    ({"target": "*Qwen3__35B*"}, []),
    ({"architecture": "Qwen3MoeForCausalLM"}, [D0, Q1]),
    ({"architecture": "Qwen3Moe"}, []),
    ({"method": "DFLASH"}, [D0]),
    ({"method": "dflash"}, [D0]),
    ({"alias": "prod"}, [Q1, K1]),
    ({"alias": "gone"}, []),
    ({"alias": "prod", "name": "kimi-eagle3"}, [K1]),
    ({"alias": "canary", "name": "qwen-eagle3"}, []),
    ({"boundary": "3"}, [D0, Q1, K1]),
    ({"boundary": "3,31"}, [D0, Q1, K1]),
    ({"boundary": "31,59"}, [K1]),
    ({"boundary": "59,31,3,3"}, [K1]),
    ({"boundary": "3,30"}, []),
    ({"boundary": "0"}, []),
    ({"boundary": "3", "alias": "prod", "method": "eagle3"}, [Q1, K1]),
    ({"boundary": "3", "target": "moonshotai/Kimi-K2.5"}, [K1]),
    ({"state": "live"}, [D0, Q1, K2, K1]),
    ({"state": "yanked"}, [D1]),
    ({"state": "deleted"}, [D2]),
    ({"state": "all"}, [D2, D1, D0, Q1, K2, K1]),
    ({"state": "yanked", "name": "qwen-dflash"}, [D1]),
    ({"state": "all", "name": "qwen-dflash", "method": "DFLASH", "architecture": "Qwen3MoeForCausalLM"}, [D2, D1, D0]),
    ({"state": "", "name": "", "cursor": "", "limit": "", "boundary": ""}, [D0, Q1, K2, K1]),
]


@pytest.mark.parametrize("kind", ["sqlite-local", "postgresql-s3"], indirect=True, scope="function")
def test_each_filter_finds_what_it_says(catalogue):
    wrong = {
        repr(query): found(catalogue, **query) for query, expected in CASES if found(catalogue, **query) != expected
    }
    assert wrong == {}


def test_the_same_contract_is_found_by_its_fingerprint(catalogue, add_row):
    add_row(catalogue, "kimi-other", "1.0")
    newest = list_versions(catalogue, READER, {"name": "kimi-other"}).items[0]
    assert found(catalogue, fingerprint=newest.fingerprint) == ["kimi-other@1.0", K1]


def test_a_summary_says_everything(catalogue):
    item = list_versions(catalogue, READER, {"name": "kimi-eagle3", "alias": "prod"}).items[0]
    assert (item.name, item.version, item.method, item.state, item.size) == (
        "kimi-eagle3",
        "1.0",
        "EAGLE3",
        "live",
        1000,
    )
    assert (item.target_model, item.boundaries) == ("moonshotai/Kimi-K2.5", (3, 31, 59))
    assert item.target_architecture == "KimiK25ForConditionalGeneration"
    assert item.aliases == ("prod",)
    assert (item.published.by, item.published.at, item.published.tool) == (
        "trainer", "2026-03-01T12:00:00Z", "drafters 0.1.0",
    )  # fmt: skip
    assert item.digest.startswith("sha256:")


def test_a_boundary_taken_twice_is_one_version_with_both(catalogue):
    (item,) = list_versions(catalogue, READER, {"method": "DFLASH", "boundary": "3"}).items
    assert item.boundaries == (3, 31, 3)


@pytest.mark.parametrize("query", [{}, {"alias": "prod"}, {"boundary": "3"}, {"method": "EAGLE3"}, {"state": "all"}])
@pytest.mark.parametrize("limit", ["1", "2", "5"])
def test_pages_hold_everything_once(catalogue, query, limit):
    seen, cursor = [], ""
    while True:
        page = list_versions(catalogue, READER, {**query, "limit": limit, "cursor": cursor})
        assert 1 <= len(page.items) <= int(limit)
        seen += [f"{item.name}@{item.version}" for item in page.items]
        assert len(seen) < 100
        cursor = page.next
        if not cursor:
            break
    assert seen == found(catalogue, **query)


def test_what_is_published_meanwhile_moves_no_page(catalogue, add_row):
    first = list_versions(catalogue, READER, {"limit": "2"})
    add_row(catalogue, "later", "1.0")
    second = list_versions(catalogue, READER, {"limit": "2", "cursor": first.next})
    assert [item.name for item in first.items + second.items] == ["qwen-dflash", "qwen-eagle3", *["kimi-eagle3"] * 2]


BAD = [
    ("targt", "x", "did you mean 'target'"),
    ("boundaries", "3", "did you mean 'boundary'"),
    ("colour", "red", "is no parameter"),
    ("name", "Kimi", "is no name"),
    ("name", "Kimi*", "is no pattern"),
    ("target", "a\x00b", "cannot be one"),
    ("target", "x" * 256, "cannot be one"),
    ("architecture", "\ud800", "cannot be one"),
    ("alias", "1.0", "is no alias"),
    ("boundary", "3,", "are no boundaries"),
    ("boundary", "-1", "are no boundaries"),
    ("boundary", "²", "are no boundaries"),
    ("boundary", "9" * 30, "are no boundaries"),
    ("fingerprint", "sha256:1", "is no digest"),
    ("state", "Live", "is no state"),
    ("limit", "0", "1 to 500"),
    ("limit", "501", "1 to 500"),
    ("limit", "ten", "1 to 500"),
    ("cursor", "x", "is no cursor"),
    ("cursor", "YXVkaXQ6MQ", "is no cursor"),
]


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
@pytest.mark.parametrize(("key", "value", "message"), BAD)
def test_what_cannot_be_asked_is_refused(rows, kind, key, value, message):
    with pytest.raises(InvalidError, match=message) as caught:
        list_versions(rows, READER, {key: value})
    assert [fault.pointer for fault in caught.value.faults] == [key]


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_every_fault_is_told_at_once(rows, kind):
    with pytest.raises(InvalidError) as caught:
        list_versions(rows, READER, dict.fromkeys(("targt", "alias", "limit", "boundary"), "-1"))
    assert [fault.pointer for fault in caught.value.faults] == ["targt", "alias", "limit", "boundary"]


def test_reading_needs_a_token_unless_everybody_may(rows):
    with pytest.raises(NotAuthorisedError):
        list_versions(rows, anonymous(rows.settings), {})
    assert list_versions(rows, READER, {}).items == ()


MANY = 2000


@pytest.fixture
def many(rows):
    """Two thousand versions, of which one has a rare target and one a rare boundary."""
    now = rows.now()
    owners = [{"name": f"d-{i}", "normal_form": f"d{i}", "created_at": now} for i in range(MANY // 10)]
    with rows.database.write() as connection:
        connection.execute(insert(DrafterRow), owners)
        ids = connection.execute(select(DrafterRow.id).order_by(DrafterRow.id)).scalars().all()
        versions = [_version(ids[i % len(ids)], i, now) for i in range(MANY)]
        connection.execute(insert(VersionRow), versions)
        numbers = connection.execute(select(VersionRow.id).order_by(VersionRow.id)).scalars().all()
        taken = [{"version_id": n, "position": 0, "boundary": 7 if n == numbers[0] else 3} for n in numbers]
        connection.execute(insert(BoundaryRow), taken)
        newest = numbers[-len(ids) :]
        pointing = [{"alias": "prod", "version_id": n, "revision": 1} for n in newest]
        owners_of = dict(connection.execute(select(VersionRow.id, VersionRow.drafter_id)).all())
        connection.execute(insert(AliasRow), [{**one, "drafter_id": owners_of[one["version_id"]]} for one in pointing])
    return rows


def _version(owner, i, now):
    return {
        "drafter_id": owner, "version": f"{i}", "digest": f"sha256:{i:064x}", "fingerprint": f"sha256:{i % 50:064x}",
        "manifest": b"{}", "facts": b"{}", "facts_by": "", "method": "EAGLE3", "target_architecture": "A",
        "target_model": "rare" if i == 0 else "common", "size": 1, "state": "live", "published_at": now,
        "published_by": "", "tool": "",
    }  # fmt: skip


@pytest.mark.parametrize("limit", [1, 50, limits.page_max_items])
def test_a_page_is_three_queries_whatever_it_holds(many, limit):
    statements = []
    event.listen(many.database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    page = list_versions(many, READER, {"limit": str(limit)})
    assert len(page.items) == limit
    assert len([one for one in statements if one.lstrip().upper().startswith("SELECT")]) == 3


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"state": "all"},
        {"state": "yanked"},
        {"name": "d-3"},
        {"target": "rare"},
        {"target": "rare", "method": "EAGLE3", "architecture": "A"},
        {"boundary": "7"},
        {"boundary": "7", "method": "EAGLE3"},
        {"alias": "prod", "boundary": "3", "method": "EAGLE3"},
        {"fingerprint": f"sha256:{7:064x}", "method": "EAGLE3"},
        {"method": "EAGLE3"},
        {"method": "none"},
    ],
)
def test_a_page_reads_no_more_rows_than_it_needs(many, kind, query):
    """SQLite counts its own steps: a page of ten takes as few with 2000 versions as the index that leads allows."""
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    with many.database.read() as connection:
        driver = connection.connection.driver_connection
        driver.set_progress_handler(count, 100)
    try:
        list_versions(many, READER, {**query, "limit": "10"})
    finally:
        driver.set_progress_handler(None, 0)
    assert steps < 25, f"{steps * 100} instructions"  # a scan of all takes 40,000
