"""Who may ask, what a wrong token gets, and what a log never holds."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from drafter_registry import limits
from drafter_registry.api.authentication import Attempts, Recent
from drafter_registry.errors import TooManyRequestsError
from drafter_registry.service.context import Actor

SECURED = [
    ("GET", "/v1/drafters"),
    ("GET", "/v1/drafters/a/versions/1.0"),
    ("GET", "/v1/drafters/a/versions/1.0/manifest"),
    ("GET", "/v1/drafters/a/versions/1.0/files/config.json"),
    ("PUT", "/v1/drafters/a/versions/1.0"),
    ("POST", "/v1/drafters/a/versions/1.0/yank"),
    ("DELETE", "/v1/drafters/a/versions/1.0/yank"),
    ("DELETE", "/v1/drafters/a/versions/1.0"),
    ("GET", "/v1/drafters/a/versions/1.0/acceptance"),
    ("POST", "/v1/drafters/a/versions/1.0/acceptance"),
    ("DELETE", "/v1/drafters/a/versions/1.0/acceptance/sha256:" + "0" * 64),
    ("GET", "/v1/drafters/a/versions/1.0/observations"),
    ("POST", "/v1/drafters/a/versions/1.0/observations"),
    ("GET", "/v1/drafters/a/aliases/prod"),
    ("PUT", "/v1/drafters/a/aliases/prod"),
    ("DELETE", "/v1/drafters/a/aliases/prod"),
    ("GET", "/v1/drafters/a/aliases/prod/history"),
    ("GET", "/v1/drafters/a/diff?from=1&to=2"),
    ("POST", "/v1/check"),
    ("POST", "/v1/resolve"),
    ("GET", "/v1/blobs/sha256:" + "0" * 64),
    ("POST", "/v1/uploads"),
    ("GET", "/v1/uploads/1"),
    ("PATCH", "/v1/uploads/1"),
    ("PUT", "/v1/uploads/1?digest=sha256:" + "0" * 64),
    ("DELETE", "/v1/uploads/1"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("DELETE", "/v1/tokens/1"),
    ("GET", "/v1/audit"),
]
OPEN = ["/healthz", "/readyz", "/metrics", "/v1/schema", "/openapi.json"]


def test_every_route_is_in_one_of_the_two_lists(app):
    known = {(method, path.partition("?")[0]) for method, path in SECURED} | {("GET", path) for path in OPEN}
    examples = {
        "name": "a",
        "ref": "1.0",
        "alias": "prod",
        "path": "config.json",
        "digest": "sha256:" + "0" * 64,
        "id": "1",
    }
    assert {(one.method, one.path.format(**examples)) for one in app.state.endpoints} == known


def test_no_token_and_a_bad_one_are_401_everywhere(outside, assert_problem):
    for method, path in SECURED:
        answer = outside.request(method, path)
        assert_problem(answer, "NOT_AUTHORISED")
        assert answer.headers["www-authenticate"] == 'Bearer realm="drafters"'
    for header in ("Basic eDp5", "Bearer", "Bearer ", "drt_x", "Bearer drt_short", "Bearer drt_" + "0" * 36):
        assert_problem(outside.get("/v1/drafters", headers={"authorization": header}), "NOT_AUTHORISED")
    for path in OPEN:
        assert outside.get(path).status_code == 200


def test_two_tokens_are_none(client, admin_token, assert_problem):
    twice = [("authorization", f"Bearer {admin_token}"), ("authorization", "Bearer drt_x")]
    assert_problem(client.get("/v1/drafters", headers=twice), "NOT_AUTHORISED")


def test_what_may_not_be_seen_and_what_is_not_there_answer_alike(client, token, publish, assert_problem):
    answer, _, manifest = publish(client)
    assert answer.status_code == 201
    reader, other = token("read"), token("publish:other-*", name="other")
    there, absent = "/v1/drafters/tiny-eagle3/versions/1.0.0", "/v1/drafters/tiny-eagle3/versions/9.9.9"
    for headers in (reader, other):
        problems = [
            assert_problem(client.delete(path, headers=headers), "NOT_FOUND").detail.replace("9.9.9", "1.0.0")
            for path in (there, absent)
        ]
        assert problems[0] == problems[1]
    kind = {"content-type": "application/json"}
    assert_problem(client.put(there, content=manifest, headers={**other, **kind}), "NOT_FOUND")
    assert_problem(client.get("/v1/tokens", headers=reader), "NOT_FOUND")
    assert_problem(client.get("/v1/audit", headers=reader), "NOT_FOUND")
    assert client.get(there, headers=reader).status_code == 200


def test_a_revoked_token_stops_at_once(client, token, assert_problem):
    reader = token("read")
    assert client.get("/v1/drafters", headers=reader).status_code == 200
    assert client.delete(f"/v1/tokens/{reader['x-id']}").status_code == 204
    assert_problem(client.get("/v1/drafters", headers=reader), "NOT_AUTHORISED")


def test_a_good_token_is_believed_for_a_second_and_not_past_a_revocation():
    now = [10.0]
    recent, actor = Recent(lambda: now[0]), Actor("a", ("read",))
    recent.put("token", now[0], actor)
    now[0] += 0.9
    assert recent.get("token") is actor
    assert recent.get("other") is None
    now[0] += 0.2
    assert recent.get("token") is None
    asked = now[0]
    recent.clear()
    recent.put("token", asked, actor)
    assert recent.get("token") is None
    for number in range(10_000):
        recent.put(str(number), now[0] + 1, actor)
    assert len(recent._found) <= 4096


def test_use_of_a_token_is_noted(client, app, token):
    reader = token("read", name="noted")
    client.get("/v1/drafters", headers=reader)
    app.state.shared.close()
    record = next(one for one in client.get("/v1/tokens").json()["items"] if one["name"] == "noted")
    assert record["last_used_at"]


def test_reading_without_a_token_can_be_switched_on(registry, assert_problem, logged):
    import msgspec

    from drafter_registry.api.app import create_app
    from drafter_registry.api.logs import Log

    settings = msgspec.structs.replace(registry.settings, anonymous_read=True)
    app = create_app(msgspec.structs.replace(registry, settings=settings), Log(logged.write))
    with TestClient(app) as client:
        assert client.get("/v1/drafters").status_code == 200
        assert_problem(client.get("/v1/drafters/a/versions/1.0"), "NOT_FOUND")
        assert_problem(client.post("/v1/uploads"), "NOT_AUTHORISED")
        assert_problem(client.get("/v1/tokens"), "NOT_AUTHORISED")
        assert_problem(client.put("/v1/drafters/a/versions/1.0", content=b"x" * 1000), "NOT_AUTHORISED")
        assert logged.last["received"] == 0
        assert_problem(client.get("/v1/drafters", headers={"authorization": "Bearer drt_x"}), "NOT_AUTHORISED")


def test_failures_of_one_address_are_limited_and_good_tokens_are_not(client, outside, assert_problem, admin_token):
    good = {"authorization": f"Bearer {admin_token}"}
    assert client.get("/v1/drafters").status_code == 200
    for _ in range(limits.auth_failures_burst):
        assert_problem(outside.get("/v1/drafters", headers={"authorization": "Bearer drt_x"}), "NOT_AUTHORISED")
    answer = outside.get("/v1/drafters", headers={"authorization": "Bearer drt_x"})
    assert_problem(answer, "TOO_MANY_REQUESTS")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    outside.app.state.shared.recent.clear()
    assert outside.get("/v1/drafters", headers=good).status_code == 200
    assert_problem(outside.get("/v1/drafters"), "NOT_AUTHORISED")
    assert 'drafters_auth_failures_total{reason="limited"} 1.0' in outside.get("/metrics").text


def test_a_bucket_refills_and_its_memory_is_bounded():
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(limits.auth_failures_burst):
        attempts.check("10.0.0.1", "x")
        attempts.failed("10.0.0.1")
    with pytest.raises(TooManyRequestsError) as refused:
        attempts.check("10.0.0.1", "x")
    attempts.check("10.0.0.2", "x")
    now[0] += refused.value.retry_after
    attempts.check("10.0.0.1", "x")
    for _ in range(limits.auth_failures_burst):
        attempts.failed("2001:db8::1")
    with pytest.raises(TooManyRequestsError):
        attempts.check("2001:db8::ffff", "x")
    attempts.check("2001:db8:1::1", "x")
    for number in range(10_000):
        attempts.failed(f"10.1.{number // 256}.{number % 256}")
        attempts.succeeded(str(number))
    assert len(attempts._buckets) <= 4096
    assert len(attempts._good) <= 4096


def test_no_line_of_the_log_holds_a_token(client, outside, admin_token, logged, token):
    reader = token("read")["authorization"].partition(" ")[2]
    outside.get("/v1/drafters", headers={"authorization": f"Bearer {reader}"})
    outside.get("/v1/drafters", headers={"authorization": f"Bearer {reader[:-1]}"})
    outside.get("/v1/drafters", headers={"authorization": f"Basic {reader}"})
    outside.get("/v1/drafters", headers={"authorization": reader, "x-request-id": reader, "user-agent": reader})
    client.get(f"/v1/drafters?name={reader}")
    client.get(f"/v1/drafters?{reader}=1")
    outside.get(f"/{reader}")
    client.get(f"/v1/drafters/{reader}/versions/1.0")
    client.get(f"/v1/drafters/drt%5F{reader[4:]}/versions/1.0")
    client.delete(f"/v1/tokens/{reader}")
    client.post("/v1/tokens", json={"name": "x", "scopes": [reader]})
    client.post("/v1/tokens", content=reader.encode(), headers={"content-type": "application/json"})
    assert len(logged.lines) >= 12
    for secret in (reader, reader[4:], admin_token, admin_token[4:]):
        assert secret not in logged.text
    assert "?" not in "".join(line["path"] for line in logged.lines)
