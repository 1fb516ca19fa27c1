"""Uploads, after the OCI protocol."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import msgspec
import pytest

MIB = 1 << 20


@pytest.fixture
def begin(client):
    def run():
        answer = client.post("/v1/uploads")
        assert answer.status_code == 202
        assert "range" not in answer.headers
        assert answer.headers["upload-offset"] == "0"
        assert answer.headers["location"] == f"/v1/uploads/{answer.json()['id']}"
        return answer.headers["location"]

    return run


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_in_pieces_with_and_without_ranges(client, begin):
    data = bytes(range(256)) * 10000
    place = begin()
    cuts = [0, 3, MIB + 5, 2 * MIB, len(data)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        headers = {"content-range": f"{start}-{end - 1}"} if number % 2 else {}
        answer = client.patch(place, content=data[start:end], headers=headers)
        assert answer.status_code == 202, answer.text
        assert answer.headers["range"] == f"0-{end - 1}"
        assert answer.headers["upload-offset"] == str(end)
        assert client.get(place).json()["offset"] == end
    answer = client.put(f"{place}?digest={digest_of(data)}")
    assert answer.status_code == 201
    assert answer.json() == {"digest": digest_of(data), "size": len(data)}
    assert answer.headers["location"] == f"/v1/blobs/{digest_of(data)}"
    assert client.get(answer.headers["location"]).content == data
    assert client.get(place).status_code == 404


def test_the_last_request_may_carry_the_last_or_all_bytes(client, begin):
    data = b"x" * (MIB + 1)
    place = begin()
    client.patch(place, content=data[:100])
    answer = client.put(f"{place}?digest={digest_of(data)}", content=data[100:])
    assert (answer.status_code, answer.json()["size"]) == (201, len(data))
    other = b"y" * 10
    assert client.put(f"{begin()}?digest={digest_of(other)}", content=other).status_code == 201
    assert client.put(f"{begin()}?digest={digest_of(b'')}").status_code == 201
    chunked = (part for part in (b"ab", b"cd"))
    assert client.put(f"{begin()}?digest={digest_of(b'abcd')}", content=chunked).status_code == 201


def test_a_chunk_out_of_order_or_of_another_length_is_refused_and_harms_nothing(client, begin, assert_problem):
    place = begin()
    client.patch(place, content=b"abcd")
    for range_ in ("5-8", "0-3", "3-6"):
        answer = client.patch(place, content=b"efgh", headers={"content-range": range_})
        assert_problem(answer, "RANGE_NOT_SATISFIABLE")
        assert answer.headers["upload-offset"] == "4"
    assert_problem(client.patch(place, content=b"efgh", headers={"content-range": "4-5"}), "INVALID")
    assert_problem(client.patch(place, content=b"efgh", headers={"content-range": "x"}), "INVALID")
    assert client.get(place).json()["offset"] == 4
    longer = (part for part in (b"ef", b"gh", b"ij"))
    assert_problem(client.patch(place, content=longer, headers={"content-range": "4-7"}), "INVALID")
    assert client.get(place).json()["offset"] == 8
    shorter = (part for part in (b"i",))
    assert_problem(client.patch(place, content=shorter, headers={"content-range": "8-11"}), "INVALID")
    assert client.get(place).json()["offset"] == 9
    answer = client.put(f"{place}?digest={digest_of(b'abcdefghi')}")
    assert answer.status_code == 201, answer.text


def test_another_digest_is_refused_and_the_bytes_stay(client, begin, assert_problem):
    place = begin()
    client.patch(place, content=b"abcd")
    assert_problem(client.put(f"{place}?digest={digest_of(b'other')}"), "DIGEST_MISMATCH")
    assert_problem(client.put(f"{place}?digest=sha512:00"), "INVALID")
    assert_problem(client.put(place), "INVALID")
    assert client.put(f"{place}?digest={digest_of(b'abcd')}").status_code == 201


def test_a_cancelled_and_an_unknown_upload_are_not_there(client, begin, assert_problem):
    place = begin()
    assert client.delete(place).status_code == 204
    for method in ("GET", "DELETE", "PATCH"):
        assert_problem(client.request(method, place), "NOT_FOUND")
    assert_problem(client.put(f"{place}?digest={digest_of(b'')}"), "NOT_FOUND")


def test_whether_a_blob_is_stored(client, begin, store):
    digest = digest_of(b"abcd")
    assert client.head(f"/v1/blobs/{digest}").status_code == 404
    store(client, b"abcd")
    answer = client.head(f"/v1/blobs/{digest}")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "4", b"")
    assert "immutable" in answer.headers["cache-control"]
    assert client.head("/v1/blobs/sha256:0").status_code == 400


def test_more_than_the_registry_takes_is_refused_while_it_comes(registry, admin_token, assert_problem):
    from starlette.testclient import TestClient

    from drafter_registry.api.app import create_app
    from drafter_registry.api.logs import Log

    settings = msgspec.structs.replace(registry.settings, blob_max_bytes=3 * MIB)
    small = msgspec.structs.replace(registry, settings=settings)
    headers = {"authorization": f"Bearer {admin_token}"}
    with TestClient(create_app(small, Log(lambda _: None)), headers=headers) as client:
        place = client.post("/v1/uploads").headers["location"]
        assert_problem(client.patch(place, content=b"x" * (4 * MIB)), "TOO_LARGE")
        assert_problem(client.get(place), "NOT_FOUND")
