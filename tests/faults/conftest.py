"""A registry of each kind to do harm to: its servers, its clients as real commands, and what must hold afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import httpx2
import msgspec
import pytest

from drafter_contracts.checkpoint.skeleton import write_skeleton

WIDTH = 64
#: Rows of a head of which the weights are 100 kB. A row is 128 bytes.
ROWS = 512
#: What fsck may find after a kill and before a collection: bytes that nobody needs, and nothing else.
LEFTOVERS = {"blob-orphan", "blob-doomed"}


def config(rows):
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "vocab_size": rows,
        "draft_vocab_size": rows,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
    }


def tensors(rows):
    shapes = {
        "fc.weight": (WIDTH, 3 * WIDTH),
        "midlayer.hidden_norm.weight": (WIDTH,),
        "midlayer.self_attn.q_proj.weight": (WIDTH, 2 * WIDTH),
        "norm.weight": (WIDTH,),
        "lm_head.weight": (rows, WIDTH),
    }
    return {name: ("BF16", shape) for name, shape in shapes.items()}


def until(wanted, what, seconds=60):
    """Poll until something is true, and give it."""
    deadline = time.monotonic() + seconds
    while not (found := wanted()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


class Bed:
    """One registry; it may have several servers, and none."""

    def __init__(self, settings, folder, command, drafters, live_server):
        self.settings = settings
        self.folder, self.command = folder, command
        self._drafters, self._live_server = drafters, live_server
        self.processes = []
        self.target = os.path.join(folder, "target")
        os.mkdir(self.target)
        described = {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            "hidden_size": WIDTH,
            "num_hidden_layers": 61,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "kv_lora_rank": 8,
            "vocab_size": ROWS,
            "max_position_embeddings": 4096,
            "torch_dtype": "bfloat16",
        }
        with open(os.path.join(self.target, "config.json"), "w", encoding="utf-8") as file:
            json.dump(described, file)

    def drafter(self, name="drafter", rows=ROWS, **more):
        """A drafter's directory. `more` goes into its config and makes it another one."""
        directory = os.path.join(self.folder, name)
        write_skeleton(directory, {**config(rows), **more}, tensors(rows))
        return directory

    def server(self, failpoint="", **variables):
        """A server, armed or not."""
        return self._live_server(self.settings, variables={"DRAFTERS_FAILPOINT": failpoint, **variables})

    def variables(self, server=None, failpoint=""):
        """Environment of a command on that server, or on the registry itself."""
        own = {
            "DRAFTERS_CACHE": os.path.join(self.folder, "cache"),
            "DRAFTERS_CONFIG": None,
            "DRAFTERS_FAILPOINT": failpoint,
            "HOME": self.folder,
            "XDG_CONFIG_HOME": None,
        }
        if server is not None:
            return own | {"DRAFTERS_URL": server.url, "DRAFTERS_TOKEN": server.token}
        return own | {
            "DRAFTERS_URL": None,
            "DRAFTERS_TOKEN": None,
            "DRAFTERS_DATA": self.settings.data,
            "DRAFTERS_DATABASE": self.settings.database,
            "DRAFTERS_STORAGE": self.settings.storage,
        }

    def run(self, *arguments, server=None, failpoint=""):
        """A command, to its end."""
        return self._drafters(*arguments, variables=self.variables(server, failpoint), timeout=120)

    def start(self, *arguments, server=None, failpoint=""):
        """A command, begun."""
        environment = {**os.environ, **self.variables(server, failpoint)}
        process = subprocess.Popen(
            [self.command, *map(str, arguments)],
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def publication(self, directory, version="1.0"):
        """Arguments that publish a directory."""
        return ("publish", directory, "--name", "tiny", "--version", version, "--target", self.target, "--json")

    def publish(self, directory, version="1.0", server=None):
        """Publish, which must succeed; returns what was said."""
        done = self.run(*self.publication(directory, version), server=server)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def open(self, ahead=0, **more):
        """The registry in this process, its clock so many seconds ahead."""
        from drafter_registry.service.open import close, open_registry

        class Opened:
            def __enter__(opened):  # noqa: N805 - `self` is the bed
                opened.registry = open_registry(msgspec.structs.replace(self.settings, **more))
                return msgspec.structs.replace(
                    opened.registry, now=lambda: datetime.now(UTC) + timedelta(seconds=ahead)
                )

            def __exit__(opened, *_):  # noqa: N805 - `self` is the bed
                close(opened.registry)

        return Opened()

    @property
    def admin(self):
        """Who may do everything."""
        from drafter_registry.service.context import LOCAL_SCOPES, Actor

        return Actor("local:tests", LOCAL_SCOPES)

    def manifest(self, directory, version, **more):
        """What `drafters publish` would record of a directory, as JSON."""
        done = self.run(*self.publication(directory, version), "--dry-run")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["manifest"] | more

    def job(self, work, server=None, **needs):
        """A job for `together`."""
        environment = {name: value for name, value in self.variables(server).items() if value is not None}
        return {"work": work, "environment": environment, **needs}

    def scrub(self):
        """What fsck finds: (kind, subject) of each problem."""
        from drafter_registry.service.scrub import scrub

        with self.open() as registry:
            return [(one.kind, one.subject) for one in scrub(registry, self.admin).problems]

    def collect(self):
        """Collect without any grace."""
        from drafter_registry.service.collect import collect

        with self.open(5, gc_grace_seconds=0, upload_idle_seconds=0) as registry:  # whatever there is is old then
            return collect(registry, self.admin)

    def assert_only_leftovers(self):
        """Nothing is torn: fsck finds at most bytes that nobody needs."""
        assert {kind for kind, _ in self.scrub()} <= LEFTOVERS

    def assert_spotless(self):
        """After a collection: nothing is wrong, nothing is staged, and no blob is there that no version names."""
        from sqlalchemy import select

        from drafter_registry.db.models import BlobRow, FileRow, UploadRow

        self.collect()
        assert self.scrub() == []
        with self.open() as registry:
            assert list(registry.blobs.staged()) == []
            stored = {one.key for one in registry.blobs.blobs()}
            with registry.database.read() as connection:
                assert set(connection.execute(select(FileRow.digest)).scalars()) == stored
                assert set(connection.execute(select(BlobRow.digest)).scalars()) == stored
                assert connection.execute(select(UploadRow.id)).all() == []

    def assert_whole(self, server):
        """Every version has all its bytes; returns the versions."""
        with httpx2.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
            return self._assert_whole(client)

    def _assert_whole(self, client):
        found, cursor = [], ""
        while True:
            page = client.get("/v1/drafters", params={"limit": "500", **({"cursor": cursor} if cursor else {})}).json()
            found += [(item["name"], item["version"]) for item in page.get("items", [])]
            cursor = page.get("next", "")
            if not cursor:
                break
        for name, version in found:
            place = f"/v1/drafters/{name}/versions/{version}"
            answer = client.get(place + "/manifest")
            assert answer.status_code == 200, answer.text
            for file in answer.json()["files"]:
                data = client.get(f"{place}/files/{file['path']}")
                assert data.status_code == 200, data.text
                assert hashlib.sha256(data.content).hexdigest() == file["sha256"]
        return [version for _, version in found]

    def requests(self, server, method, path):
        """The server's log: answered requests of that method below that path."""
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        told = [line for line in lines if line.get("event") == "request"]
        return [line for line in told if line["method"].startswith(method) and line["path"].startswith(path)]


PROGRAM = os.path.join(os.path.dirname(__file__), "programs", "together.py")


@pytest.fixture
def together():
    """Does jobs (see `programs/together.py`) at the same moment, each in a process of its own; returns the answers."""
    running = []

    def run(jobs, seconds=180):
        process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        running.append(process)
        process.stdin.write(json.dumps(jobs).encode() + b"\n")
        process.stdin.flush()
        for _ in jobs:
            if process.stdout.readline() != b"ready\n":
                raise AssertionError(process.communicate()[1].decode()[-3000:])
        said, errors = process.communicate(timeout=seconds)
        assert process.returncode == 0, errors.decode()[-3000:]
        answers = [json.loads(line) for line in said.splitlines()]
        assert len(answers) == len(jobs), errors.decode()[-3000:]
        return answers

    yield run
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@pytest.fixture
def make_bed(tmp_path, command, drafters, live_server):
    """Makes an empty registry of any settings."""
    made = []

    def make(settings):
        made.append(Bed(settings, str(tmp_path), command, drafters, live_server))
        return made[-1]

    yield make
    for process in [process for one in made for process in one.processes]:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def bed(settings, make_bed):
    """An empty registry of either kind."""
    return make_bed(settings)


@pytest.fixture(name="until")
def _until():
    """Polls until something is true: `until(wanted, "what did not happen")`."""
    return until
