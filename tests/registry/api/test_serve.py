"""`drafters serve` as a process: how it starts, what it refuses, how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time
from urllib.parse import urlsplit

import httpx2
import pytest


@pytest.fixture
def wire():
    """Sends bytes as they are to a server; gives the open socket."""
    opened = []

    def run(server, data):
        parts = urlsplit(server.url)
        connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
        opened.append(connection)
        connection.sendall(data)
        return connection

    yield run
    for connection in opened:
        connection.close()


def until(wanted, seconds=30):
    """Poll until something is true, and give it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = wanted()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def everything(connection):
    """All that comes until the other side hangs up."""
    parts = []
    while data := connection.recv(65536):
        parts.append(data)
    return b"".join(parts)


def test_it_serves_and_ends_in_order(server):
    assert httpx2.get(server.url + "/readyz").json()["ready"] is True
    answer = httpx2.get(server.url + "/v1/drafters", headers=server.headers)
    assert answer.status_code == 200
    assert "server" not in answer.headers
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["started", "request", "request", "stopped"]
    assert server.token not in server.log


def test_the_first_token_is_shown_once(settings, live_server, command, tmp_path):
    first = live_server(settings)
    assert first.token.startswith("drt_")
    first.stop()
    token_file = tmp_path / "again"
    second = live_server(settings, "--admin-token-file", token_file)
    assert not token_file.exists()
    assert not list(tmp_path.glob("again*"))
    assert second.token == first.token
    assert httpx2.get(second.url + "/v1/tokens", headers=first.headers).status_code == 200


@pytest.fixture
def kind(request):
    """One kind is enough where the database has no part in it."""
    return getattr(request, "param", "sqlite-local")


def test_without_a_file_the_token_is_printed(settings, command, drafters):
    process = subprocess.Popen(
        [command, "serve", "--port", "0", "--data", settings.data], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    lines = [process.stderr.readline().decode() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    url = lines[0].split()[-1]
    assert url.startswith("http://127.0.0.1:")
    token = lines[1].split()[-1]
    assert token.startswith("drt_")
    assert lines[2].split() == ["export", f"DRAFTERS_URL={url}", f"DRAFTERS_TOKEN={token}"]
    assert token not in rest


def test_the_tokens_file_is_its_owners_alone(settings, live_server, tmp_path):
    path = tmp_path / "token"
    live_server(settings, "--admin-token-file", path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_tokens_file_that_cannot_be_written_costs_no_token(settings, drafters, live_server):
    result = drafters("serve", "--port", "0", "--data", settings.data, "--admin-token-file", "/nowhere/token")
    assert result.returncode == 2, result.stderr
    assert live_server(settings).token


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "192.0.2.1"], "unencrypted"),
        (["--host", "example.invalid", "--plain-http"], "no address"),
        (["--port", "70000"], "--port"),
        (["--port", "x"], "--port"),
        (["--keyfile", "x"], "--certfile"),
        (["--certfile", "/nowhere"], "certificate"),
        (["--trusted-proxies", "everybody"], "--trusted-proxies"),
        (["--drain-seconds", "-1"], "--drain-seconds"),
        (["--database", "mysql://x/y"], "mysql"),
    ],
)
def test_what_it_refuses_to_start_with(settings, drafters, options, words):
    arguments = [*options, *([] if "--port" in options else ["--port", "0"])]
    result = drafters("serve", "--data", settings.data, *arguments, variables={"DRAFTERS_CONFIG": None})
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_taken_port_and_another_schema_are_refused(settings, live_server, drafters):
    from sqlalchemy import text

    from drafter_registry.service.open import close, open_database

    server = live_server(settings)
    port = urlsplit(server.url).port
    result = drafters("serve", "--data", settings.data, "--port", port)
    assert result.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    server.stop()
    database = open_database(settings, create=False)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'drafters_9999'"))
    close(type("Registry", (), {"database": database}))
    result = drafters("serve", "--data", settings.data, "--port", "0")
    assert result.returncode == 6
    assert "drafters_9999" in result.stderr


def test_running_requests_are_finished_and_readiness_goes_first(settings, live_server, wire):
    server = live_server(settings, "--drain-seconds", "2")
    place = httpx2.post(server.url + "/v1/uploads", headers=server.headers).headers["location"]
    head = f"PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nContent-Length: 8\r\n\r\n"
    running = wire(server, head.encode() + b"abcd")
    until(lambda: "drafters_requests_in_flight 2.0" in httpx2.get(server.url + "/metrics").text)
    server.process.send_signal(signal.SIGTERM)
    until(lambda: httpx2.get(server.url + "/readyz").status_code == 503)
    assert httpx2.get(server.url + "/readyz").json()["checks"]["process"] == "draining"

    def refused():
        try:
            httpx2.get(server.url + "/healthz")
        except httpx2.TransportError:
            return True
        return False

    until(refused)
    assert server.process.poll() is None
    running.sendall(b"efgh")
    answer = everything(running)
    assert answer.startswith(b"HTTP/1.1 202")
    assert b'"offset":8' in answer
    assert server.process.wait(60) == 0


@pytest.mark.parametrize("kind", ["sqlite-local", "postgresql-s3"], indirect=True)
def test_what_arrived_before_a_cut_is_kept(server, wire):
    data = os.urandom(3 * (1 << 20) + 17)
    with httpx2.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
        place = client.post("/v1/uploads").headers["location"]
        head = f"PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        connection = wire(
            server, head.encode() + f"Content-Length: {len(data)}\r\n\r\n".encode() + data[: 2 * (1 << 20) + 5]
        )
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        offset = until(lambda: client.get(place).json()["offset"])
        assert 0 < offset <= 2 * (1 << 20) + 5
        rest = {"content-range": f"{offset}-{len(data) - 1}"}
        assert client.patch(place, content=data[offset:], headers=rest).status_code == 202
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        assert client.put(f"{place}?digest={digest}").status_code == 201
        assert client.get(f"/v1/blobs/{digest}").content == data


def test_headers_without_end_and_nonsense_are_refused_by_the_parser(server, wire):
    endless = wire(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n")

    def flood():
        try:
            for number in range(5000):
                endless.sendall(b"X-%d: %s\r\n" % (number, b"y" * 100))
        except OSError:
            pass

    sender = threading.Thread(target=flood)
    sender.start()
    try:
        answer = endless.recv(4096)
    finally:
        sender.join(60)
    assert b" 431 " in answer.split(b"\r\n")[0]
    assert b"HEADERS_TOO_LARGE" in answer
    answer = everything(wire(server, b"nonsense\r\n\r\n"))
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"application/problem+json" in answer
    assert httpx2.get(server.url + "/healthz").status_code == 200


def test_forwarded_addresses_are_believed_from_named_proxies_only(settings, live_server):
    claimed = {"x-forwarded-for": "203.0.113.9", "x-request-id": "who"}
    plain = live_server(settings)
    httpx2.get(plain.url + "/healthz", headers=claimed)
    behind = live_server(settings, "--trusted-proxies", "10.0.0.0/8", "127.0.0.0/8")
    httpx2.get(behind.url + "/healthz", headers=claimed)
    for server, address in ((plain, "127.0.0.1"), (behind, "203.0.113.9")):
        server.stop()
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        assert [line["address"] for line in lines if line.get("request_id") == "who"] == [address]


def test_with_a_certificate_it_speaks_tls_alone(settings, live_server, tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes a certificate with openssl, which is not here")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    server = live_server(settings, "--certfile", cert, "--keyfile", key)
    assert server.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(cert))
    assert httpx2.get(server.url + "/v1/drafters", headers=server.headers, verify=trusting).status_code == 200
    with pytest.raises(httpx2.TransportError):
        httpx2.get(server.url.replace("https", "http") + "/healthz")


def test_memory_stays_flat_while_a_large_upload_comes(settings, live_server):
    server = live_server(settings)

    def peak():
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

    piece = os.urandom(1 << 20)
    digest = hashlib.sha256()

    def pieces(count):
        for _ in range(count):
            digest.update(piece)
            yield piece

    with httpx2.Client(base_url=server.url, headers=server.headers, timeout=120) as client:
        place = client.post("/v1/uploads").headers["location"]
        client.patch(place, content=pieces(8))
        before = peak()
        assert client.patch(place, content=pieces(192)).json()["offset"] == 200 * (1 << 20)
        assert client.put(f"{place}?digest=sha256:{digest.hexdigest()}").status_code == 201
        with client.stream("GET", f"/v1/blobs/sha256:{digest.hexdigest()}") as response:
            received = sum(len(data) for data in response.iter_raw())
        assert received == 200 * (1 << 20)
        assert peak() - before < 48 * 1024
