"""What only a bucket can do wrong: a gateway that is gone, refuses, is full, or names that are set up wrongly."""

import http.server
import threading

import pytest

from drafter_registry.blobs.open import open_store
from drafter_registry.errors import InvalidError, StorageFullError, UnavailableError

CALLS = {
    "size": lambda store, digest: store.size(digest),
    "read": lambda store, digest: store.read(digest, 0, 1),
    "stream": lambda store, digest: list(store.stream(digest, 0, 1)),
    "delete": lambda store, digest: store.delete(digest),
    "blobs": lambda store, digest: list(store.blobs()),
    "append": lambda store, digest: store.append("0" * 32, 0, b"x"),
    "ingest": lambda store, digest: store.ingest("0" * 32, [b"x"], digest),
    "commit": lambda store, digest: store.commit("0" * 32, 1, digest),
    "discard": lambda store, digest: store.discard("0" * 32),
    "probe": lambda store, digest: store.probe(),
}


@pytest.fixture
def gateway(monkeypatch):
    """A gateway that gives one answer to everything; None: nobody listens."""
    servers = []

    def start(status, body=b""):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *arguments):
                pass

        for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.answer)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        return point(server.server_address[1])

    def point(port):
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        return open_store("s3://bucket/prefix")

    start.at = point
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def told(error):
    text = f"{error.value} {error.value.hint}"
    assert "the-key" not in text
    assert "the-secret" not in text
    assert "127.0.0.1" not in text
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    return text


@pytest.mark.parametrize("call", CALLS)
def test_a_gateway_that_is_gone(gateway, call, digest_of):
    with pytest.raises(UnavailableError) as error:
        CALLS[call](gateway.at(1), digest_of(b"x"))
    assert "cannot be reached" in told(error)


@pytest.mark.parametrize("call", ["size", "read", "append", "ingest", "probe"])
def test_a_gateway_that_refuses(gateway, call, digest_of):
    with pytest.raises(UnavailableError) as error:
        CALLS[call](gateway(403), digest_of(b"x"))
    assert "credentials" in told(error)


def test_a_gateway_that_is_full(gateway, digest_of):
    store = gateway(507, b"<Error><Code>InsufficientStorage</Code></Error>")
    with pytest.raises(StorageFullError) as error:
        store.ingest("0" * 32, [b"x"], digest_of(b"x"))
    told(error)


def test_a_gateway_with_a_fault(gateway, digest_of):
    with pytest.raises(UnavailableError) as error:
        CALLS["ingest"](gateway(501), digest_of(b"x"))
    assert "HTTP 501" in told(error)


def test_a_bucket_that_is_missing(gateway, digest_of):
    store = gateway(404, b"<Error><Code>NoSuchBucket</Code></Error>")
    for call in ("blobs", "probe", "append"):
        with pytest.raises(UnavailableError) as error:
            CALLS[call](store, digest_of(b"x"))
        assert "no such bucket" in told(error)


def test_plain_http_must_be_allowed(gateway, monkeypatch):
    gateway.at(1)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(UnavailableError, match="plain http") as error:
        open_store("s3://bucket/prefix").probe()
    assert "AWS_ALLOW_HTTP" in error.value.hint


@pytest.mark.parametrize("url", ["{}", "file://{}", "file://localhost{}"])
def test_directories_by_path_and_url(tmp_path, url, digest_of):
    store = open_store(url.format(tmp_path / "a b").replace(" ", "%20" if url != "{}" else " "))
    store.commit("0" * 32, 0, digest_of(b""))
    assert (tmp_path / "a b" / "blobs").is_dir()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host/x",
        "http://host/x",
        "memory://x",
        "file://elsewhere/x",
        "s3://",
        "s3:///prefix",
        "s3://bucket/../x",
        "s3://key:secret@bucket/x",
        "s3://bucket/x?aws_secret_access_key=secret",
    ],
)
def test_urls_that_name_no_store(url):
    with pytest.raises(InvalidError) as error:
        open_store(url)
    assert "secret" not in f"{error.value} {error.value.hint}"


def test_the_other_clouds_are_opened_by_their_environment(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    for url in ("az://container/prefix", "gs://bucket/prefix"):
        store = open_store(url)
        assert "c2VjcmV0" not in repr(store)
