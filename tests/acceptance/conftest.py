"""Engines that answer as the real ones did: payloads recorded from releases, served on the loopback interface."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Stub:
    """Serves whatever a test puts into `answers`, by path.

    An answer is a document, bytes, a text, `ENDLESS`, (status, answer) or (status, answer, headers); a list holds one
    for each time it is asked, the last for ever. What is not there is not found.
    """

    ENDLESS = object()

    def __init__(self):
        self.answers, self.asked, self.headers = {}, [], []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                stub.asked.append(self.path)
                stub.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, answer, headers = stub.answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if answer is Stub.ENDLESS:
                    self.end_headers()
                    with contextlib.suppress(OSError):
                        while True:
                            self.wfile.write(b"x" * 100)
                    return
                data = answer if isinstance(answer, bytes) else str(answer).encode()
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_words):
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def answer(self, path):
        """Status, body and headers for a path."""
        found = self.answers.get(path, (404, b"Not Found"))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        status, answer, headers = (*found, {})[:3] if isinstance(found, tuple) else (200, found, {})
        return status, json.dumps(answer) if isinstance(answer, dict) else answer, headers

    def close(self):
        """Stop; twice is once."""
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()


@pytest.fixture
def stub():
    """An engine."""
    made = Stub()
    yield made
    made.close()


@pytest.fixture
def other_stub():
    """Another one."""
    made = Stub()
    yield made
    made.close()


@pytest.fixture(scope="session")
def observed():
    """The module `observed`: time that is not waited for, and what engines say."""
    path = os.path.join(os.path.dirname(__file__), "observed.py")
    spec = importlib.util.spec_from_file_location("observed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
