"""The OpenAPI 3.1 document, made of the declared endpoints and the structs that they speak."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import msgspec

from drafter_registry import errors
from drafter_registry.api import problems
from drafter_registry.api.endpoint import Answer, Body, Endpoint, Parameter
from drafter_registry.documents import PROBLEM_TYPE, Problem
from drafter_registry.errors import RegistryError

_REF = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_WORD = {"type": "string", "minLength": 1, "maxLength": 64}

#: Parameters of paths: what they mean, their schema, and a value.
_IN_PATHS: dict[str, tuple[str, dict[str, Any], str]] = {
    "name": (
        "The drafter's name.",
        {"type": "string", "pattern": "^[a-z0-9]+([._-][a-z0-9]+)*$", "maxLength": 96},
        "kimi-eagle3",
    ),
    "ref": (
        "A version (begins with a digit), an alias (begins with a letter), or the manifest's digest, sha256:...",
        {"type": "string", "minLength": 1, "maxLength": 71},
        "1.1.0",
    ),
    "alias": (
        "The alias.",
        {"type": "string", "pattern": "^[a-z][a-z0-9]*([._-][a-z0-9]+)*$", "maxLength": 64},
        "prod",
    ),
    "path": (
        "Path of a file inside the version; slashes are written as they are.",
        {"type": "string", "minLength": 1, "maxLength": 255},
        "config.json",
    ),
    "digest": (
        "Digest of a blob, or of an acceptance.",
        {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        "sha256:" + "3f" * 32,
    ),
    "id": ("The id, as it was given.", _WORD, "5f0c"),
}
_ALWAYS = (errors.InvalidError, errors.InternalError, errors.UnavailableError, errors.HeadersTooLargeError)
_WITH_TOKEN = (errors.NotAuthorisedError, errors.NotFoundError, errors.TooManyRequestsError, errors.SchemaError)
_WITH_BODY = (errors.TooLargeError, errors.UnsupportedError)
_WRITES = (errors.StorageFullError,)
_NO_TOKEN_NEEDED: list[dict[str, list[str]]] = [{}]

_ABOUT = """\
Drafters for speculative decoding, with what each was trained on. Errors are problem documents (RFC 9457) with a stable
`code`. Within /v1, keys and routes may be added; none is removed or changes its meaning."""


def document(endpoints: tuple[Endpoint, ...], version: str) -> dict[str, Any]:
    """The whole document."""
    structs = {one for endpoint in endpoints for one in _structs(endpoint)} | {Problem}
    _, components = msgspec.json.schema_components(
        sorted(structs, key=lambda one: one.__name__), ref_template=_REF, schema_hook=_any_value
    )
    components["Problem"]["properties"]["code"] = {"type": "string", "enum": sorted(problems.every_error())}
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        for method in endpoint.methods:
            paths[endpoint.path][method.lower()] = _operation(endpoint, method)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "drafter-registry",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": dict(paths),
        "components": {
            "schemas": components,
            "responses": _problem_responses(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`drafters token create` makes one: drt_...",
                }
            },
        },
    }


def _any_value(kind: type) -> dict[str, Any]:
    """The schema of a value of somebody else's config."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(kind)


def error_kinds(endpoint: Endpoint) -> tuple[type[RegistryError], ...]:
    """Everything that an endpoint may answer with that is a problem."""
    kinds: list[type[RegistryError]] = [*_ALWAYS, *endpoint.errors]
    if endpoint.scope:
        kinds += _WITH_TOKEN
    if endpoint.body is not None:
        kinds += _WITH_BODY
    if endpoint.method != "GET" and endpoint.scope != "read":
        kinds += _WRITES
    return tuple(dict.fromkeys(kinds))


def _structs(endpoint: Endpoint) -> list[type]:
    found = [answer.document for answer in endpoint.answers.values()]
    if endpoint.body is not None:
        found.append(endpoint.body.document)
    return [one for one in found if one is not None]


def _operation(endpoint: Endpoint, method: str) -> dict[str, Any]:
    head = method == "HEAD"
    in_path = [_in_path(name) for name in re.findall(r"{(\w+)}", endpoint.path)]
    operation: dict[str, Any] = {
        "operationId": f"head_{endpoint.operation}" if head else endpoint.operation,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "parameters": in_path + [_parameter(one) for one in endpoint.parameters],
        "responses": {str(status): _answer(one, head=head) for status, one in endpoint.answers.items()},
        "security": [{"token": []}] if endpoint.scope else _NO_TOKEN_NEEDED,
    }
    if endpoint.scope == "read":
        operation["security"] = [{"token": []}, {}]  # the second where anonymous reading is switched on
    if endpoint.text:
        operation["description"] = endpoint.text
    if endpoint.scope:
        operation["x-scope"] = endpoint.scope
    if endpoint.body is not None and not head:
        operation["requestBody"] = _body(endpoint.body)
    for status, kinds in _by_status(error_kinds(endpoint)).items():
        if str(status) not in operation["responses"]:
            operation["responses"][str(status)] = _problem(kinds, head=head)
    return operation


def _in_path(name: str) -> dict[str, Any]:
    text, schema, example = _IN_PATHS[name]
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema, "example": example}


def _parameter(one: Parameter) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "in": one.place, "description": one.text, "schema": one.schema or _TEXT}
    if one.required:
        told["required"] = True
    if one.example is not None:
        told["example"] = one.example
    return told


def _body(body: Body) -> dict[str, Any]:
    schema = {} if body.document is None else {"$ref": _REF.format(name=body.document.__name__)}
    content: dict[str, Any] = {"schema": schema}
    if body.example is not None:
        content["example"] = body.example
    return {"required": body.required, "content": dict.fromkeys(body.media, content)}


def _answer(answer: Answer, *, head: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"description": answer.text}
    if answer.headers:
        told["headers"] = {name: {"description": text, "schema": _TEXT} for name, text in answer.headers.items()}
    if not answer.media or head:
        return told
    schema = answer.schema
    if answer.document is not None:
        schema = {"$ref": _REF.format(name=answer.document.__name__)}
    content: dict[str, Any] = {"schema": schema if schema is not None else {}}
    if answer.example is not None:
        content["example"] = answer.example
    told["content"] = {answer.media: content}
    return told


def _by_status(kinds: tuple[type[RegistryError], ...]) -> dict[int, list[type[RegistryError]]]:
    found: dict[int, list[type[RegistryError]]] = defaultdict(list)
    for kind in kinds:
        found[kind.status].append(kind)
    return dict(sorted(found.items()))


def _problem(kinds: list[type[RegistryError]], *, head: bool) -> dict[str, Any]:
    if len(kinds) == 1 and not head:
        return {"$ref": f"#/components/responses/{kinds[0].code}"}
    told: dict[str, Any] = {"description": " ".join(f"`{kind.code}`: {problems.summary(kind)}" for kind in kinds)}
    if not head:
        examples = {kind.code: {"value": _example(kind)} for kind in kinds}
        schema = {"$ref": _REF.format(name="Problem")}
        told["content"] = {PROBLEM_TYPE: {"schema": schema, "examples": examples}}
    return told


def _problem_responses() -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {
        code: {
            "description": f"`{code}`: {problems.summary(kind)}",
            "content": {PROBLEM_TYPE: {"schema": schema, "example": _example(kind)}},
        }
        for code, kind in sorted(problems.every_error().items())
    }


def _example(kind: type[RegistryError]) -> dict[str, Any]:
    return {
        "type": problems.type_of(kind.code),
        "title": problems.title(kind.code),
        "status": kind.status,
        "detail": problems.summary(kind),
        "instance": "urn:request:5b4d0f0a",
        "code": kind.code,
    }
