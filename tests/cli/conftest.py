"""A server that does what a test tells it, on this machine only."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

#: Importable for the tests, which in importlib mode can import no file beside them.
_PATH = os.path.join(os.path.dirname(__file__), "remote_answers.py")
_SPEC = importlib.util.spec_from_file_location("remote_answers", _PATH)
sys.modules["remote_answers"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["remote_answers"])


class Scripted:
    """Answers by a function of the request; keeps what it was asked."""

    def __init__(self):
        self.requests = []
        self.answer = lambda request: (404, {}, b"")
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

        def serve(handler):
            owner.serve(handler)

        for verb in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{verb}", serve)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def serve(self, handler):
        request = Request(handler)
        self.requests.append(request)
        answer = self.answer(request)
        if answer is None:  # cut
            handler.close_connection = True
            handler.connection.close()
            return
        status, headers, body = answer
        whole, body = (body, body) if isinstance(body, bytes) else body
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(whole)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
        if len(body) < len(whole):
            handler.close_connection = True

    def asked(self, method):
        """Paths of the requests of that method."""
        return [request.path for request in self.requests if request.method == method]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Request:
    """One request; `read` gives so many bytes of its body."""

    def __init__(self, handler):
        self.method, self.path = handler.command, handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.length = int(self.headers.get("content-length", 0))
        self._stream = handler.rfile

    def read(self, count=None):
        return self._stream.read(self.length if count is None else min(count, self.length))


@pytest.fixture
def scripted():
    server = Scripted()
    yield server
    server.close()


@pytest.fixture
def naps(monkeypatch):
    """Waits between tries, which take no time here: the seconds that were asked for."""
    from drafter_cli.client import http_client

    taken = []
    monkeypatch.setattr(http_client.time, "sleep", taken.append)
    return taken


@pytest.fixture
def remote(scripted, tmp_path):
    """Makes a client of that server: `remote(DRAFTERS_TOKEN="...")`."""
    from drafter_cli.client import configuration
    from drafter_cli.client.remote import Remote

    made = []

    def make(**variables):
        environment = {
            "HOME": str(tmp_path),
            "DRAFTERS_URL": scripted.url,
            "DRAFTERS_CACHE": str(tmp_path / "own-cache"),
            "DRAFTERS_TIMEOUT": "10",
            **variables,
        }
        made.append(Remote(configuration.read(None, environment)))
        return made[-1]

    yield make
    for one in made:
        one.close()
