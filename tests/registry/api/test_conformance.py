"""The service against its own OpenAPI document: no 5xx, and no answer that the document does not tell of.

schemathesis makes requests that fit the document and requests that do not, for callers with and without a token.
"""

from __future__ import annotations

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

#: What is there when the requests begin.
THERE = {"name": "kimi-eagle3", "ref": "1.1.0", "alias": "prod", "path": "config.json"}
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
#: Of each operation, for each way of making requests. Without a token, nearly all get no further than that.
EXAMPLES = {"admin": 12, "anonymous": 3}


@pytest.fixture
def kind(request):
    return getattr(request, "param", "sqlite-local")


@pytest.fixture
def there(server, publish):
    """A server with one version, one alias, and that version's blobs."""
    with httpx2.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
        answer, _, _ = publish(client, "kimi-eagle3", "1.1.0")
        assert answer.status_code == 201, answer.text
        assert client.put("/v1/drafters/kimi-eagle3/aliases/prod", json={"version": "1.1.0"}).status_code == 200
        return {**THERE, "digest": answer.json()["digest"], "id": client.post("/v1/uploads").json()["id"]}


def _try(operation, mode, headers, there, examples):
    """Requests of one operation; half of them to what is there."""

    @seed(20260301)
    @hypothesis_settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def run(case, known):
        if known and case.path_parameters:
            case.path_parameters.update({name: there[name] for name in case.path_parameters if name in there})
        case.call_and_validate(headers=headers, checks=CHECKS)

    run()


@pytest.mark.parametrize("caller", ["admin", "anonymous"])
@pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)
def test_no_request_gets_what_the_document_does_not_tell_of(server, there, caller):
    schema = schemathesis.openapi.from_url(server.url + "/openapi.json")
    schema.config.generation.update(deterministic=True, with_security_parameters=False)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 30
    headers = server.headers if caller == "admin" else {}
    failures = []
    for operation in sorted(operations, key=lambda one: one.method == "delete"):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                _try(operation, mode, headers, there, EXAMPLES[caller])
            except Unsatisfiable:  # an operation without parameters: no request to it can be wrong
                assert mode is GenerationMode.NEGATIVE
            except Exception as error:  # noqa: BLE001 - all of them are told, not the first
                failures.append(f"{operation.label} {mode}: {error}")
    assert not failures, "\n\n".join(failures)
    assert '"level":"error"' not in server.log
    assert server.log.count('"status":200') > (100 if caller == "admin" else 10)
