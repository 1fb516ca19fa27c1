"""What an operator sees: request ids, log lines, health, counters."""

from __future__ import annotations

import json
import re

import pytest

from drafter_registry.errors import UnavailableError


def test_a_request_id_is_kept_if_well_formed_and_is_everywhere(client, logged):
    answer = client.post("/v1/tokens", json={"name": "x", "scopes": ["read"]}, headers={"x-request-id": "ci-42.a_B"})
    assert answer.headers["x-request-id"] == "ci-42.a_B"
    assert logged.last["request_id"] == "ci-42.a_B"
    assert client.get("/v1/audit").json()["items"][0]["request_id"] == "ci-42.a_B"
    for wrong in ("a b", "x" * 65, "", "a\u00e9", "drt_abc", "x;y"):
        given = client.get("/healthz", headers={"x-request-id": wrong.encode("latin-1")}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", given)


def test_one_line_tells_of_a_request_what_matters(client, logged):
    answer = client.get("/v1/drafters/a/versions/1.0?", headers={"x-request-id": "r"})
    line = logged.last
    assert line.pop("time").startswith("20")
    assert line.pop("ms") > 0
    assert line == {
        "level": "info",
        "event": "request",
        "method": "GET",
        "route": "/v1/drafters/{name}/versions/{ref}",
        "path": "/v1/drafters/a/versions/1.0",
        "status": 404,
        "code": "NOT_FOUND",
        "received": 0,
        "sent": len(answer.content),
        "actor": "first admin",
        "request_id": "r",
        "address": "testclient",
    }


def test_ready_while_database_and_store_do_their_part(outside):
    answer = outside.get("/readyz")
    assert answer.json() == {
        "ready": True,
        "checks": {"database": "ok", "schema": "ok", "storage": "ok", "process": "ok"},
    }
    assert outside.head("/readyz").content == b""


@pytest.mark.parametrize("broken", ["database", "schema", "storage"])
def test_not_ready_says_what_failed_and_stays_alive(outside, monkeypatch, broken):
    from drafter_registry.api import health
    from drafter_registry.db import schema

    def fails(*_):
        raise UnavailableError("gone")

    shared = outside.app.state.shared
    if broken == "database":
        monkeypatch.setattr(health, "_database", fails)
    elif broken == "schema":
        monkeypatch.setattr(schema, "check", fails)
    else:
        monkeypatch.setattr(type(shared.registry.blobs), "probe", fails)
    answer = outside.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"][broken] == "UNAVAILABLE"
    assert [word for word in answer.json()["checks"].values() if word != "ok"] == ["UNAVAILABLE"]
    assert outside.get("/healthz").json()["status"] == "ok"


def test_readiness_looks_at_most_every_two_seconds(outside, monkeypatch):
    looks = []
    probe = type(outside.app.state.shared.registry.blobs).probe

    def counted(self):
        looks.append(1)
        probe(self)

    monkeypatch.setattr(type(outside.app.state.shared.registry.blobs), "probe", counted)
    for _ in range(5):
        assert outside.get("/readyz").status_code == 200
    assert len(looks) == 1


def test_not_ready_while_it_ends(outside):
    outside.app.state.shared.draining = True
    answer = outside.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["process"]) == (503, "draining")
    assert outside.get("/healthz").status_code == 200


def test_counters_have_templates_for_labels(client, outside):
    for name in ("a", "b", "c"):
        client.get(f"/v1/drafters/{name}/versions/1.0")
        outside.get(f"/unknown/{name}")
        outside.request("BREW" + name.upper(), "/healthz")
    text = outside.get("/metrics").text
    assert 'drafters_requests_total{method="GET",route="/v1/drafters/{name}/versions/{ref}",status="404"} 3.0' in text
    assert 'drafters_requests_total{method="GET",route="none",status="404"} 3.0' in text
    assert 'drafters_requests_total{method="other",route="none",status="405"} 3.0' in text
    assert 'drafters_errors_total{code="NOT_FOUND"} 6.0' in text
    assert "drafters_requests_in_flight 1.0" in text
    assert "drafters_request_seconds_bucket" in text


def test_two_applications_count_for_themselves(registry):
    from drafter_registry.api.app import create_app

    first, second = create_app(registry), create_app(registry)
    assert first.state.shared.metrics.registry is not second.state.shared.metrics.registry


def test_the_manifests_schema_is_published_and_negotiated(outside, assert_problem):
    from drafter_contracts.manifest import json_schema

    answer = outside.get("/v1/schema")
    assert answer.json() == json.loads(json.dumps(json_schema()))
    assert answer.headers["content-type"] == "application/schema+json"
    for accept in ("application/json", "*/*", "application/*;q=0.5", "text/html, application/schema+json"):
        assert outside.get("/v1/schema", headers={"accept": accept}).status_code == 200
    for accept in ("text/html", "application/json;q=0", "application/vnd.drafters.manifest.v2+json"):
        problem = assert_problem(outside.get("/v1/schema", headers={"accept": accept}), "NOT_ACCEPTABLE")
        assert "application/schema+json" in problem.hint
