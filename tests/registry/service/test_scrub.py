"""Scrub: every kind of damage is found, told with its remedy, and left as it is."""

import hashlib

import pytest
from sqlalchemy import delete, insert, select, update

from drafter_registry.db.models import AliasRow, BlobRow, BoundaryRow, FileRow, VersionRow
from drafter_registry.service import uploads
from drafter_registry.service.scrub import scrub


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def execute(registry, statement):
    with registry.database.write() as connection:
        connection.execute(statement)


def replace_bytes(registry, digest, data):
    """Put other bytes where a blob is, as a failing disk would."""
    name = digest.removeprefix("sha256:")
    place = f"blobs/sha256/{name[:2]}/{name}"
    if not registry.settings.storage:
        with open(f"{registry.settings.storage_url}/{place}", "wb") as file:
            file.write(data)
        return
    import obstore
    from obstore.store import from_url

    obstore.put(from_url(registry.settings.storage, client_options={"allow_http": True}), place, data)


@pytest.fixture
def published(registry, drafter, publish):
    made = drafter()
    publish(made)
    return made


@pytest.fixture
def config(published):
    return digest_of(published.files["config.json"])


def found(registry, admin):
    return {(problem.kind, problem.subject) for problem in scrub(registry, admin).problems}


def test_nothing_is_wrong(registry, admin, published):
    report = scrub(registry, admin)
    assert report.problems == ()
    assert (report.versions, report.blobs) == (1, len(published.files))
    assert report.bytes_hashed == sum(map(len, published.files.values()))


def test_bytes_that_changed(registry, admin, config, published):
    data = published.files["config.json"]
    replace_bytes(registry, config, data[:-1] + b"!")
    assert found(registry, admin) == {("blob-corrupt", config)}
    replace_bytes(registry, config, data[:-1])
    assert found(registry, admin) == {("blob-size", config)}
    for problem in scrub(registry, admin).problems:
        assert problem.detail
        assert "--repair" in problem.remedy
    uploads.store_bytes(registry, admin, data, config)
    assert found(registry, admin) == set()


def test_bytes_that_are_gone(registry, admin, config):
    registry.blobs.delete(config)
    assert found(registry, admin) == {("blob-missing", config)}
    execute(registry, delete(BlobRow).where(BlobRow.digest == config))
    assert found(registry, admin) == {("file-missing", "tiny-eagle3@1.0.0/config.json")}


def test_bytes_without_a_row_and_a_removal_that_was_not_finished(registry, admin):
    registry.blobs.ingest("0" * 32, [b"orphan"], digest_of(b"orphan"))
    registry.blobs.commit("0" * 32, 6, digest_of(b"orphan"))
    (problem,) = scrub(registry, admin).problems
    assert (problem.kind, problem.subject) == ("blob-orphan", digest_of(b"orphan"))
    assert "6 bytes" in problem.detail
    assert "drafters gc" in problem.remedy
    uploads.store_bytes(registry, admin, b"orphan", digest_of(b"orphan"))
    execute(registry, update(BlobRow).values(doomed=True))
    assert found(registry, admin) == {("blob-doomed", digest_of(b"orphan"))}


@pytest.mark.parametrize(
    ("statement", "problem", "subject"),
    [
        (update(VersionRow).values(digest="sha256:" + "0" * 64), "manifest-digest", "tiny-eagle3@1.0.0"),
        (update(VersionRow).values(manifest=b"{"), "manifest-unreadable", "tiny-eagle3@1.0.0"),
        (update(VersionRow).values(method="DFLASH"), "row-differs", "tiny-eagle3@1.0.0 method"),
        (update(BoundaryRow).values(boundary=BoundaryRow.boundary + 1), "boundaries-differ", "tiny-eagle3@1.0.0"),
        (delete(FileRow).where(FileRow.path == "config.json"), "files-differ", "tiny-eagle3@1.0.0"),
        (update(FileRow).values(size=1), "files-differ", "tiny-eagle3@1.0.0"),
        (update(VersionRow).values(state="deleted"), "files-differ", "tiny-eagle3@1.0.0"),
    ],
)
def test_rows_that_disagree(registry, admin, published, statement, problem, subject):
    execute(registry, statement)
    assert (problem, subject) in found(registry, admin)


def test_an_alias_to_a_deleted_version(registry, admin, published):
    with registry.database.write() as connection:
        row = connection.execute(select(VersionRow.id, VersionRow.drafter_id)).one()
        alias = {"drafter_id": row.drafter_id, "alias": "prod", "version_id": row.id, "revision": 1}
        connection.execute(insert(AliasRow).values(alias))
        assert connection.execute(select(AliasRow.alias)).scalar_one() == "prod"
    assert found(registry, admin) == set()
    for table in (FileRow, BoundaryRow):
        execute(registry, delete(table))
    execute(registry, update(VersionRow).values(state="deleted", manifest=b"", facts=b""))
    assert found(registry, admin) == {("alias-dangling", "tiny-eagle3@prod")}


def test_nothing_is_changed(registry, admin, config):
    replace_bytes(registry, config, b"damaged")
    execute(registry, update(VersionRow).values(method="DFLASH"))
    before = scrub(registry, admin)
    assert scrub(registry, admin) == before
    assert registry.blobs.read(config, 0, 100) == b"damaged"
