"""The OpenAPI document: valid, and complete."""

from __future__ import annotations

import os
import re

import msgspec
import pytest

from drafter_registry import documents, errors
from drafter_registry.api import openapi, problems

_DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "api.md")


@pytest.fixture
def kind():
    """The document is the same for both."""
    return "sqlite-local"


@pytest.fixture
def document(app):
    return app.openapi()


@pytest.fixture
def endpoints(app):
    return app.state.endpoints


@pytest.fixture
def follow(document):
    """A part of the document, its reference followed."""

    def run(node):
        while "$ref" in node:
            target = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    return run


def test_it_is_a_valid_document_and_served_as_it_is(document, outside):
    import schemathesis

    schemathesis.openapi.from_dict(document).validate()
    assert outside.get("/openapi.json").json() == document
    assert document["openapi"] == "3.1.0"


def test_every_reference_leads_somewhere(document, follow):
    found = re.findall(r'"\$ref":"(#[^"]+)"', msgspec.json.encode(document).decode())
    assert len(set(found)) > 30
    for reference in found:
        follow({"$ref": reference})


def test_every_route_and_method_is_in_it(app, document):
    served = {
        (route.path.replace(":path", ""), method) for route in app.routes for method in getattr(route, "methods", ())
    }
    told = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert served == told
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_every_error_is_in_it_and_every_status_has_a_problem(document, follow):
    codes = set(problems.every_error())
    assert set(document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == codes
    assert set(document["components"]["responses"]) == codes
    told = set()
    for methods in document["paths"].values():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                whole = follow(response)
                if int(status) < 400 or "application/problem+json" not in whole.get("content", {}):
                    continue
                content = whole["content"]["application/problem+json"]
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
                examples = [one["value"] for one in content.get("examples", {}).values()] or [content["example"]]
                for example in examples:
                    problem = msgspec.convert(example, documents.Problem)
                    assert problem.status == int(status)
                    told.add(problem.code)
            if method != "head":
                assert {"400", "500", "503"} <= set(operation["responses"])
    # a method that does not fit has no operation to be told of
    assert told == codes - {"METHOD_NOT_ALLOWED"}


def test_every_error_has_a_title_and_a_status_of_its_own_class():
    for code, kind in problems.every_error().items():
        assert code in problems._TITLES
        assert 400 <= kind.status < 600
        assert problems.summary(kind).endswith(".")
    assert set(problems._TITLES) == set(problems.every_error())
    assert set(vars(errors)) >= {kind.__name__ for kind in problems.every_error().values()}


def test_every_example_is_such_a_document(endpoints):
    checked = 0
    for endpoint in endpoints:
        for described in (*endpoint.answers.values(), *([endpoint.body] if endpoint.body else [])):
            if described.document is not None and described.example is not None:
                msgspec.convert(described.example, described.document)
                checked += 1
            if described.document is not None and endpoint.body is not described and described.text != "":
                assert described.media
    assert checked > 20


def test_secured_routes_say_so_and_others_do_not(document, endpoints):
    for endpoint in endpoints:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        if endpoint.scope:
            assert {"token": []} in operation["security"]
            assert {"401", "404", "429"} <= set(operation["responses"])
        else:
            assert operation["security"] == [{}]


def test_the_page_lists_exactly_these_codes_and_routes(endpoints):
    with open(_DOCS, encoding="utf-8") as file:
        text = file.read()
    listed = {
        code: int(status) for code, status in re.findall(r"^\| `([A-Z_]+)` \| ([0-9]{3}) \|", text, flags=re.MULTILINE)
    }
    assert listed == {code: kind.status for code, kind in problems.every_error().items()}
    routes = set(re.findall(r"^\| `([A-Z]+) (/[^`]*)` \|", text, flags=re.MULTILINE))
    assert routes == {(one.method, one.path) for one in endpoints}
    scopes = {
        (method, path): scope
        for method, path, scope in re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| ([a-z-]+) \|", text, flags=re.MULTILINE)
    }
    assert scopes == {(one.method, one.path): one.scope or "-" for one in endpoints}


def test_error_kinds_cover_what_may_always_happen(endpoints):
    for endpoint in endpoints:
        assert errors.InternalError in openapi.error_kinds(endpoint)
