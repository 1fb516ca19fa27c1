"""Drafters of the Hub: from its cache with the network off, and from a Hub on the loopback that speaks its API."""

from __future__ import annotations

import json
import os
import re
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from drafter_cli.errors import UnreachableError, UsageError
from drafter_cli.hub import headers as hub_headers
from drafter_cli.hub import source as hub_source
from drafter_contracts import limits
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.errors import CheckpointError

REPOSITORY = "org/kimi-eagle3"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WIDTH, VOCABULARY = 64, 256
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
}
TENSORS = {
    "fc.weight": ("BF16", (WIDTH, 3 * WIDTH)),
    "midlayer.hidden_norm.weight": ("BF16", (WIDTH,)),
    "midlayer.input_layernorm.weight": ("BF16", (WIDTH,)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.k_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.v_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.o_proj.weight": ("BF16", (WIDTH, 64)),
    "midlayer.post_attention_layernorm.weight": ("BF16", (WIDTH,)),
    "norm.weight": ("BF16", (WIDTH,)),
    "lm_head.weight": ("BF16", (VOCABULARY, WIDTH)),
}
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": 61,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}


class Hub:
    """One repository at one commit, and what was asked of it: (method, path, range, authorization)."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[tuple[str, str, str, str]] = []
        self.written = 0
        self.ranges = True
        self.gated = False
        self.commit = COMMIT
        self.stated: dict[str, tuple[int, str]] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def lfs(self, path: str) -> tuple[int, str] | None:
        """Size and digest that Git LFS states of a file; None for one in Git itself."""
        if not path.endswith((".safetensors", ".bin")):
            return None
        return self.stated.get(path, (len(self.files[path]), sha256(self.files[path]).hexdigest()))

    def sent(self, path: str) -> list[tuple[str, str]]:
        """(method, range) of the requests for a file."""
        return [(method, asked) for method, where, asked, _ in self.asked if where.endswith("/" + path)]

    def _handler(hub):  # noqa: N805 - the handler's own self is inside
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Quiet."""

            def do_HEAD(self):
                self.answer()

            def do_GET(self):
                self.answer()

            def answer(self):
                path = unquote(urlsplit(self.path).path)
                hub.asked.append(
                    (self.command, path, self.headers.get("Range", ""), self.headers.get("Authorization", ""))
                )
                api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path)
                file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
                repository = api or file
                if repository is None or repository[1] != REPOSITORY:
                    return self.error(404, "RepoNotFound")
                if hub.gated:
                    return self.error(403, "GatedRepo")
                if (repository[2] or "main") not in {"main", "v1", hub.commit}:
                    return self.error(404, "RevisionNotFound")
                if api:
                    return self.send(200, json.dumps(hub.info()).encode(), {"Content-Type": "application/json"})
                if file[3] not in hub.files:
                    return self.error(404, "EntryNotFound")
                return self.file(file[3])

            def file(self, path):
                data = hub.files[path]
                lfs = hub.lfs(path)
                etag = lfs[1] if lfs else sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - Git's
                headers = {"ETag": f'"{etag}"', "X-Repo-Commit": hub.commit, "Accept-Ranges": "bytes"}
                asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                if not asked or not hub.ranges:
                    return self.send(200, data, headers)
                start, end = int(asked[1]), min(int(asked[2] or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
                return self.send(206, data[start : end + 1], headers)

            def error(self, status, code):
                self.send(status, b"{}", {"X-Error-Code": code})

            def send(self, status, data, headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    try:
                        for at in range(0, len(data), 65536):
                            self.wfile.write(data[at : at + 65536])
                            hub.written += len(data[at : at + 65536])
                    except ConnectionError:
                        self.close_connection = True

        return Handler

    def info(self):
        """The answer about the model."""
        siblings = []
        for path, data in self.files.items():
            entry = {"rfilename": path, "size": len(data), "blobId": sha1(data).hexdigest()}  # noqa: S324 - Git's
            if lfs := self.lfs(path):
                entry["lfs"] = {"size": lfs[0], "sha256": lfs[1], "pointerSize": 130}
            siblings.append(entry)
        return {"id": REPOSITORY, "sha": self.commit, "siblings": siblings, "tags": [], "private": False}


@pytest.fixture
def drafter(tmp_path):
    """A small drafter's files: path to bytes."""
    folder = tmp_path / "trained"
    write_skeleton(str(folder), CONFIG, TENSORS)
    files = {name: (folder / name).read_bytes() for name in ("config.json", "model.safetensors")}
    return files | {
        "README.md": b"# A drafter\n",
        ".gitattributes": b"*.bin filter=lfs\n",
        "optimizer.bin": b"\x80\x04.",
    }


@pytest.fixture
def target(tmp_path):
    """The target's directory: its config alone."""
    write_skeleton(str(tmp_path / "target"), TARGET, {})
    return str(tmp_path / "target")


@pytest.fixture
def hub(drafter, tmp_path, monkeypatch):
    """A Hub on the loopback that this process and the commands it starts ask, and an empty cache."""
    served = Hub(drafter)
    thread = Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    point_at(monkeypatch, served.url, str(tmp_path / "hub"), offline=False)
    yield served
    close_session()
    served.server.shutdown()
    served.server.server_close()
    thread.join()


@pytest.fixture
def cached(drafter, tmp_path, monkeypatch):
    """The drafter in the Hub's cache, as the Hub's library lays it out, and the network forbidden."""
    repository = tmp_path / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT
    for folder in (repository / "refs", repository / "blobs", snapshot):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    for name, data in drafter.items():
        lfs = name.endswith((".safetensors", ".bin"))
        blob = repository / "blobs" / (sha256(data).hexdigest() if lfs else sha1(data).hexdigest())  # noqa: S324
        blob.write_bytes(data)
        (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "hub"), offline=True)
    return str(snapshot)


def point_at(monkeypatch, url, cache, *, offline):
    """Have the Hub's library in this process, and in those it starts, ask that Hub."""
    variables = {"HF_ENDPOINT": url, "HF_HUB_CACHE": cache, "HF_HUB_OFFLINE": "1" if offline else "0"}
    for name, value in (variables | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)


@pytest.mark.parametrize("revision", ["", "@main", "@v1", f"@{COMMIT}"])
def test_a_source_is_pinned_to_a_commit(hub, drafter, revision):
    found = hub_source.open(f"hf://{REPOSITORY}{revision}")
    assert (found.source, found.revision) == (f"hf://{REPOSITORY}", COMMIT)
    assert found.paths == ("README.md", "config.json", "model.safetensors")
    assert found.sha256 == {"model.safetensors": sha256(drafter["model.safetensors"]).hexdigest()}
    for path in found.paths:
        with open(os.path.join(found.directory, path), "rb") as file:
            assert file.read() == drafter[path]


def test_what_a_registry_does_not_keep_is_not_even_fetched(hub):
    found = hub_source.open(f"hf://{REPOSITORY}")
    assert [note.partition(":")[0] for note in found.notes] == ["left out .gitattributes", "left out optimizer.bin"]
    assert hub.sent("optimizer.bin") == []


def test_files_of_a_commit_are_fetched_once(hub):
    hub_source.open(f"hf://{REPOSITORY}")
    before = len(hub.sent("model.safetensors"))
    hub_source.open(f"hf://{REPOSITORY}")
    assert before > 0
    assert len(hub.sent("model.safetensors")) == before


def test_offline_the_cache_answers(cached, drafter):
    found = hub_source.open(f"hf://{REPOSITORY}")
    assert (found.directory, found.revision) == (cached, COMMIT)
    assert found.paths == ("README.md", "config.json", "model.safetensors")
    assert found.sha256 == {"model.safetensors": sha256(drafter["model.safetensors"]).hexdigest()}
    assert any(COMMIT in note and "offline" in note for note in found.notes)


def test_offline_a_commit_is_no_guess(cached):
    assert not any("offline" in note for note in hub_source.open(f"hf://{REPOSITORY}@{COMMIT}").notes)


def test_offline_and_not_cached(cached):
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE forbids") as caught:
        hub_source.open("hf://org/other")
    assert "hf download org/other" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf://org/other", "has no model org/other"),
        (f"hf://{REPOSITORY}@v9", "no revision 'v9'"),
        ("hf://org", "is no model"),
        ("hf://datasets/org/name", "is no model"),
        ("hf://org/../name", "is no model"),
        (f"hf://{REPOSITORY}@", "is no model"),
        (f"hf://{REPOSITORY}@../../x", "is no model"),
        (f"hf://{REPOSITORY}/config.json", "is no model"),
    ],
)
def test_sources_that_are_none(hub, source, message):
    with pytest.raises(UsageError, match=message):
        hub_source.open(source)


def test_a_gated_repository(hub):
    hub.gated = True
    with pytest.raises(UsageError, match="gated") as caught:
        hub_source.open(f"hf://{REPOSITORY}")
    assert "hf auth login" in caught.value.hint


def test_a_hub_that_does_not_answer(monkeypatch, tmp_path):
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path), offline=False)
    with pytest.raises(UnreachableError, match="does not answer") as caught:
        hub_source.open(f"hf://{REPOSITORY}")
    assert "HF_HUB_OFFLINE=1" in caught.value.hint


def test_a_header_is_read_by_range(hub, drafter):
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    head = hub_headers.read_head(found, weights)
    assert drafter["model.safetensors"].startswith(head)
    assert len(head) == 8 + int.from_bytes(head[:8], "little")
    assert hub.sent("model.safetensors") == [("GET", f"bytes=0-{min(65536, weights.size) - 1}")]


def test_a_header_longer_than_the_first_range(hub, tmp_path):
    """And of a server that ignores ranges: the same bytes, with no more of the file kept than the header."""
    many = {f"layers.{i}.some.long.name.of.a.tensor.weight": ("BF16", (4,)) for i in range(1000)}
    write_skeleton(str(tmp_path / "long"), CONFIG, many)
    hub.files["model.safetensors"] = (tmp_path / "long" / "model.safetensors").read_bytes()
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    head = hub_headers.read_head(found, weights)
    assert [asked for _, asked in hub.sent("model.safetensors")] == ["bytes=0-65535", f"bytes=65536-{len(head) - 1}"]
    hub.ranges = False
    assert hub_headers.read_head(found, weights) == head


def test_no_more_than_the_header_is_taken_from_a_hub_that_ignores_ranges(hub, tmp_path):
    many = {f"layers.{i}.weight": ("F32", (64 * 1024,)) for i in range(256)}
    write_skeleton(str(tmp_path / "many"), CONFIG, many)
    hub.files["model.safetensors"] = (tmp_path / "many" / "model.safetensors").read_bytes()
    hub.ranges = False
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    before = hub.written
    assert hub.files["model.safetensors"].startswith(hub_headers.read_head(found, weights))
    close_session()
    assert hub.written - before < weights.size // 4, "what lies in the sockets' buffers, not the file"


@pytest.mark.parametrize("length", [limits.header_max_bytes + 1, 2**40, 2**63])
def test_a_header_that_claims_too_much_is_refused_before_it_is_fetched(hub, length):
    hub.files["model.safetensors"] = length.to_bytes(8, "little") + bytes(100_000)
    hub.stated["model.safetensors"] = (2**35, "0" * 64)
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    with pytest.raises(CheckpointError, match="header"):
        hub_headers.read_head(found, weights)
    assert hub.sent("model.safetensors") == [("GET", "bytes=0-65535")]


def test_a_size_that_does_not_fit_the_header_is_refused(hub, drafter):
    size = len(drafter["model.safetensors"]) + 1
    hub.stated["model.safetensors"] = (size, "0" * 64)
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    with pytest.raises(CheckpointError):
        hub_headers.read_head(found, weights)


def test_the_hubs_token_goes_to_the_hub(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    found = hub_source.listing(f"hf://{REPOSITORY}")
    hub_headers.read_head(found, next(file for file in found.files if file.sha256))
    assert {authorization for *_, authorization in hub.asked} == {"Bearer hf_secret"}


NAMED = ("--name", "kimi-eagle3", "--version", "1.0.0", "--target-name", "org/target", "--json", "--dry-run")


@pytest.fixture
def dry_run(drafters, target, tmp_path):
    """What a command would publish, as the manifest."""

    def run(*arguments, cwd=None):
        where = {"DRAFTERS_DATA": str(tmp_path / "data"), "DRAFTERS_CACHE": str(tmp_path / "cache")}
        return drafters(*arguments, "--target", target, *NAMED, variables=where, cwd=cwd or tmp_path)

    return run


def manifest_of(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["manifest"]


def test_publishing_from_the_hub_records_where_from(hub, dry_run, drafter):
    manifest = manifest_of(dry_run("publish", f"hf://{REPOSITORY}"))
    assert manifest["provenance"] | {"source": f"hf://{REPOSITORY}", "revision": COMMIT} == manifest["provenance"]
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == {
        path: sha256(drafter[path]).hexdigest() for path in ("README.md", "config.json", "model.safetensors")
    }
    assert all("elsewhere" not in file for file in manifest["files"])


def test_publishing_offline_gives_the_same_manifest(cached, dry_run, drafter):
    manifest = manifest_of(dry_run("publish", f"hf://{REPOSITORY}"))
    assert manifest["provenance"]["revision"] == COMMIT
    assert manifest["layout"]["boundaries"] == [3, 31, 59]
    assert len(manifest["files"]) == 3


def test_an_import_leaves_the_weights_where_they_are(hub, dry_run, drafter):
    manifest = manifest_of(dry_run("import-config", f"hf://{REPOSITORY}@main"))
    files = {file["path"]: file for file in manifest["files"]}
    weights = drafter["model.safetensors"]
    head = weights[: 8 + int.from_bytes(weights[:8], "little")]
    assert files["model.safetensors"] == {
        "path": "model.safetensors",
        "size": len(weights),
        "sha256": sha256(weights).hexdigest(),
        "elsewhere": f"hf://{REPOSITORY}@{COMMIT}/model.safetensors",
        "header_sha256": sha256(head).hexdigest(),
    }
    assert "elsewhere" not in files["config.json"]
    assert manifest["layout"]["boundaries"] == [3, 31, 59]
    assert manifest["layout"]["fc_input_width"] == 3 * WIDTH
    assert any("the Hub's" in note for note in manifest["provenance"]["notes"])
    assert {method for method, _ in hub.sent("model.safetensors")} == {"GET"}
    assert all(asked.startswith("bytes=0-") for _, asked in hub.sent("model.safetensors"))


def test_an_import_offline_takes_the_cached_files(cached, dry_run, drafter):
    files = {one["path"]: one for one in manifest_of(dry_run("import-config", f"hf://{REPOSITORY}"))["files"]}
    assert files["model.safetensors"]["elsewhere"] == f"hf://{REPOSITORY}@{COMMIT}/model.safetensors"
    assert files["model.safetensors"]["sha256"] == sha256(drafter["model.safetensors"]).hexdigest()
    assert "elsewhere" not in files["config.json"]


def test_an_import_with_a_config_of_ones_own(hub, dry_run, tmp_path):
    own = CONFIG | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}}
    (tmp_path / "config.json").write_text(json.dumps(own))
    manifest = manifest_of(dry_run("import-config", "config.json", "--weights", f"hf://{REPOSITORY}"))
    assert manifest["layout"]["boundaries"] == [2, 3, 4]
    files = {file["path"]: file for file in manifest["files"]}
    assert files["config.json"]["sha256"] == sha256((tmp_path / "config.json").read_bytes()).hexdigest()
    assert len(files) == len(manifest["files"])
    assert any("not the repository's" in note for note in manifest["provenance"]["notes"])


def test_a_manifest_beside_the_weights_speaks(hub, dry_run):
    """It is a statement, not a file of the drafter, and so is neither listed nor lost."""
    said = {"schema": "drafters.manifest.v1", "draft": {"trained_context": 2048}}
    hub.files["drafters-manifest.json"] = json.dumps(said).encode()
    for command in ("publish", "import-config"):
        manifest = manifest_of(dry_run(command, f"hf://{REPOSITORY}"))
        assert manifest["draft"]["trained_context"] == 2048
        assert "drafters-manifest.json" not in {file["path"] for file in manifest["files"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("config.json",), "says nothing of the weights"),
        (("missing.json",), "does not exist"),
        ((".",), "is a directory"),
        (("config.json", "--weights", "org/name"), "no model on the Hub"),
        ((f"hf://{REPOSITORY}", "--weights", f"hf://{REPOSITORY}"), "both name a repository"),
    ],
)
def test_an_import_that_cannot_be(dry_run, tmp_path, arguments, message):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    done = dry_run("import-config", *arguments)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert message in error["message"]
    assert error["hint"]


def test_an_import_of_a_repository_without_weights(hub, dry_run):
    del hub.files["model.safetensors"]
    done = dry_run("import-config", f"hf://{REPOSITORY}")
    assert (done.returncode, "no safetensors weights" in done.stdout) == (2, True)


def test_an_import_of_weights_that_are_none(hub, dry_run):
    hub.files["model.safetensors"] = b"\x10\0\0\0\0\0\0\0 this is no header"
    done = dry_run("import-config", f"hf://{REPOSITORY}")
    assert done.returncode == 7
    assert "model.safetensors" in done.stdout


def test_a_hub_that_hangs_up_is_unreachable(dry_run, monkeypatch, tmp_path):
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "hub"), offline=False)
    for command in ("publish", "import-config"):
        assert dry_run(command, f"hf://{REPOSITORY}").returncode == 6


@pytest.fixture
def registry(drafters, target, tmp_path):
    """Runs a command on a registry of this test's own."""
    where = {"DRAFTERS_DATA": str(tmp_path / "data"), "DRAFTERS_CACHE": str(tmp_path / "cache")}

    def run(*arguments):
        more = ("--target", target, *NAMED[:-2]) if arguments[0] in {"publish", "import-config"} else ()
        return drafters(*arguments, *more, variables=where, cwd=tmp_path)

    return run


def test_what_stays_on_the_hub_is_shown_scrubbed_and_pulled(hub, registry, drafter, tmp_path):
    done = registry("import-config", f"hf://{REPOSITORY}")
    assert done.returncode == 0, done.stderr
    assert "drafters-manifest" not in done.stdout
    shown = registry("show", "kimi-eagle3@1.0.0")
    assert f"not kept here: hf://{REPOSITORY}@{COMMIT}/model.safetensors" in shown.stdout
    assert registry("fsck").returncode == 0
    stored = [
        os.path.getsize(os.path.join(at, one)) for at, _, names in os.walk(tmp_path / "data/blobs") for one in names
    ]
    assert sum(stored) < len(drafter["model.safetensors"]), "the registry keeps headers, not weights"
    pulled = registry("pull", "kimi-eagle3@1.0.0", "pulled")
    assert pulled.returncode == 0, pulled.stderr
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == drafter["model.safetensors"]


def test_weights_that_changed_on_the_hub_are_not_pulled(hub, registry, tmp_path):
    assert registry("import-config", f"hf://{REPOSITORY}").returncode == 0
    hub.files["model.safetensors"] = hub.files["model.safetensors"][:-1] + b"\x01"
    assert registry("pull", "kimi-eagle3@1.0.0", "pulled").returncode == 7
    assert not (tmp_path / "pulled" / "model.safetensors").exists()


def test_publishing_from_the_hub_stores_everything(hub, registry, drafter, tmp_path):
    done = registry("publish", f"hf://{REPOSITORY}")
    assert done.returncode == 0, done.stderr
    hub.files = {}
    assert registry("pull", "kimi-eagle3@1.0.0", "pulled").returncode == 0
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == drafter["model.safetensors"]


def test_a_digest_that_the_hub_states_is_believed_by_nobody(hub, registry):
    hub.stated["model.safetensors"] = (len(hub.files["model.safetensors"]), "0" * 64)
    done = registry("publish", f"hf://{REPOSITORY}")
    assert done.returncode == 7, done.stderr
    assert registry("show", "kimi-eagle3@1.0.0").returncode == 2
