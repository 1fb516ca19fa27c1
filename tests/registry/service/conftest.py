"""A registry of each kind, who works with it, and small drafters to publish."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass

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


@dataclass(frozen=True)
class MadeDrafter:
    """A drafter on disk: path to bytes, and its manifest."""

    files: dict[str, bytes]
    manifest: object

    def upload(self, registry, actor, without=()):
        from drafter_registry.service.uploads import store_bytes

        for path, data in self.files.items():
            if path not in without:
                store_bytes(registry, actor, data, "sha256:" + hashlib.sha256(data).hexdigest())


@pytest.fixture
def registry(settings):
    """An empty registry of either kind."""
    from drafter_registry.service.open import close, open_registry

    opened = open_registry(settings)
    yield opened
    close(opened)


@pytest.fixture
def admin():
    """Who may do everything."""
    from drafter_registry.service.context import LOCAL_SCOPES, Actor

    return Actor("admin", LOCAL_SCOPES, "request-1", "127.0.0.1")


@pytest.fixture
def listed():
    """Records of files as a manifest lists them."""
    from drafter_contracts.manifest import FileRecord

    def make(files):
        return tuple(
            FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for path, data in sorted(files.items())
        )

    return make


@pytest.fixture
def skeleton(tmp_path):
    """Files of a small EAGLE-3 head, as one file or two shards."""
    from drafter_contracts.checkpoint.skeleton import write_skeleton, write_sparse_weights

    def make(config=None, tensors=None, *, shards=False):
        directory = tmp_path / f"drafter-{len(os.listdir(tmp_path))}"
        tensors = TENSORS if tensors is None else tensors
        write_skeleton(str(directory), {**CONFIG, **(config or {})}, {} if shards else tensors)
        if shards:
            names = list(tensors)
            parts = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
            for shard, members in parts.items():
                write_sparse_weights(str(directory / shard), {name: tensors[name] for name in members})
            weight_map = {name: shard for shard, members in parts.items() for name in members}
            (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}

    return make


@pytest.fixture
def drafter(skeleton, listed, tmp_path):
    """Makes a small drafter and records its manifest as `drafters publish` does."""
    from drafter_contracts.checkpoint.read import read_drafter
    from drafter_contracts.manifest import SCHEMA, Manifest, TargetRecord
    from drafter_contracts.recording.build import record
    from drafter_contracts.recording.statement import Statement

    target = TargetRecord(model="org/target", architecture="LlamaForCausalLM", layers=32, hidden_size=8, vocab_size=64)
    target = msgspec.structs.replace(target, context_length=4096)

    def make(name="tiny-eagle3", version="1.0.0", *, extra=None, steps=None, boundaries=(3, 17, 30), **shape):
        files = {**skeleton(**shape), **(extra or {})}
        directory = tmp_path / f"recorded-{len(os.listdir(tmp_path))}"
        for path, data in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(data)
        said = Statement(
            name=name,
            version=version,
            boundaries=boundaries,
            option="--boundaries",
            steps=steps,
            manifest=Manifest(schema=SCHEMA, target=target),
        )
        facts = read_drafter(str(directory), target_layers=32, target_hidden_size=8)
        recorded = record(facts, said, None, listed(files))
        assert recorded.manifest is not None, recorded.obstacles
        return MadeDrafter(files, recorded.manifest)

    return make


@pytest.fixture
def publish(registry, admin):
    """Uploads and publishes what `drafter` made."""
    from drafter_registry.service.publish import publish

    def run(made, actor=admin):
        made.upload(registry, admin)
        manifest = made.manifest
        return publish(registry, actor, manifest.name, manifest.version, manifest, tool="test 1")

    return run


#: Imports once, then forks: every child opens the registry itself and waits for the others at a pipe.
_RACE = """
import json, os, sys
import msgspec, obstore, psycopg
from drafter_contracts.manifest import Manifest
from drafter_registry.errors import RegistryError
from drafter_registry.service.context import LOCAL_SCOPES, Actor
from drafter_registry.service.open import close, open_registry
from drafter_registry.service.publish import publish
from drafter_registry.settings import Settings

settings = msgspec.json.decode(sys.argv[1], type=Settings)
manifests = [msgspec.convert(one, Manifest) for one in json.load(sys.stdin)]
gate, go = os.pipe()
for i, manifest in enumerate(manifests):
    if os.fork() == 0:
        os.close(go)
        registry = open_registry(settings)
        actor = Actor(f"publisher-{i}", LOCAL_SCOPES)
        os.write(1, b"ready\\n")
        os.read(gate, 1)
        try:
            done = publish(registry, actor, manifest.name, manifest.version, manifest, tool="race")
            answer = ["created" if done.created else "same", done.digest]
        except RegistryError as error:
            answer = [error.code, error.message]
        except BaseException as error:
            answer = ["UNEXPECTED", repr(error)]
        os.write(1, json.dumps(answer).encode() + b"\\n")
        close(registry)
        os._exit(0)
os.read(int(sys.argv[2]), 1)
os.close(go)
for _ in manifests:
    os.wait()
"""


@pytest.fixture
def race(settings):
    """Publishes manifests at the same moment, each from a process of its own; returns [answer, detail] of each."""

    def run(manifests):
        start, release = os.pipe()
        arguments = [sys.executable, "-c", _RACE, msgspec.json.encode(settings).decode(), str(start)]
        process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[start]
        )
        os.close(start)
        process.stdin.write(msgspec.json.encode(manifests))
        process.stdin.close()
        for _ in manifests:
            assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()[-3000:]
        os.close(release)
        answers = [json.loads(process.stdout.readline()) for _ in manifests]
        assert process.wait(60) == 0, process.stderr.read().decode()[-3000:]
        process.stdout.close()
        process.stderr.close()
        return answers

    return run
