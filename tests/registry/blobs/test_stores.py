"""What every blob store does, on a directory and on a real S3 gateway."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from drafter_registry import limits
from drafter_registry.blobs.store import Stored
from drafter_registry.errors import DigestError, InvalidError, NotFoundError, RangeError

MIB = 1024 * 1024


def new():
    return uuid.uuid4().hex


def pattern(size, seed=b"drafter"):
    return (seed * (size // len(seed) + 1))[:size]


def whole(store, digest):
    return b"".join(store.stream(digest, 0, store.size(digest)))


@pytest.mark.parametrize("size", [0, 1, 1000, 3 * MIB + 5])
def test_bytes_come_back(store, put, size):
    data = pattern(size)
    digest = put(data)
    assert store.size(digest) == size
    assert whole(store, digest) == data
    assert list(store.staged()) == []


def test_a_blob_of_many_parts_comes_back(store, put, digest_of):
    data = pattern(2 * limits.part_bytes + 12345)
    upload, digest = new(), digest_of(data)
    step = store.append_bytes
    for at in range(0, len(data), step):
        store.append(upload, at, data[at : at + step])
    store.prepare(upload, len(data), digest)
    store.commit(upload, len(data), digest)
    assert whole(store, digest) == data


def test_what_is_not_stored(store, digest_of):
    digest = digest_of(b"nothing")
    assert store.size(digest) is None
    with pytest.raises(NotFoundError):
        store.read(digest, 0, 1)
    with pytest.raises(NotFoundError):
        list(store.stream(digest, 0, 1))
    store.delete(digest)
    store.discard(new())


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (4, 3, b"456"), (8, 2, b"89"), (8, 100, b"89"), (10, 5, b""), (50, 5, b""), (3, 0, b"")],
)
def test_ranges(store, put, start, length, expected):
    digest = put(b"0123456789")
    assert store.read(digest, start, length) == expected
    assert b"".join(store.stream(digest, start, start + length)) == expected


def test_a_stream_comes_in_bounded_chunks(store, put):
    data = pattern(3 * MIB + 7)
    chunks = list(store.stream(put(data), 5, len(data) - 1))
    assert b"".join(chunks) == data[5:-1]
    assert max(map(len, chunks)) <= limits.chunk_bytes


def test_delete_twice(store, put):
    digest = put(b"short life")
    store.delete(digest)
    store.delete(digest)
    assert store.size(digest) is None
    assert list(store.blobs()) == []


def test_bytes_written_again_replace_what_was_there_and_behind(store, digest_of):
    upload, data = new(), b"abXYZ"
    store.append(upload, 0, b"abcdef")
    store.append(upload, 6, b"ghi")
    store.append(upload, 2, b"XYZ")
    with pytest.raises(DigestError):
        store.commit(upload, 9, digest_of(b"abXYZfghi"))
    store.commit(upload, len(data), digest_of(data))
    assert whole(store, digest_of(data)) == data


def test_beginning_again_forgets_everything(store, digest_of):
    upload = new()
    store.append(upload, 0, b"first attempt")
    store.append(upload, 0, b"second")
    store.commit(upload, 6, digest_of(b"second"))
    assert whole(store, digest_of(b"second")) == b"second"


def test_a_gap_is_refused(store):
    upload = new()
    store.append(upload, 0, b"abc")
    with pytest.raises(RangeError, match="3 bytes are staged"):
        store.append(upload, 4, b"x")
    with pytest.raises(RangeError, match="0 bytes are staged"):
        store.append(new(), 4, b"x")


def test_only_the_first_bytes_are_committed(store, digest_of):
    upload = new()
    store.append(upload, 0, b"abc")
    store.append(upload, 3, b"never recorded")
    store.commit(upload, 5, digest_of(b"abcne"))
    assert whole(store, digest_of(b"abcne")) == b"abcne"


def test_another_digest_leaves_no_blob_and_keeps_what_is_staged(store, digest_of):
    upload, data = new(), pattern(1000)
    store.append(upload, 0, data)
    for verb in (store.prepare, store.commit):
        with pytest.raises(DigestError, match=digest_of(data)):
            verb(upload, len(data), digest_of(b"other"))
    assert list(store.blobs()) == []
    assert [one.size for one in store.staged()] == [1000]
    store.commit(upload, len(data), digest_of(data))
    assert whole(store, digest_of(data)) == data


def test_a_large_blob_with_another_digest_never_appears(store, digest_of):
    data = pattern(limits.part_bytes + MIB)
    with pytest.raises(DigestError):
        store.ingest(new(), [data[:MIB], data[MIB:]], digest_of(b"other"))
    assert list(store.blobs()) == []
    assert list(store.staged()) == []


@pytest.mark.parametrize("size", [10, limits.part_bytes + MIB])
def test_a_source_that_fails_leaves_nothing(store, digest_of, size):
    def source():
        yield pattern(size)
        raise InvalidError("the file cannot be read")

    with pytest.raises(InvalidError, match="cannot be read"):
        store.ingest(new(), source(), digest_of(pattern(size)))
    assert list(store.blobs()) == []
    assert list(store.staged()) == []


def test_fewer_bytes_than_promised(store, digest_of):
    upload = new()
    store.append(upload, 0, b"abc")
    with pytest.raises(DigestError, match="3 bytes are staged, not 5"):
        store.commit(upload, 5, digest_of(b"abcde"))
    with pytest.raises(DigestError, match="0 bytes are staged"):
        store.commit(new(), 5, digest_of(b"abcde"))


def test_ingest_takes_all_in_one_pass(store, digest_of):
    upload, data = new(), pattern(limits.part_bytes + 3 * MIB)
    size = store.ingest(upload, (data[at : at + MIB] for at in range(0, len(data), MIB)), digest_of(data))
    store.commit(upload, size, digest_of(data))
    assert whole(store, digest_of(data)) == data


def test_committing_twice(store, put, digest_of):
    put(b"the same")
    put(b"the same")
    upload = new()
    store.append(upload, 0, b"the same")
    for _ in range(2):
        store.commit(upload, 8, digest_of(b"the same"))
        store.discard(upload)
    assert [one.key for one in store.blobs()] == [digest_of(b"the same")]


def test_a_collection_between_prepare_and_commit_loses_nothing(store, digest_of):
    upload, data = new(), pattern(5000)
    store.append(upload, 0, data)
    store.prepare(upload, len(data), digest_of(data))
    store.delete(digest_of(data))
    store.commit(upload, len(data), digest_of(data))
    assert whole(store, digest_of(data)) == data


def test_a_damaged_blob_is_healed_by_its_bytes(store, put, store_url, digest_of):
    digest = put(b"right bytes")
    store.delete(digest)
    damage(store_url, digest, b"wrong")
    assert store.size(digest) == 5
    put(b"right bytes")
    assert whole(store, digest) == b"right bytes"


def damage(url, digest, data):
    name = digest.removeprefix("sha256:")
    if not url.startswith("s3"):
        with open(f"{url}/blobs/sha256/{name[:2]}/{name}", "wb") as file:
            file.write(data)
        return
    import obstore
    from obstore.store import from_url

    bucket = from_url(url, client_options={"allow_http": True})
    obstore.put(bucket, f"blobs/sha256/{name[:2]}/{name}", data)


def test_another_process_goes_on_with_an_upload(store, another, digest_of, small_parts):
    data = pattern(5000)
    second, upload = another(), new()
    for at in range(0, len(data), 500):
        (store, second)[at // 500 % 2].append(upload, at, data[at : at + 500])
    store.commit(upload, len(data), digest_of(data))
    assert whole(second, digest_of(data)) == data


def test_bytes_that_another_process_exchanged_are_noticed(store, another, digest_of):
    """A hash kept in one process must not vouch for what another one wrote since."""
    upload, data = new(), pattern(2000)
    store.append(upload, 0, data)
    another().append(upload, 1000, pattern(1000, b"evil"))
    with pytest.raises(DigestError):
        store.commit(upload, len(data), digest_of(data))
    assert store.size(digest_of(data)) is None


def test_bytes_exchanged_after_they_were_prepared_are_no_blob(store, another, digest_of):
    upload, data = new(), pattern(2000)
    store.append(upload, 0, data)
    store.prepare(upload, len(data), digest_of(data))
    another().append(upload, 1000, pattern(1000, b"evil"))
    try:
        store.commit(upload, len(data), digest_of(data))
    except DigestError:
        assert store.size(digest_of(data)) is None
    else:
        assert whole(store, digest_of(data)) == data


def test_many_threads_commit_the_same_bytes(store, another, digest_of):
    data = pattern(300_000)

    def run(_):
        mine, upload = another(), new()
        mine.append(upload, 0, data)
        mine.commit(upload, len(data), digest_of(data))
        mine.discard(upload)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(24)))
    assert [(one.key, one.size) for one in store.blobs()] == [(digest_of(data), len(data))]
    assert whole(store, digest_of(data)) == data


def test_many_processes_commit_the_same_bytes(store, in_processes, digest_of):
    data = pattern(7 * 30_000)
    code = f"""
import uuid
data = {data[:7]!r} * {len(data) // 7}
for _ in range(5):
    upload = uuid.uuid4().hex
    store.append(upload, 0, data)
    store.commit(upload, len(data), {digest_of(data)!r})
    store.discard(upload)
"""
    in_processes(*[code] * 4)
    assert whole(store, digest_of(data)) == data
    assert list(store.staged()) == []


def test_lists_say_what_is_there_how_large_and_since_when(store, put):
    before = datetime.now(UTC) - timedelta(seconds=5)
    digests = sorted(put(pattern(size)) for size in (0, 10, 2000))
    upload = new()
    store.append(upload, 0, b"abc")
    store.append(upload, 3, b"defg")
    blobs = sorted(store.blobs(), key=lambda one: one.key)
    assert [one.key for one in blobs] == digests
    assert sorted(one.size for one in blobs) == [0, 10, 2000]
    (staged,) = store.staged()
    assert staged == Stored(upload, 7, staged.modified)
    for one in (*blobs, staged):
        assert before <= one.modified <= datetime.now(UTC) + timedelta(seconds=5)
    store.discard(upload)
    assert list(store.staged()) == []


def test_an_empty_store_lists_nothing_and_can_be_probed(store):
    assert list(store.blobs()) == []
    store.probe()
    store.probe()
    assert list(store.blobs()) == list(store.staged()) == []


@pytest.mark.parametrize("upload", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 32 + "/x", "..", "a" * 31 + "\n"])
def test_only_upload_ids_name_uploads(store, digest_of, upload):
    for call in (
        lambda: store.append(upload, 0, b"x"),
        lambda: store.prepare(upload, 1, digest_of(b"x")),
        lambda: store.commit(upload, 1, digest_of(b"x")),
        lambda: store.ingest(upload, [b"x"], digest_of(b"x")),
        lambda: store.discard(upload),
    ):
        with pytest.raises(InvalidError):
            call()
    assert list(store.staged()) == []


@pytest.mark.parametrize("digest", ["", "sha256:../x", "sha256:" + "A" * 64, "md5:" + "a" * 64, "a" * 64])
def test_only_digests_name_blobs(store, digest):
    for call in (
        lambda: store.size(digest),
        lambda: store.read(digest, 0, 1),
        lambda: list(store.stream(digest, 0, 1)),
        lambda: store.delete(digest),
        lambda: store.commit(new(), 0, digest),
    ):
        with pytest.raises(InvalidError):
            call()
