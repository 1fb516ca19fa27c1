"""Finding, showing and reading versions; yanking and deleting them."""

import hashlib

import msgspec
import pytest
from sqlalchemy import event, select, update

from drafter_contracts.manifest import canonical
from drafter_registry.db.models import BoundaryRow, FileRow, VersionRow
from drafter_registry.errors import (
    ConflictError,
    IntegrityError,
    InvalidError,
    NotAuthorisedError,
    NotFoundError,
    RangeError,
)
from drafter_registry.names import read_reference
from drafter_registry.service import aliases, audit
from drafter_registry.service.context import Actor
from drafter_registry.service.versions import delete, file, find, manifest_bytes, show, stream_file, yank

READER = Actor("reader", ("read",))
NAME = "tiny-eagle3"
#: Where nothing depends on the back end.
one_kind = pytest.mark.parametrize("kind", ["sqlite-local"])


@pytest.fixture
def two(registry, admin, publish, drafter):
    """Two versions, `prod` on the first."""
    done = [publish(drafter(version=version)) for version in ("1.0.0", "1.1.0")]
    aliases.move(registry, admin, NAME, "prod", "1.0.0", expected=None)
    return done


def at(reference):
    return read_reference(f"{NAME}@{reference}")


def test_a_version_is_found_by_version_alias_and_digest_with_one_select(registry, two):
    statements = []
    event.listen(registry.database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    with registry.database.read() as connection:
        for reference in ("1.0.0", "prod", two[0].digest):
            del statements[:]
            row = find(connection, at(reference))
            assert (row.name, row.version, row.digest) == (NAME, "1.0.0", two[0].digest)
            assert [one.split()[0] for one in statements if one != "BEGIN"] == ["SELECT"]


@one_kind
@pytest.mark.parametrize("reference", ["9.9", "nowhere", "sha256:" + "0" * 64])
def test_what_is_not_there_is_not_found(registry, two, reference):
    for name in (NAME, "another"):
        with pytest.raises(NotFoundError, match=f"{name}@{reference} is not here"):
            show(registry, READER, read_reference(f"{name}@{reference}"))


def test_an_alias_or_digest_of_another_drafter_is_not_found(registry, admin, two, publish, drafter):
    publish(drafter("another"))
    for reference in ("prod", two[0].digest):
        with pytest.raises(NotFoundError):
            show(registry, READER, read_reference(f"another@{reference}"))


def test_show_tells_the_aliases(registry, admin, two):
    aliases.move(registry, admin, NAME, "canary", "1.0.0", expected=None)
    assert show(registry, READER, at("1.0.0")).summary.aliases == ("canary", "prod")
    assert show(registry, READER, at("1.1.0")).summary.aliases == ()
    assert show(registry, READER, at("prod")).summary.version == "1.0.0"
    aliases.move(registry, admin, NAME, "prod", "1.1.0", expected=None)
    assert show(registry, READER, at("prod")).summary.version == "1.1.0"
    assert show(registry, READER, at("canary")).summary.version == "1.0.0"


@one_kind
def test_reading_needs_a_scope(registry, two, drafter):
    nobody = Actor("anonymous", ())
    calls = (
        lambda: show(registry, nobody, at("1.0.0")),
        lambda: manifest_bytes(registry, nobody, at("1.0.0")),
        lambda: file(registry, nobody, at("1.0.0"), "config.json"),
        lambda: stream_file(registry, nobody, at("1.0.0"), "config.json", 0, 1),
    )
    for call in calls:
        with pytest.raises(NotAuthorisedError):
            call()


def test_a_damaged_manifest_is_not_given_out(registry, admin, two):
    with registry.database.write() as connection:
        connection.execute(update(VersionRow).values(manifest=b'{"schema":"drafters.manifest.v1"}'))
    for verb in (show, manifest_bytes):
        with pytest.raises(IntegrityError, match="has not its digest"):
            verb(registry, READER, at("1.0.0"))


# Files --------------------------------------------------------------------------------------------------------------


def test_files_are_read_whole_and_in_ranges(registry, two, publish, drafter):
    made = drafter(version="2.0.0", extra={"empty.txt": b"", "deep/notes.txt": bytes(range(256)) * 9000})
    publish(made)
    for path, data in made.files.items():
        size, digest = file(registry, READER, at("2.0.0"), path)
        assert (size, digest) == (len(data), "sha256:" + hashlib.sha256(data).hexdigest())
        assert b"".join(stream_file(registry, READER, at("2.0.0"), path, 0, size)) == data
    data = made.files["deep/notes.txt"]
    for start, end in ((0, 1), (5, 9), (len(data) - 1, len(data)), (1_000_000, 1_100_000)):
        assert b"".join(stream_file(registry, READER, at("2.0.0"), "deep/notes.txt", start, end)) == data[start:end]


@one_kind
@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 3), (4, 2), (0, 10**6), (10**6, 10**6 + 1)])
def test_a_range_outside_of_the_file_is_refused_before_anything_is_read(registry, two, start, end):
    with pytest.raises(RangeError, match="not inside"):
        stream_file(registry, READER, at("1.0.0"), "config.json", start, end)


@one_kind
@pytest.mark.parametrize("path", ["missing.txt", "../config.json", "drafters-manifest.json", "", "Config.json"])
def test_a_file_that_is_not_listed_is_not_found(registry, two, path):
    with pytest.raises(NotFoundError, match="has no file"):
        file(registry, READER, at("1.0.0"), path)


def test_a_lost_blob_is_said_to_be_lost(registry, two):
    digest = file(registry, READER, at("1.0.0"), "config.json")[1]
    registry.blobs.delete(digest)
    with pytest.raises(IntegrityError, match="are gone"):
        list(stream_file(registry, READER, at("1.0.0"), "config.json", 0, 5))


def test_a_file_kept_elsewhere_says_where(registry, admin, drafter):
    from drafter_contracts.manifest import FileRecord
    from drafter_registry.service.publish import publish
    from drafter_registry.service.uploads import store_bytes

    made = drafter()
    weights = made.files["model.safetensors"]
    head = weights[: 8 + int.from_bytes(weights[:8], "little")]
    place = "hf://org/repo@" + "1" * 40 + "/model.safetensors"
    record = FileRecord(
        path="model.safetensors",
        size=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
        elsewhere=place,
        header_sha256=hashlib.sha256(head).hexdigest(),
    )
    made.upload(registry, admin, without=("model.safetensors",))
    store_bytes(registry, admin, head, "sha256:" + record.header_sha256)
    files = tuple(record if one.path == record.path else one for one in made.manifest.files)
    manifest = msgspec.structs.replace(made.manifest, files=files)
    assert publish(registry, admin, NAME, "1.0.0", manifest, tool="").created
    with pytest.raises(NotFoundError, match=place):
        file(registry, READER, at("1.0.0"), "model.safetensors")
    assert file(registry, READER, at("1.0.0"), "config.json")[0] == len(made.files["config.json"])
    with registry.database.read() as connection:
        kept = connection.execute(select(FileRow.digest).where(FileRow.path == "model.safetensors")).scalar_one()
    assert kept == "sha256:" + record.header_sha256


# Yanking ------------------------------------------------------------------------------------------------------------


def test_a_yanked_version_is_found_by_its_exact_version_only(registry, admin, two):
    yank(registry, admin, NAME, "1.0.0", why="wrong label")
    document = show(registry, READER, at("1.0.0"))
    assert (document.summary.state, document.yanked_why, document.yanked_by) == ("yanked", "wrong label", "admin")
    assert document.yanked_at.endswith("Z")
    for reference in ("prod", two[0].digest):
        with pytest.raises(NotFoundError, match=rf"{NAME}@1\.0\.0, which was yanked .*'wrong label'"):
            show(registry, READER, at(reference))
    yank(registry, admin, NAME, "1.0.0", undo=True, why="it was right")
    document = show(registry, READER, at("prod"))
    assert (document.summary.state, document.yanked_why, document.yanked_by) == ("live", "", "")


def test_yanking_again_changes_nothing_but_a_new_reason(registry, admin, two):
    for why in ("a", "a", "", "b"):
        yank(registry, admin, NAME, "1.0.0", why=why)
    for _ in range(2):
        yank(registry, admin, NAME, "1.0.0", undo=True)
    entries = audit.entries(registry, admin, subject=f"{NAME}@1.0.0").items
    logged = [(one.action, one.detail.get("why", "")) for one in entries if "yank" in one.action]
    assert logged == [("version.unyank", ""), ("version.yank", "b"), ("version.yank", "a")]


@one_kind
def test_who_may_yank(registry, two):
    with pytest.raises(NotFoundError, match=rf"{NAME}@1\.0\.0 is not here, or this token may not"):
        yank(registry, READER, NAME, "1.0.0")
    publisher = Actor("publisher", (f"publish:{NAME}",))
    yank(registry, publisher, NAME, "1.0.0")
    with pytest.raises(NotFoundError, match=rf"{NAME}@9 is not here, or this token may not"):
        yank(registry, publisher, NAME, "9")
    with pytest.raises(InvalidError):
        yank(registry, publisher, NAME, "1.0.0", why="x" * 1001)


# Deleting -----------------------------------------------------------------------------------------------------------


def test_a_deleted_version_leaves_a_tombstone(registry, admin, two):
    with registry.database.read() as connection:
        row_id = find(connection, at("1.1.0")).id
    delete(registry, admin, NAME, "1.1.0", why="licence")
    for reference in ("1.1.0", two[1].digest):
        with pytest.raises(NotFoundError, match=r"1\.1\.0 was deleted .*'licence'"):
            show(registry, READER, at(reference))
    with pytest.raises(NotFoundError, match="was deleted"):
        delete(registry, admin, NAME, "1.1.0")
    with pytest.raises(NotFoundError, match="was deleted"):
        yank(registry, admin, NAME, "1.1.0")
    with registry.database.read() as connection:
        for table in (FileRow, BoundaryRow):
            assert not connection.execute(select(table.version_id).where(table.version_id == row_id)).all()
            assert connection.execute(select(table.version_id)).all()
        row = connection.execute(select(VersionRow.__table__).where(VersionRow.id == row_id)).one()
    assert (bytes(row.manifest), bytes(row.facts), row.state, row.state_by) == (b"", b"", "deleted", "admin")
    (entry,) = [one for one in audit.entries(registry, admin).items if one.action == "version.delete"]
    assert entry.detail == {"why": "licence", "digest": two[1].digest}
    assert show(registry, READER, at("1.0.0"))


def test_a_version_that_aliases_point_to_is_not_deleted(registry, admin, two):
    aliases.move(registry, admin, NAME, "canary", "1.0.0", expected=None)
    with pytest.raises(ConflictError, match="canary, prod"):
        delete(registry, admin, NAME, "1.0.0")
    assert show(registry, READER, at("prod"))
    aliases.remove(registry, admin, NAME, "canary", expected=None)
    aliases.move(registry, admin, NAME, "prod", "1.1.0", expected=None)
    delete(registry, admin, NAME, "1.0.0")


@one_kind
def test_only_an_admin_deletes(registry, two):
    for scopes in (("read",), ("publish:*", "alias:*")):
        with pytest.raises(NotFoundError, match="is not here, or this token may not"):
            delete(registry, Actor("somebody", scopes), NAME, "1.1.0")
    assert show(registry, READER, at("1.1.0"))


def test_an_alias_moved_while_a_version_is_deleted_never_points_to_nothing(registry, admin, publish, drafter):
    """Either the alias is refused, or the deletion is; both cannot win."""
    from concurrent.futures import ThreadPoolExecutor

    def tried(verb, *arguments, **keywords):
        try:
            verb(registry, admin, NAME, *arguments, **keywords)
        except (NotFoundError, ConflictError):
            return False
        return True

    for i in range(8):
        version = f"1.0.{i}"
        publish(drafter(version=version))
        with ThreadPoolExecutor(2) as pool:
            moved = pool.submit(tried, aliases.move, "prod", version, expected=None)
            deleted = pool.submit(tried, delete, version)
        assert moved.result() is not deleted.result()
        if moved.result():
            assert show(registry, READER, at("prod")).manifest.version == version


@one_kind
def test_manifest_bytes_are_canonical(registry, two):
    data, digest = manifest_bytes(registry, READER, at("prod"))
    assert digest == two[0].digest
    assert canonical(show(registry, READER, at("prod")).manifest) == data
