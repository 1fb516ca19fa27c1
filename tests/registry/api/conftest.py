"""The application in this process, over a registry of each kind; small drafters; and what every problem looks like."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 8,
    "target_hidden_size": 8,
    "vocab_size": 64,
    "draft_vocab_size": 16,
    "num_hidden_layers": 1,
    "max_position_embeddings": 4096,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 29], "use_aux_hidden_state": True},
}
TENSORS = {
    "fc.weight": ("BF16", (8, 24)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (8, 16)),
    "midlayer.hidden_norm.weight": ("BF16", (8,)),
    "norm.weight": ("BF16", (8,)),
    "lm_head.weight": ("BF16", (16, 8)),
    "d2t": ("I64", (16,)),
}


@pytest.fixture
def registry(settings):
    """An empty registry."""
    from drafter_registry.service.open import close, open_registry

    opened = open_registry(settings)
    yield opened
    close(opened)


class Recorder:
    """A log that is kept."""

    def __init__(self):
        self.text = ""

    def write(self, line):
        self.text += line

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def last(self):
        """The line of the last request."""
        return [line for line in self.lines if line["event"] == "request"][-1]


@pytest.fixture
def logged():
    """What the application writes."""
    return Recorder()


@pytest.fixture
def app(registry, logged):
    """The application."""
    from drafter_registry.api.app import create_app
    from drafter_registry.api.logs import Log

    return create_app(registry, Log(logged.write))


@pytest.fixture
def admin_token(registry):
    """The first token."""
    from drafter_registry.service.tokens import ensure_admin

    return ensure_admin(registry)


@pytest.fixture
def outside(app):
    """A client without a token."""
    from starlette.testclient import TestClient

    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(app, outside, admin_token):
    """A client with an admin's token."""
    from starlette.testclient import TestClient

    client = TestClient(app, raise_server_exceptions=False, headers={"authorization": f"Bearer {admin_token}"})
    client.portal = outside.portal
    return client


@pytest.fixture
def token(client):
    """Makes tokens: `token("read")` gives the headers that show it."""

    def make(*scopes, name="somebody"):
        answer = client.post("/v1/tokens", json={"name": name, "scopes": scopes})
        assert answer.status_code == 201, answer.text
        made = answer.json()
        return {"authorization": f"Bearer {made['token']}", "x-id": made["record"]["id"]}

    return make


@pytest.fixture
def assert_problem():
    """Whether an answer is a problem document of that code; gives the document."""
    from drafter_registry.api.problems import every_error, type_of
    from drafter_registry.documents import Problem

    def check(answer, code):
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = msgspec.json.decode(answer.content, type=Problem)
        assert (problem.code, problem.status) == (code, answer.status_code), answer.text
        kind = every_error()[code]
        assert answer.status_code == kind.status
        assert problem.type == type_of(code)
        assert problem.title
        assert problem.detail
        assert problem.instance == f"urn:request:{answer.headers['x-request-id']}"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "x-problem-code" not in answer.headers
        assert "Traceback" not in answer.text
        return problem

    return check


@pytest.fixture
def drafter(tmp_path):
    """Makes a small drafter: its files by path, and its manifest's bytes."""
    from drafter_contracts.checkpoint.read import read_drafter
    from drafter_contracts.checkpoint.skeleton import write_skeleton
    from drafter_contracts.manifest import SCHEMA, FileRecord, Manifest, TargetRecord, canonical
    from drafter_contracts.recording.build import record
    from drafter_contracts.recording.statement import Statement

    target = TargetRecord(model="org/target", architecture="LlamaForCausalLM", layers=32, hidden_size=8, vocab_size=64)
    target = msgspec.structs.replace(target, context_length=4096)

    def make(name="tiny-eagle3", version="1.0.0", steps=3):
        directory = tmp_path / f"{name}-{version}-{steps}"
        write_skeleton(str(directory), CONFIG, TENSORS)
        files = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
        said = Statement(
            name=name,
            version=version,
            boundaries=(3, 17, 30),
            option="--boundaries",
            steps=steps,
            topk=1,
            draft_tokens=steps + 1,
            manifest=Manifest(schema=SCHEMA, target=target),
        )
        listed = tuple(
            FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for path, data in files.items()
        )
        recorded = record(read_drafter(str(directory), target_layers=32, target_hidden_size=8), said, None, listed)
        assert recorded.manifest is not None, recorded.obstacles
        return files, canonical(recorded.manifest)

    return make


@pytest.fixture
def store():
    """Uploads bytes through a client, in one request; gives the digest."""

    def run(client, data, **keywords):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        place = client.post("/v1/uploads", **keywords).headers["location"]
        answer = client.put(f"{place}?digest={digest}", content=data, **keywords)
        assert answer.status_code == 201, answer.text
        return digest

    return run


@pytest.fixture
def publish(store, drafter):
    """Publishes a small drafter through a client; gives the answer to its PUT, its files and manifest."""

    def run(client, name="tiny-eagle3", version="1.0.0", *, steps=3, **keywords):
        files, manifest = drafter(name, version, steps)
        for data in files.values():
            store(client, data, **keywords)
        headers = {"content-type": "application/vnd.drafters.manifest.v1+json", **keywords.pop("headers", {})}
        answer = client.put(f"/v1/drafters/{name}/versions/{version}", content=manifest, headers=headers, **keywords)
        return answer, files, manifest

    return run
