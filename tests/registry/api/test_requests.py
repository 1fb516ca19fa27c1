"""What a request may look like, and what is said of one that may not."""

from __future__ import annotations

import gzip
import json

import pytest

from drafter_registry import limits

JSON = {"content-type": "application/json"}


@pytest.fixture
def kind():
    """Nothing here gets as far as a database."""
    return "sqlite-local"


def test_every_fault_of_a_body_is_told_with_its_pointer(client, assert_problem):
    answer = client.post("/v1/tokens", json={"name": 3, "scopes": ["read", 1], "days~/": 9})
    problem = assert_problem(answer, "INVALID")
    told = {(fault.pointer, fault.message, fault.expected, fault.actual) for fault in problem.errors}
    assert ("/name", "wrong type", "str", "int") in told
    assert ("/scopes/1", "wrong type", "str", "int") in told
    assert ("/days~0~1", "unknown field", "one of name, scopes, expires_in_days", "") in told
    problem = assert_problem(client.post("/v1/tokens", json={}), "INVALID")
    assert [fault.pointer for fault in problem.errors] == ["/name", "/scopes"]


def test_faults_inside_lists_and_optional_parts_have_pointers_too(client, assert_problem):
    manifest = {
        "schema": "drafters.manifest.v1",
        "target": {"layers": "x"},
        "files": [{"path": "a"}, {"path": 1}],
        "lay": 1,
    }
    answer = client.post("/v1/check", json={"engine": "sglang==0.5.9", "manifest": manifest, "launch": 1})
    pointers = {fault.pointer for fault in assert_problem(answer, "INVALID").errors}
    assert pointers == {
        "/launch",
        "/manifest/target/layers",
        "/manifest/files/0/size",
        "/manifest/files/0/sha256",
        "/manifest/files/1/path",
        "/manifest/files/1/size",
        "/manifest/files/1/sha256",
        "/manifest/lay",
    }


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"[]", b'"x"', b"null", b"\xff\xfe", b'{"drafter": "\xff"}', b"{}" + b" " * 9 + b"x"],
)
def test_what_is_no_document_is_refused(client, assert_problem, body):
    assert_problem(client.post("/v1/resolve", content=body, headers=JSON), "INVALID")


def test_nesting_and_nul_are_refused(client, assert_problem):
    deep = b'{"drafter": "a@1", "target_config": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    assert_problem(client.post("/v1/resolve", content=deep, headers=JSON), "INVALID")
    nul = client.post("/v1/resolve", content=b'{"drafter": "a@1", "target": "\\u0000"}', headers=JSON)
    assert "NUL" in assert_problem(nul, "INVALID").detail
    assert (
        "NUL" not in client.post("/v1/resolve", content=b'{"drafter": "a@1", "target": "\\\\u0000"}', headers=JSON).text
    )
    assert_problem(client.get("/v1/drafters?name=%00"), "INVALID")
    assert_problem(client.get("/v1/drafters/a%00b/versions/1"), "INVALID")


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/v1/resolve", limits.body_max_bytes), ("/v1/drafters/a/versions/1", limits.manifest_max_bytes)],
)
def test_a_body_is_read_up_to_its_limit_announced_or_not(client, assert_problem, logged, path, limit):
    method = "POST" if path == "/v1/resolve" else "PUT"
    assert_problem(client.request(method, path, content=b" " * (limit + 1), headers=JSON), "TOO_LARGE")
    assert logged.last["received"] == 0
    pulled = []

    def chunks():
        for _ in range(1000):
            pulled.append(1)
            yield b" " * 65536

    assert_problem(client.request(method, path, content=chunks(), headers=JSON), "TOO_LARGE")
    assert_problem(client.request(method, path, content=b" " * limit, headers=JSON), "INVALID")


def test_a_media_type_that_is_not_spoken_is_named_with_those_that_are(client, assert_problem):
    answer = client.post("/v1/resolve", content=b"{}", headers={"content-type": "text/plain"})
    assert "application/json" in assert_problem(answer, "UNSUPPORTED_MEDIA_TYPE").hint
    for kind in ("application/vnd.drafters.manifest.v2+json", "text/plain", ""):
        answer = client.put("/v1/drafters/a/versions/1", content=b"{}", headers={"content-type": kind})
        assert "application/vnd.drafters.manifest.v1+json" in assert_problem(answer, "UNSUPPORTED_MEDIA_TYPE").hint
    packed = gzip.compress(b"{}")
    answer = client.post("/v1/resolve", content=packed, headers={**JSON, "content-encoding": "gzip"})
    assert_problem(answer, "UNSUPPORTED_MEDIA_TYPE")


def test_another_schema_version_is_not_guessed_at(client, assert_problem):
    answer = client.put("/v1/drafters/a/versions/1", json={"schema": "drafters.manifest.v2", "new": 1})
    assert "drafters.manifest.v1" in assert_problem(answer, "UNSUPPORTED_MEDIA_TYPE").hint
    answer = client.put("/v1/drafters/a/versions/1", json={"schema": "drafters.manifest.v1", "nmae": "a"})
    assert [fault.pointer for fault in assert_problem(answer, "INVALID").errors] == ["/nmae"]
    impossible = {"schema": "drafters.manifest.v1", "target": {"layers": 2}, "layout": {"boundaries": [3]}}
    answer = client.put("/v1/drafters/a/versions/1", json=impossible)
    assert [fault.pointer for fault in assert_problem(answer, "INVALID").errors] == ["/layout"]


def test_a_misspelt_or_repeated_parameter_is_no_filter(client, assert_problem):
    problem = assert_problem(client.get("/v1/drafters?nmae=x&method=a&method=b"), "INVALID")
    assert [(fault.pointer, fault.message) for fault in problem.errors] == [
        ("nmae", "unknown parameter"),
        ("method", "given twice"),
    ]
    problem = assert_problem(client.get("/v1/drafters/a/diff?from=1"), "INVALID")
    assert [fault.pointer for fault in problem.errors] == ["to"]
    assert_problem(client.get("/v1/audit?limit=0"), "INVALID")
    assert_problem(client.get("/v1/audit?limit=x"), "INVALID")


def test_unknown_addresses_and_methods_are_problems_too(outside, assert_problem):
    assert_problem(outside.get("/"), "NOT_FOUND")
    assert_problem(outside.get("/v1/drafters/"), "NOT_FOUND")
    assert_problem(outside.get("/docs"), "NOT_FOUND")
    answer = outside.request("PATCH", "/v1/drafters/a/aliases/prod")
    assert_problem(answer, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}
    assert_problem(outside.options("/v1/resolve"), "METHOD_NOT_ALLOWED")


def test_long_headers_and_addresses_are_refused(outside, assert_problem):
    assert_problem(outside.get("/healthz", headers={"x": "y" * limits.header_max_bytes}), "HEADERS_TOO_LARGE")
    assert_problem(outside.get("/healthz?" + "y" * limits.header_max_bytes), "HEADERS_TOO_LARGE")


def test_what_nobody_foresaw_is_told_to_the_log_alone(client, assert_problem, monkeypatch, logged):
    from drafter_registry.service import listing

    def broken(*_):
        raise RuntimeError("the password is drt_abc")

    monkeypatch.setattr(listing, "list_versions", broken)
    answer = client.get("/v1/drafters", headers={"x-request-id": "r-1"})
    problem = assert_problem(answer, "INTERNAL")
    assert problem.instance == "urn:request:r-1"
    assert "password" not in answer.text
    failure = next(line for line in logged.lines if line["level"] == "error")
    assert failure["request_id"] == "r-1"
    assert "RuntimeError" in failure["traceback"]
    assert "drt_abc" not in logged.text


def test_a_schema_that_fails_validation_leaves_nothing_behind(client):
    assert client.post("/v1/tokens", json={"name": "x", "scopes": ["nonsense"]}).status_code == 400
    assert len(client.get("/v1/tokens").json()["items"]) == 1
    assert json.loads(client.get("/v1/schema").content)["$ref"]
