"""Backup and restore: onto either kind, while others publish; damage is found, and nothing is left half done."""

from __future__ import annotations

import json
import os
import stat
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_contracts.manifest_records import Acceptance
from drafter_registry.db.models import BlobRow, FileRow, VersionRow
from drafter_registry.documents import TokenRequest
from drafter_registry.errors import (
    ConflictError,
    IntegrityError,
    InvalidError,
    NotFoundError,
    RegistryError,
    SchemaError,
    StorageFullError,
)
from drafter_registry.names import read_reference
from drafter_registry.service import acceptances, aliases, observations, tokens
from drafter_registry.service import backup as module
from drafter_registry.service.backup import backup, restore
from drafter_registry.service.context import Actor
from drafter_registry.service.dump import TABLES
from drafter_registry.service.open import close, open_registry
from drafter_registry.settings import Settings


@pytest.fixture
def other(kind, request, tmp_path):
    """Settings of an empty registry of the other kind."""
    if kind != "sqlite-local":
        return Settings(data=str(tmp_path / "other"))
    url, _ = request.getfixturevalue("postgresql"), request.getfixturevalue("s3")
    database = request.getfixturevalue("servers").new_database(url)
    return Settings(data=str(tmp_path / "other"), database=database, storage=f"s3://registry/{uuid.uuid4().hex}")


@pytest.fixture
def filled(registry, admin, drafter, publish):
    """Two versions, an alias that moved, a token, a promise and what was seen; and a blob that no version names."""
    publish(drafter())
    publish(drafter(version="1.1.0", steps=3))
    aliases.move(registry, admin, "tiny-eagle3", "prod", "1.0.0", expected=0, why="first")
    aliases.move(registry, admin, "tiny-eagle3", "prod", "1.1.0", expected=1, why="bessere Annahme, 更好")
    prod = read_reference("tiny-eagle3@prod")
    acceptances.add(registry, admin, prod, Acceptance(length=2.75, dataset="好"))
    hour = registry.now().strftime("%Y-%m-%dT%H:00:00Z")
    seen = {"instance": "gpu-1", "conditions": Conditions(engine="sglang", temperature=0.7), "readings": 3}
    lengths = {"length": 7 / 3, "lowest": 1.0, "highest": 3.0, "positions": (0.9, 1 / 3)}
    observations.report(registry, admin, prod, "a", [Observation(hour=hour, **seen, **lengths)])
    drafter(extra={"README.md": b"of no version"}).upload(registry, admin)
    return registry


@pytest.fixture
def token(filled, admin):
    return tokens.create(filled, admin, TokenRequest(name="ci", scopes=("read",), expires_in_days=30)).token


@pytest.fixture
def saved(filled, admin, tmp_path):
    """A backup of it."""
    backup(filled, admin, str(tmp_path / "saved"))
    return tmp_path / "saved"


def rows(registry):
    with registry.database.read() as connection:
        return {table.name: connection.execute(select(table)).all() for table in TABLES}


def counts(settings):
    registry = open_registry(settings)
    try:
        return {name: len(found) for name, found in rows(registry).items()}
    finally:
        close(registry)


def table(folder, name):
    with open(os.path.join(folder, "tables", f"{name}.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_there_and_back_again_is_the_same_registry(filled, token, admin, other, settings, servers, tmp_path, request):
    """From one kind to the other, and from that to a new one of the first kind."""
    backup(filled, admin, str(tmp_path / "first"))
    restore(other, str(tmp_path / "first"))
    middle = open_registry(other)
    backup(middle, admin, str(tmp_path / "second"))
    if filled.database.is_sqlite:
        third = Settings(data=str(tmp_path / "third"))
    else:
        url = servers.new_database(request.getfixturevalue("postgresql"))
        third = Settings(data="", database=url, storage=f"s3://registry/{uuid.uuid4().hex}")
    restore(third, str(tmp_path / "second"))
    last = open_registry(third)

    wanted = rows(filled)
    for registry in (middle, last):
        found = rows(registry)
        for name in {*wanted} - {"audit", "blobs"}:
            assert sorted(found[name]) == sorted(wanted[name]), name
        assert {entry.id for entry in wanted["audit"]} <= {entry.id for entry in found["audit"]}
        assert tokens.authenticate(registry, token).name == "ci"
        state = aliases.state(registry, admin, "tiny-eagle3", "prod")
        assert (state.version, state.revision, state.why) == ("1.1.0", 2, "bessere Annahme, 更好")
        assert (len(found["observations"]), len(found["version_acceptances"])) == (1, 1)
        prod = read_reference("tiny-eagle3@prod")
        assert observations.history(registry, admin, prod) == observations.history(filled, admin, prod)
        assert acceptances.listing(registry, admin, prod) == acceptances.listing(filled, admin, prod)
        for file in wanted["version_files"]:
            ours = b"".join(filled.blobs.stream(file.digest, 0, file.size))
            assert b"".join(registry.blobs.stream(file.digest, 0, file.size)) == ours
        close(registry)


def test_a_restored_registry_goes_on(filled, admin, drafter, saved, other):
    """Its next ids are free, and its aliases move on."""
    from drafter_registry.service.publish import publish

    restore(other, str(saved))
    registry = open_registry(other)
    made = drafter(name="another", version="2.0.0")
    made.upload(registry, admin)
    assert publish(registry, admin, "another", "2.0.0", made.manifest, tool="test").created
    assert aliases.move(registry, admin, "tiny-eagle3", "prod", "1.0.0", expected=2).revision == 3
    close(registry)


def test_it_holds_every_named_blob_and_no_other(filled, saved):
    with filled.database.read() as connection:
        named = set(connection.execute(select(FileRow.digest)).scalars())
        stored = set(connection.execute(select(BlobRow.digest)).scalars())
    assert named < stored
    assert {f"sha256:{name}" for name in os.listdir(saved / "blobs" / "sha256")} == named
    assert {row["digest"] for row in table(saved, "blobs")} == named


def test_only_its_owner_can_read_it(saved):
    for folder, folders, files in os.walk(saved):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert folders or files
    assert stat.S_IMODE(os.stat(saved / "tables" / "tokens.jsonl").st_mode) == 0o600


def test_no_token_is_in_it(filled, token, admin, tmp_path):
    backup(filled, admin, str(tmp_path / "saved"))
    assert table(tmp_path / "saved", "tokens")[0]["name"] == "ci"
    for folder, _, files in os.walk(tmp_path / "saved"):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                assert token.encode() not in file.read()


def test_the_rows_are_of_one_moment(filled, admin, drafter, publish, tmp_path, monkeypatch):
    """A version is published after the first table was written: none of its rows is in the backup."""
    from drafter_registry.service import dump

    later = [drafter(version="3.0.0")]

    def between(connection, which, path):
        done = dump.write_table(connection, which, path)
        while later:
            publish(later.pop())
        return done

    monkeypatch.setattr(module, "write_table", between)
    backup(filled, admin, str(tmp_path / "saved"))
    saved = {row["id"] for row in table(tmp_path / "saved", "versions")}
    assert len(saved) == 2
    assert {row["version_id"] for row in table(tmp_path / "saved", "version_files")} == saved
    assert "tiny-eagle3@3.0.0" not in {row["subject"] for row in table(tmp_path / "saved", "audit")}
    assert len(rows(filled)["versions"]) == 3


def test_it_is_whole_while_others_publish(filled, admin, drafter, publish, other, tmp_path):
    made = [drafter(version=f"2.{i}.0", extra={"notes.md": f"of {i}".encode()}) for i in range(30)]
    started = threading.Event()

    def publish_all():
        for one in made:
            publish(one)
            started.set()

    taken = 0
    with ThreadPoolExecutor(1) as pool:
        publisher = pool.submit(publish_all)
        started.wait(60)
        while not publisher.done() or not taken:
            backup(filled, admin, str(tmp_path / f"saved-{taken}"))
            taken += 1
        publisher.result()
    restore(other, str(tmp_path / f"saved-{taken // 2}"))
    registry = open_registry(other)
    found = rows(registry)
    assert {file.version_id for file in found["version_files"]} == {version.id for version in found["versions"]}
    for file in found["version_files"]:
        assert registry.blobs.size(file.digest) == file.size
    close(registry)


def test_a_blob_that_is_gone_or_damaged_stops_it(filled, admin, tmp_path):
    with filled.database.read() as connection:
        digests = sorted(connection.execute(select(FileRow.digest)).scalars().unique())
    filled.blobs.delete(digests[0])
    filled.blobs.delete(digests[1])
    with pytest.raises(IntegrityError) as caught:
        backup(filled, admin, str(tmp_path / "folder" / "saved"))
    assert sorted(fault.pointer for fault in caught.value.faults) == digests[:2]
    assert "fsck" in caught.value.hint
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_a_blob_whose_bytes_changed_stops_it(filled, kind, admin, settings, tmp_path):
    with filled.database.read() as connection:
        digest = connection.execute(select(FileRow.digest)).scalars().first()
    (path,) = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(settings.storage_url)
        for name in names
        if digest[-20:] in os.path.join(folder, name)
    ]
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"\xff")
    with pytest.raises(IntegrityError, match="damaged"):
        backup(filled, admin, str(tmp_path / "folder" / "saved"))
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_a_full_disk_leaves_nothing(filled, kind, admin, tmp_path, monkeypatch):
    import errno

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_table", full)
    with pytest.raises(StorageFullError):
        backup(filled, admin, str(tmp_path / "folder" / "saved"))
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_a_directory_with_something_in_it_is_left_alone(filled, kind, admin, saved, tmp_path):
    before = sorted(os.listdir(saved))
    with pytest.raises(ConflictError, match="is there already"):
        backup(filled, admin, str(saved))
    assert sorted(os.listdir(saved)) == before
    (tmp_path / "empty").mkdir()
    backup(filled, admin, str(tmp_path / "empty"))
    (tmp_path / "file").write_bytes(b"x")
    for path in ("file", "file/below"):
        with pytest.raises((ConflictError, InvalidError)):
            backup(filled, admin, str(tmp_path / path))


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_only_an_admin_makes_one(filled, kind, tmp_path):
    with pytest.raises(NotFoundError):
        backup(filled, Actor("ci", ("read", "publish:*", "alias:*")), str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()


def test_a_registry_that_holds_anything_is_left_alone(filled, saved, settings):
    before = rows(filled)
    with pytest.raises(ConflictError, match="not empty"):
        restore(settings, str(saved))
    assert rows(filled) == before


def test_a_restore_that_fails_at_its_rows_leaves_none(filled, saved, other, monkeypatch):
    def fail(connection, which, path):
        if which.name == "version_files":
            raise RuntimeError
        insert(connection, which, path)

    insert = module.insert_table
    monkeypatch.setattr(module, "insert_table", fail)
    with pytest.raises(RuntimeError):
        restore(other, str(saved))
    assert set(counts(other).values()) == {0}
    monkeypatch.setattr(module, "insert_table", insert)
    restore(other, str(saved))
    assert counts(other)["versions"] == 2


def edit(path, change):
    data = path.read_bytes()
    path.write_bytes(change(data))
    assert path.read_bytes() != data


def first_blob(saved):
    return saved / "blobs" / "sha256" / min(os.listdir(saved / "blobs" / "sha256"))


DAMAGE = {
    "a row is gone": (lambda s: edit(s / "tables" / "versions.jsonl", lambda d: d.split(b"\n", 1)[1]), IntegrityError),
    "a byte of a row": (lambda s: edit(s / "tables" / "tokens.jsonl", lambda d: d + b"\n"), IntegrityError),
    "a table is gone": (lambda s: (s / "tables" / "aliases.jsonl").unlink(), IntegrityError),
    "a byte of a blob": (lambda s: edit(first_blob(s), lambda d: bytes([d[0] ^ 1]) + d[1:]), IntegrityError),
    "a blob is cut": (lambda s: edit(first_blob(s), lambda d: d[:-1]), IntegrityError),
    "a blob is gone": (lambda s: first_blob(s).unlink(), IntegrityError),
    "no description": (lambda s: (s / "backup.json").unlink(), InvalidError),
    "no JSON": (lambda s: edit(s / "backup.json", lambda d: d[:-5]), InvalidError),
    "another format": (
        lambda s: edit(s / "backup.json", lambda d: d.replace(b"backup.v1", b"backup.v9")),
        InvalidError,
    ),
    "another schema": (lambda s: edit(s / "backup.json", lambda d: d.replace(b"_0002", b"_0001")), SchemaError),
    "another table": (
        lambda s: edit(s / "backup.json", lambda d: d.replace(b'"aliases"', b'"alises"')),
        IntegrityError,
    ),
}


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_backup_makes_no_registry(filled, kind, saved, tmp_path, damage):
    break_it, error = DAMAGE[damage]
    break_it(saved)
    fresh = Settings(data=str(tmp_path / "fresh"))
    with pytest.raises(RegistryError) as caught:
        restore(fresh, str(saved))
    assert type(caught.value) is error
    assert set(counts(fresh).values()) == {0}


@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_rows_of_another_shape_are_refused(filled, kind, saved, tmp_path):
    """Digests that agree do not make a row one of ours."""
    import hashlib

    path = saved / "tables" / "versions.jsonl"
    edit(path, lambda d: d.replace(b'"size":', b'"sice":'))
    about = json.loads((saved / "backup.json").read_bytes())
    data = path.read_bytes()
    about["tables"]["versions"] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (saved / "backup.json").write_text(json.dumps(about))
    with pytest.raises(IntegrityError, match=r"line 1, is no row of versions.*sice"):
        restore(Settings(data=str(tmp_path / "fresh")), str(saved))


def test_blobs_of_a_version_are_kept_from_collection_meanwhile(filled, admin, tmp_path):
    """Whoever deletes a version while a backup runs leaves its blobs young."""
    with filled.database.write() as connection:
        named = select(FileRow.digest)
        old = filled.now().replace(year=2020)
        connection.execute(BlobRow.__table__.update().values(touched_at=old))
    backup(filled, admin, str(tmp_path / "saved"))
    with filled.database.read() as connection:
        oldest = select(func.min(BlobRow.touched_at)).where(BlobRow.digest.in_(named))
        assert connection.execute(oldest).scalar().year > 2020
        assert connection.execute(select(func.min(BlobRow.touched_at))).scalar() == old
        assert connection.execute(select(func.count()).select_from(VersionRow)).scalar() == 2
