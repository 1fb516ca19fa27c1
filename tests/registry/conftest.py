"""The two kinds of registry that everything here runs on: SQLite with a directory, PostgreSQL with S3."""

from __future__ import annotations

import importlib.util
import os
import sys
import uuid

import pytest

KINDS = ("sqlite-local", "postgresql-s3")


def _load(name):
    if name not in sys.modules:
        path = os.path.join(os.path.dirname(__file__), "servers.py")
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def servers():
    """The module that starts real servers."""
    return _load("registry_test_servers")


@pytest.fixture(scope="session")
def postgresql(servers, tmp_path_factory):
    """URL of a running PostgreSQL server's first database."""
    with servers.postgresql(str(tmp_path_factory.mktemp("pg"))) as url:
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
