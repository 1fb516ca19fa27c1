"""Two processes on one database and one blob store are one registry."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import httpx2
import pytest


@pytest.fixture
def pair(settings, live_server):
    """Two clients, each of a server of its own."""
    with httpx2.Client(timeout=60) as first, httpx2.Client(timeout=60) as second:
        for client in (first, second):
            server = live_server(settings)
            client.base_url, client.headers = server.url, server.headers
        yield first, second


def test_an_upload_begun_on_one_is_continued_on_the_other(pair):
    first, second = pair
    data = bytes(range(256)) * 8192
    place = first.post("/v1/uploads").headers["location"]
    assert first.patch(place, content=data[:1000]).status_code == 202
    assert second.get(place).json()["offset"] == 1000
    assert (
        second.patch(place, content=data[1000:], headers={"content-range": f"1000-{len(data) - 1}"}).status_code == 202
    )
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    assert first.put(f"{place}?digest={digest}").status_code == 201
    assert second.get(f"/v1/blobs/{digest}").content == data


def test_what_is_published_on_one_is_resolved_on_the_other(pair, publish):
    first, second = pair
    answer, files, manifest = publish(first)
    assert answer.status_code == 201, answer.text
    assert second.post("/v1/resolve", json={"drafter": "tiny-eagle3@1.0.0"}).json()["digest"] == answer.json()["digest"]
    assert second.get("/v1/drafters/tiny-eagle3/versions/1.0.0/manifest").content == manifest
    for path, data in files.items():
        assert second.get(f"/v1/drafters/tiny-eagle3/versions/1.0.0/files/{path}").content == data
    again, _, _ = publish(second)
    assert (again.status_code, again.json()["created"]) == (200, False)


def test_a_token_revoked_on_one_stops_on_the_other(pair):
    first, second = pair
    made = first.post("/v1/tokens", json={"name": "x", "scopes": ["read"]}).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    assert second.get("/v1/drafters", headers=headers).status_code == 200
    assert first.delete(f"/v1/tokens/{made['record']['id']}").status_code == 204
    assert first.get("/v1/drafters", headers=headers).status_code == 401
    deadline = time.monotonic() + 30
    while second.get("/v1/drafters", headers=headers).status_code != 401:  # it believes a token for a second
        assert time.monotonic() < deadline


def test_racing_moves_of_an_alias_lose_none(pair, publish):
    first, _ = pair
    for version in ("1.0.0", "1.1.0"):
        publish(first, version=version)
    place = "/v1/drafters/tiny-eagle3/aliases/prod"

    def move(number):
        client = pair[number % 2]
        while True:
            found = client.get(place)
            condition = {"if-match": found.headers["etag"]} if found.status_code == 200 else {"if-none-match": "*"}
            body = {"version": ("1.0.0", "1.1.0")[number % 2], "why": f"move {number}"}
            answer = client.put(place, json=body, headers=condition)
            if answer.status_code == 200:
                return answer.json()["revision"]
            assert answer.status_code == 412, answer.text

    with ThreadPoolExecutor(8) as threads:
        revisions = list(threads.map(move, range(24)))
    assert sorted(revisions) == list(range(1, 25))
    history = pair[1].get(place + "/history").json()["items"]
    assert [entry["revision"] for entry in history] == list(range(24, 0, -1))
    assert {entry["why"] for entry in history} == {f"move {number}" for number in range(24)}
    for newer, older in pairwise(history):
        assert newer["from_version"] == older["to_version"]
