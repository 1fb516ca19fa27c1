"""Collection: what goes, what stays, kills between its steps, and races with publishers."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import insert, select, update

from drafter_contracts.acceptance.records import Observation
from drafter_registry.db.models import BlobRow, DrafterRow, FileRow, UploadRow, VersionRow
from drafter_registry.errors import NotFoundError
from drafter_registry.names import read_reference
from drafter_registry.service import observations, uploads
from drafter_registry.service.collect import collect
from drafter_registry.service.context import Actor
from drafter_registry.service.scrub import scrub
from drafter_registry.service.versions import delete


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def store(registry, admin, data):
    return uploads.store_bytes(registry, admin, data, digest_of(data)).digest


def at(registry, **later):
    """The same registry, later."""
    return msgspec.structs.replace(registry, now=lambda: registry.now() + timedelta(**later))


def eager(registry):
    """The same registry without any grace for blobs."""
    settings = msgspec.structs.replace(registry.settings, gc_grace_seconds=0)
    return msgspec.structs.replace(registry, settings=settings, now=lambda: registry.now() + timedelta(seconds=2))


def digests(registry):
    with registry.database.read() as connection:
        return set(connection.execute(select(BlobRow.digest)).scalars())


def test_only_old_blobs_that_no_version_names_go(registry, admin, drafter, publish):
    made = drafter()
    publish(made)
    loose = store(registry, admin, b"loose")
    young = collect(registry, admin)
    assert (young.blobs_removed, young.blobs_kept_young, young.blobs_live) == ((), 1, len(made.files))
    planned = collect(at(registry, hours=25), admin, dry_run=True)
    assert planned.blobs_removed == (loose,)
    assert loose in digests(registry)
    assert registry.blobs.size(loose) == 5
    done = collect(at(registry, hours=25), admin)
    assert msgspec.structs.replace(done, dry_run=True) == planned
    assert done.bytes_removed == 5
    assert registry.blobs.size(loose) is None
    assert len(digests(registry)) == len(made.files)
    assert scrub(registry, admin).problems == ()


def test_a_blob_that_was_asked_for_lately_stays(registry, admin):
    loose = store(registry, admin, b"loose")
    uploads.stat(at(registry, hours=20), admin, loose)
    assert collect(at(registry, hours=30), admin).blobs_removed == ()
    assert collect(at(registry, hours=45), admin).blobs_removed == (loose,)


def test_a_deleted_version_lets_its_blobs_go(registry, admin, drafter, publish):
    first, second = drafter(), drafter(version="2.0.0", extra={"README.md": b"second"})
    publish(first)
    publish(second)
    delete(registry, admin, "tiny-eagle3", "2.0.0", why="")
    report = collect(at(registry, hours=25), admin)
    assert report.blobs_removed == (digest_of(b"second"),)
    assert report.blobs_live == len(first.files)


def test_idle_uploads_and_bytes_of_no_upload_are_swept(registry, admin):
    idle = uploads.start(registry, admin).id
    with uploads.receive(registry, admin, idle, 0) as receiver:
        receiver.write(b"never finished")
    registry.blobs.append("0" * 32, 0, b"of no upload")
    assert collect(registry, admin).uploads_removed == 0
    late = at(registry, hours=25)
    assert collect(late, admin, dry_run=True).uploads_removed == 2
    assert len(list(registry.blobs.staged())) == 2
    assert collect(late, admin).uploads_removed == 2
    assert list(registry.blobs.staged()) == []
    with pytest.raises(NotFoundError):
        uploads.state(registry, admin, idle)


def test_an_upload_in_use_is_not_swept_whatever_the_age_of_its_bytes(registry, admin):
    upload = uploads.start(registry, admin).id
    with uploads.receive(registry, admin, upload, 0) as receiver:
        receiver.write(b"slow")
    with registry.database.write() as connection:
        connection.execute(update(UploadRow).values(touched_at=registry.now() + timedelta(hours=24)))
    assert collect(at(registry, hours=25), admin).uploads_removed == 0
    uploads.finish(registry, admin, upload, digest_of(b"slow"))


def test_bytes_without_a_row_go_when_they_are_old(registry, admin):
    registry.blobs.ingest("0" * 32, [b"orphan"], digest_of(b"orphan"))
    registry.blobs.commit("0" * 32, 6, digest_of(b"orphan"))
    assert collect(registry, admin).orphans_removed == ()
    assert collect(at(registry, hours=25), admin, dry_run=True).orphans_removed == (digest_of(b"orphan"),)
    assert registry.blobs.size(digest_of(b"orphan")) == 6
    report = collect(at(registry, hours=25), admin)
    assert (report.orphans_removed, report.bytes_removed) == ((digest_of(b"orphan"),), 6)
    assert list(registry.blobs.blobs()) == []


def test_only_admins_collect(registry, admin):
    for verb in (collect, scrub):
        with pytest.raises(NotFoundError):
            verb(registry, Actor("publisher", ("publish:*", "alias:*", "read")))


_COLLECT = """
import sys, msgspec
from datetime import UTC, datetime, timedelta
from drafter_registry.service.collect import collect
from drafter_registry.service.context import LOCAL_SCOPES, Actor
from drafter_registry.service.open import open_registry
from drafter_registry.settings import Settings
registry = open_registry(msgspec.json.decode(sys.argv[1], type=Settings))
registry = msgspec.structs.replace(registry, now=lambda: datetime.now(UTC) + timedelta(hours=25))
collect(registry, Actor("collector", LOCAL_SCOPES))
"""


@pytest.mark.parametrize("step", ["doomed", "deleted", "recorded"])
def test_a_killed_collection_is_finished_by_the_next_or_taken_back_by_an_upload(registry, admin, step):
    loose = store(registry, admin, b"loose")
    process = subprocess.run(
        [sys.executable, "-c", _COLLECT, msgspec.json.encode(registry.settings).decode()],
        env={**os.environ, "DRAFTERS_FAILPOINT": f"gc.{step}"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    with pytest.raises(NotFoundError):
        uploads.stat(registry, admin, loose)
    store(registry, admin, b"loose")
    assert registry.blobs.read(loose, 0, 5) == b"loose"
    assert uploads.stat(registry, admin, loose).size == 5
    with registry.database.write() as connection:
        connection.execute(update(BlobRow).values(doomed=True))
    assert collect(registry, admin).blobs_removed == (loose,)
    assert digests(registry) == set()
    assert list(registry.blobs.blobs()) == []


def reference(registry, name, digest):
    """What a publication does with one blob: hold it, and name it if it is there."""
    with registry.database.write() as connection:
        sizes = uploads.hold(connection, registry, [digest])
        if digest not in sizes:
            return False
        with_row = insert(DrafterRow).values(name=name, normal_form=name, created_at=registry.now())
        drafter = connection.execute(with_row.returning(DrafterRow.id)).scalar_one()
        texts = ("fingerprint", "facts_by", "method", "target_model", "target_architecture", "published_by", "tool")
        version = insert(VersionRow).values(
            drafter_id=drafter,
            version="1",
            digest=digest,
            manifest=b"",
            facts=b"",
            size=sizes[digest],
            state="deleted",
            published_at=registry.now(),
            **dict.fromkeys((*texts, "state_by", "state_why"), ""),
        )
        number = connection.execute(version.returning(VersionRow.id)).scalar_one()
        row = {"version_id": number, "path": "x", "size": sizes[digest], "digest": digest}
        connection.execute(insert(FileRow).values(row))
    return True


def soak(registry, admin, rounds, name):
    """Store and name blobs, each until it is there; everything named must stay readable. Returns what is named."""
    named = {}
    for i in range(rounds):
        data = f"{i % 3} of nobody in particular".encode()  # the same bytes again and again: doomed and taken back
        other = f"{name} {i}".encode()
        for bytes_, label in ((data, f"shared-{name}-{i}"), (other, f"own-{name}-{i}")):
            for _ in range(200):
                store(registry, admin, bytes_)
                if reference(registry, label, digest_of(bytes_)):
                    named[digest_of(bytes_)] = bytes_
                    break
            else:
                raise AssertionError(f"{label} could never be named")
    return named


def test_no_named_blob_is_lost_to_collections_in_threads(registry, admin):
    over, named, errors = threading.Event(), {}, []

    def sweep():
        try:
            while not over.is_set():
                collect(eager(registry), admin)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)

    def work(name):
        try:
            named.update(soak(registry, admin, 4, name))
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)

    sweeper = threading.Thread(target=sweep)
    workers = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(3)]
    for thread in (sweeper, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    over.set()
    sweeper.join()
    assert errors == []
    for digest, data in named.items():
        assert registry.blobs.read(digest, 0, len(data)) == data
        assert uploads.stat(registry, admin, digest).size == len(data)


_SWEEP = """
import sys, msgspec
from datetime import UTC, datetime, timedelta
from drafter_registry.service.collect import collect
from drafter_registry.service.context import LOCAL_SCOPES, Actor
from drafter_registry.service.open import open_registry
from drafter_registry.settings import Settings
registry = open_registry(msgspec.json.decode(sys.argv[1], type=Settings))
registry = msgspec.structs.replace(registry, now=lambda: datetime.now(UTC) + timedelta(seconds=2))
print("ready", flush=True)
while True:
    collect(registry, Actor("collector", LOCAL_SCOPES))
"""


def test_no_named_blob_is_lost_to_collections_of_other_processes(registry, admin):
    """Two processes collect without any grace while blobs are named; each is stored again until it is there."""
    settings = msgspec.structs.replace(registry.settings, gc_grace_seconds=0, upload_idle_seconds=3600)
    command = [sys.executable, "-c", _SWEEP, msgspec.json.encode(settings).decode()]
    sweepers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    try:
        for sweeper in sweepers:
            assert sweeper.stdout.readline() == b"ready\n"
        named = {}
        for i in range(6):
            named.update(soak(registry, admin, 1, f"p{i}"))
        assert [sweeper.poll() for sweeper in sweepers] == [None, None], sweepers[0].stderr
    finally:
        for sweeper in sweepers:
            sweeper.kill()
            sweeper.communicate()
    for digest, data in named.items():
        assert registry.blobs.read(digest, 0, len(data)) == data


def test_observations_past_their_retention_are_removed(registry, admin, publish, drafter):
    publish(drafter())
    one = read_reference("tiny-eagle3@1.0.0")
    hours = [(registry.now() - timedelta(hours=ago)).strftime("%Y-%m-%dT%H:00:00Z") for ago in (0, 5)]
    figures = {"readings": 1, "length": 2.0, "lowest": 2.0, "highest": 2.0}
    observations.report(registry, admin, one, "a", [Observation(hour=hour, **figures) for hour in hours])
    settings = msgspec.structs.replace(registry.settings, observation_retention_seconds=2 * 3600)
    short = msgspec.structs.replace(registry, settings=settings)
    assert collect(registry, admin).observations_removed == 0
    assert collect(short, admin, dry_run=True).observations_removed == 1
    assert collect(short, admin).observations_removed == 1
    assert [seen.observation.hour for seen in observations.history(registry, admin, one).items] == hours[:1]
