"""What every test may use: the real command as a process of its own, and real databases and stores."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Profiles that tests derive are kept here, and those of whoever runs the tests stay out of them."""
    folder = str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAFTERS_CACHE", folder)
        yield folder


@pytest.fixture(scope="session")
def command() -> str:
    """The console script of the environment under test."""
    path = os.path.join(os.path.dirname(sys.executable), "drafters")
    assert os.access(path, os.X_OK), f"{path}: install the project first (make test does)"
    return path


@pytest.fixture
def drafters(command):
    """Runs `drafters ARGS...`; keywords as of `subprocess.run`, plus `variables` to set (None: to unset)."""

    def run(*arguments, variables=None, **keywords):
        environment = {k: v for k, v in os.environ.items() if k not in {"DRAFTERS_GUARD", "NO_COLOR"}}
        for name, value in (variables or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        keywords.setdefault("stdin", subprocess.DEVNULL)
        keywords.setdefault("timeout", 60)
        return subprocess.run(
            [command, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False, **keywords
        )

    return run


#: The two kinds of registry that its tests run on.
KINDS = ("sqlite-local", "postgresql-s3")


def _load(name):
    if name not in sys.modules:
        path = os.path.join(os.path.dirname(__file__), "registry", "servers.py")
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def servers():
    """The module that starts real servers."""
    return _load("registry_test_servers")


@pytest.fixture(scope="session")
def postgresql(servers):
    """URL of a running PostgreSQL server's first database."""
    # Not below pytest's own folder: another session of pytest closes that to the user whom PostgreSQL runs as.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder, servers.postgresql(os.path.join(folder, "data")) as url:
        yield url


@pytest.fixture(scope="session")
def s3(servers, tmp_path_factory):
    """Endpoint of a running S3 gateway; its credentials are in the environment."""
    with servers.seaweedfs(str(tmp_path_factory.mktemp("s3"))) as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in servers.s3_variables(endpoint).items():
            patch.setenv(name, value)
        yield endpoint


@pytest.fixture(params=KINDS)
def kind(request):
    """Which of the two."""
    return request.param


@pytest.fixture
def settings(kind, request, tmp_path):
    """Settings of an empty registry of that kind, its schema not yet made."""
    from drafter_registry.settings import Settings

    data = str(tmp_path / "data")
    if kind == "sqlite-local":
        return Settings(data=data)
    url, _ = request.getfixturevalue("postgresql"), request.getfixturevalue("s3")
    servers = request.getfixturevalue("servers")
    return Settings(data=data, database=servers.new_database(url), storage=f"s3://registry/{uuid.uuid4().hex}")


class Live:
    """A server: the `drafters serve` process, its URL, an admin's token, its log so far."""

    def __init__(self, process, url, token, log):
        self.process, self.url, self.token, self._log = process, url, token, log

    @property
    def headers(self):
        """What an admin sends."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def log(self):
        """Everything that it wrote to standard error."""
        with open(self._log, encoding="utf-8") as file:
            return file.read()

    def stop(self, number=signal.SIGTERM):
        """End it by a signal; returns its exit code (-9 after SIGKILL)."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def live_server(command, tmp_path_factory):
    """Starts servers: `live_server(settings, *options, variables={...})`.

    Several may be started on one registry, at once or one after the other; all know the first one's token.
    """
    running, tokens = [], {}

    def start(settings, *options, variables=None):
        folder = tmp_path_factory.mktemp("server")
        log, token_file = str(folder / "log"), str(folder / "token")
        wanted = {
            "DRAFTERS_DATA": settings.data,
            "DRAFTERS_DATABASE": settings.database,
            "DRAFTERS_STORAGE": settings.storage,
            "DRAFTERS_ANONYMOUS_READ": "1" if settings.anonymous_read else "0",
            "DRAFTERS_BLOB_MAX_BYTES": str(settings.blob_max_bytes),
            "DRAFTERS_GC_GRACE_SECONDS": str(settings.gc_grace_seconds),
            "DRAFTERS_UPLOAD_IDLE_SECONDS": str(settings.upload_idle_seconds),
            "DRAFTERS_CONFIG": "",
            **(variables or {}),
        }
        arguments = [command, "serve", "--port", "0", "--json", "--admin-token-file", token_file, *map(str, options)]
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                arguments,
                env={**os.environ, **wanted},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        running.append(process)
        line = process.stdout.readline()
        if not line:
            with open(log, encoding="utf-8") as file:
                raise RuntimeError(f"the server ended with {process.wait(60)}:\n{file.read()}")
        if os.path.exists(token_file):
            with open(token_file, encoding="utf-8") as file:
                tokens[settings.database_url] = file.read().strip()
        return Live(process, json.loads(line)["url"], tokens.get(settings.database_url, ""), log)

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        process.stdout.close()
