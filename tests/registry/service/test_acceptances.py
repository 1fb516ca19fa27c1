"""Acceptances of a version: those of its manifest and those attached, each once, and the version stays as it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from sqlalchemy import select, update

from drafter_contracts.manifest import SCHEMA, Manifest, canonical, digest
from drafter_contracts.manifest_records import Acceptance
from drafter_registry import limits
from drafter_registry.db.models import AcceptanceRow, VersionRow
from drafter_registry.errors import FullError, InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.names import read_reference
from drafter_registry.service import acceptances, aliases, audit, versions
from drafter_registry.service.access import anonymous
from drafter_registry.service.context import Actor

NAME = "kimi-eagle3"
FIRST = Acceptance(length=2.9, dataset="MT-Bench", engine="sglang 0.5.20", steps=3)
LATER = Acceptance(length=3.1, dataset="MT-Bench", engine="sglang 0.5.23", steps=3, positions=(0.9, 0.7, 0.5))
ONE = read_reference(f"{NAME}@1.0")
PROD = read_reference(f"{NAME}@prod")
#: What no database decides.
ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)


@pytest.fixture
def registry(rows, add_row):
    """Versions 1.0 and 2.0, each with one promise in its manifest."""
    for version in ("1.0", "2.0"):
        manifest = Manifest(schema=SCHEMA, name=NAME, version=version, acceptance=(FIRST,))
        add_row(rows, NAME, version, manifest=canonical(manifest), digest=digest(manifest))
    return rows


def row_of(registry, version="1.0"):
    with registry.database.read() as connection:
        return connection.execute(select(VersionRow.__table__).where(VersionRow.version == version)).one()


def test_both_kinds_are_told_apart_with_who_and_when(registry, local_admin, row_clock):
    before = row_of(registry)
    row_clock.forward(days=3)
    added = acceptances.add(registry, Actor("bench", ("publish:kimi-*",)), ONE, LATER)
    assert (added.created, added.name, added.version, added.digest) == (True, NAME, "1.0", before.digest)
    found = acceptances.listing(registry, Actor("reader", ("read",)), ONE)
    assert (found.name, found.version, found.digest) == (NAME, "1.0", before.digest)
    assert [(one.source, one.acceptance, one.by, one.at) for one in found.items] == [
        ("manifest", FIRST, "trainer", "2026-03-01T12:00:00Z"),
        ("attached", LATER, "bench", "2026-03-04T12:00:00Z"),
    ]
    assert found.items[1] == added.item
    assert row_of(registry) == before
    entry = audit.entries(registry, local_admin).items[0]
    assert (entry.action, entry.subject, entry.actor) == ("acceptance.add", f"{NAME}@1.0", "bench")
    assert entry.detail == {"acceptance": added.item.digest, "length": "3.1"}


@ON_SQLITE
def test_the_same_again_changes_nothing_however_it_is_written(registry, local_admin):
    first = acceptances.add(registry, local_admin, ONE, LATER)
    text = b'{"positions": [0.9, 0.70, 0.5], "topk": null, "steps": 3, "length": 3.10, "notes": "", \
        "engine": "sglang 0.5.23", "dataset": "MT-Bench"}'
    again = acceptances.add(registry, Actor("other", ("admin",)), ONE, msgspec.json.decode(text, type=Acceptance))
    assert (first.created, again.created) == (True, False)
    assert again.item == first.item
    assert len(acceptances.listing(registry, local_admin, ONE).items) == 2
    assert len(audit.entries(registry, local_admin).items) == 1


@ON_SQLITE
def test_the_digest_is_that_of_the_canonical_text(registry, local_admin):
    import hashlib

    text = '{"dataset":"Ü","length":2.0}'
    added = acceptances.add(registry, local_admin, ONE, Acceptance(length=2, dataset="Ü"))
    assert added.item.digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(InvalidError, match="no Acceptance"):
        acceptances.add(registry, local_admin, ONE, Acceptance(length=0.5))


@ON_SQLITE
def test_what_the_manifest_has_is_not_attached(registry, local_admin):
    added = acceptances.add(registry, local_admin, ONE, FIRST)
    assert (added.created, added.item.source) == (False, "manifest")
    assert len(acceptances.listing(registry, local_admin, ONE).items) == 1


def test_an_alias_means_where_it_points_now_also_to_a_yanked_version(registry, local_admin):
    aliases.move(registry, local_admin, NAME, "prod", "1.0", expected=0)
    assert acceptances.add(registry, local_admin, PROD, LATER).version == "1.0"
    aliases.move(registry, local_admin, NAME, "prod", "2.0", expected=1)
    assert acceptances.add(registry, local_admin, PROD, LATER).version == "2.0"
    versions.yank(registry, local_admin, NAME, "2.0", why="bad")
    assert [one.source for one in acceptances.listing(registry, local_admin, PROD).items] == ["manifest", "attached"]
    by_digest = read_reference(f"{NAME}@{row_of(registry, '2.0').digest}")
    assert not acceptances.add(registry, local_admin, by_digest, LATER).created


@ON_SQLITE
@pytest.mark.parametrize(("verb", "scopes", "allowed"), [
    ("add", ("publish:kimi-*",), True), ("add", ("publish:other",), False), ("add", ("observe:*",), False),
    ("add", ("read", "alias:*"), False), ("remove", ("publish:*",), False), ("remove", ("admin",), True),
    ("listing", ("read",), True), ("listing", ("observe:x",), True), ("listing", (), False),
])  # fmt: skip
def test_scopes(registry, local_admin, verb, scopes, allowed):
    known = acceptances.add(registry, local_admin, ONE, LATER).item.digest
    more = {"add": (LATER,), "remove": (known,), "listing": ()}[verb]
    if allowed:
        getattr(acceptances, verb)(registry, Actor("somebody", scopes), ONE, *more)
        return
    with pytest.raises(NotFoundError):
        getattr(acceptances, verb)(registry, Actor("somebody", scopes), ONE, *more)
    with pytest.raises(NotAuthorisedError):
        getattr(acceptances, verb)(registry, anonymous(registry.settings), ONE, *more)


def test_an_attached_one_can_be_removed_and_one_of_the_manifest_not(registry, local_admin):
    added = acceptances.add(registry, local_admin, ONE, LATER).item
    acceptances.remove(registry, local_admin, ONE, added.digest)
    left = acceptances.listing(registry, local_admin, ONE).items
    assert [one.source for one in left] == ["manifest"]
    assert audit.entries(registry, local_admin).items[0].detail == {"acceptance": added.digest}
    for gone in (added.digest, left[0].digest):
        with pytest.raises(NotFoundError):
            acceptances.remove(registry, local_admin, ONE, gone)
    with pytest.raises(InvalidError):
        acceptances.remove(registry, local_admin, ONE, "sha256:x")


@ON_SQLITE
def test_what_cannot_be_is_refused(registry, local_admin):
    with pytest.raises(InvalidError, match="rise"):
        acceptances.add(registry, local_admin, ONE, Acceptance(length=2, positions=(0.5, 0.6)))
    with pytest.raises(InvalidError, match="bytes"):
        acceptances.add(registry, local_admin, ONE, Acceptance(length=2, notes="x" * limits.acceptance_max_bytes))
    for wrong in (f"{NAME}@3.0", f"{NAME}@prod", "other@1.0"):
        with pytest.raises(NotFoundError):
            acceptances.add(registry, local_admin, read_reference(wrong), LATER)
    assert len(acceptances.listing(registry, local_admin, ONE).items) == 1


def test_a_deleted_version_has_none_and_takes_none(registry, local_admin):
    acceptances.add(registry, local_admin, ONE, LATER)
    acceptances.add(registry, local_admin, read_reference(f"{NAME}@2.0"), LATER)
    versions.delete(registry, local_admin, NAME, "1.0")
    for verb in (lambda: acceptances.listing(registry, local_admin, ONE),
                 lambda: acceptances.add(registry, local_admin, ONE, LATER)):  # fmt: skip
        with pytest.raises(NotFoundError):
            verb()
    with registry.database.read() as connection:
        assert len(connection.execute(select(AcceptanceRow.digest)).all()) == 1


def test_no_more_than_so_many_also_when_many_attach_at_once(registry, local_admin, monkeypatch):
    monkeypatch.setattr(limits, "acceptances_max", 5)

    def add(i):
        try:
            return acceptances.add(registry, local_admin, ONE, Acceptance(length=2 + i / 10)).created
        except FullError:
            return "full"

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(add, range(8)))
    assert (done.count(True), done.count("full")) == (5, 3)
    assert len(acceptances.listing(registry, local_admin, ONE).items) == 6
    there = acceptances.listing(registry, local_admin, ONE).items[3].acceptance
    assert not acceptances.add(registry, local_admin, ONE, there).created


def test_many_who_attach_the_same_attach_it_once(registry, local_admin):
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: acceptances.add(registry, local_admin, ONE, LATER).created, range(8)))
    assert sorted(done) == [False] * 7 + [True]


@ON_SQLITE
def test_damage_is_found(registry, local_admin):
    from drafter_registry.service.scrub_acceptance import scrub_acceptance

    acceptances.add(registry, local_admin, ONE, LATER)
    assert scrub_acceptance(registry) == []
    with registry.database.write() as connection:
        connection.execute(update(AcceptanceRow).values(acceptance=b'{"length":9.0}'))
    assert [(one.kind, one.subject.split()[0]) for one in scrub_acceptance(registry)] == [
        ("acceptance-digest", f"{NAME}@1.0")
    ]
    with registry.database.write() as connection:
        connection.execute(update(VersionRow).values(state="deleted"))
    assert [one.kind for one in scrub_acceptance(registry)] == ["rows-left"]
