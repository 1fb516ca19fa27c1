"""What a registry answers over HTTP: a refusal, and the routes of an upload."""

from __future__ import annotations

import hashlib

import msgspec

from drafter_registry import errors
from drafter_registry.documents import PROBLEM_TYPE, Problem, UploadState


def problem(kind, **fields):
    """The answer that is an error of that class."""
    document = Problem(type="urn:x", title="t", status=kind.status, detail="what happened", code=kind.code, **fields)
    return kind.status, {"Content-Type": PROBLEM_TYPE}, msgspec.json.encode(document)


class Uploads:
    """The upload routes, kept in memory; `cuts` are the PATCHes that lose their connection after so many bytes."""

    def __init__(self, cuts=(), lost_finish=False):
        self.cuts, self.lost_finish = list(cuts), lost_finish
        self.sessions, self.blobs, self.sent = {}, {}, 0

    def __call__(self, request):
        path, _, query = request.path.partition("?")
        key = path.rpartition("/")[2]
        if path.startswith("/v1/blobs/"):
            return (200 if key in self.blobs else 404), {}, b""
        if request.method == "POST":
            key = f"u{len(self.sessions)}"
            self.sessions[key] = bytearray()
        elif key not in self.sessions:
            request.read()
            return 404, {}, b""
        return getattr(self, request.method.lower())(request, key, query)

    def state(self, key, status=200):
        offset = len(self.sessions[key])
        headers = {"Range": f"0-{offset - 1}"} if offset else {}
        return status, headers, msgspec.json.encode(UploadState(id=key, offset=offset))

    def post(self, request, key, query):
        return self.state(key, 202)

    def get(self, request, key, query):
        return self.state(key)

    def patch(self, request, key, query):
        start = int(request.headers["content-range"].partition("-")[0])
        if start != len(self.sessions[key]):
            request.read()
            return 416, {}, b""
        cut = self.cuts.pop(0) if self.cuts else None
        data = request.read(cut)
        self.sent += len(data)
        self.sessions[key] += data
        return self.state(key, 202) if cut is None else None

    def put(self, request, key, query):
        data = bytes(self.sessions.pop(key)) + request.read()
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        if query != "digest=" + digest.replace(":", "%3A"):
            self.sessions[key] = bytearray(data)
            return problem(errors.DigestError)
        self.blobs[digest] = data
        return None if self.lost_finish else (201, {}, b"{}")

    def delete(self, request, key, query):
        del self.sessions[key]
        return 204, {}, b""
