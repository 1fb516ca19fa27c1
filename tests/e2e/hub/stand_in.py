"""A Hub on the loopback that speaks the Hub's API, and what has the Hub's library ask it."""

from __future__ import annotations

import json
import re
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import small_drafter
from huggingface_hub import constants

REPOSITORY = "org/kimi-eagle3"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = small_drafter.CONFIG | {
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
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
