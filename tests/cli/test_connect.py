"""Which registry a command talks to, and what it says where a library is not installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from drafter_cli.client.connect import OPTIONS, connect, local_actor, missing_extra
from drafter_cli.commandline import Command, parse
from drafter_cli.errors import EXIT_USAGE, UsageError

COMMAND = Command("list", "", "", options=OPTIONS)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("DRAFTERS_", "XDG_")) and name != "DRAFTERS_CACHE":
            monkeypatch.delenv(name)
    return tmp_path


def name_of(*argv):
    backend = connect(parse(COMMAND, list(argv)), create=True)
    backend.close()
    return backend.name


def test_without_a_url_the_registry_is_in_this_process(home):
    assert name_of() == str(home / ".local/share/drafter-registry")
    assert name_of("--data", str(home / "d")) == str(home / "d")
    assert os.path.exists(home / "d" / "registry.db")


def test_a_url_means_a_server(home, monkeypatch):
    assert name_of("--url", "http://localhost:1/") == "http://localhost:1"
    monkeypatch.setenv("DRAFTERS_URL", "http://localhost:2")
    assert name_of() == "http://localhost:2"
    assert name_of("--url", "") == str(home / ".local/share/drafter-registry")


def test_an_option_for_a_registry_in_this_process_beats_a_url_of_the_environment(home, monkeypatch):
    monkeypatch.setenv("DRAFTERS_URL", "http://localhost:2")
    assert name_of("--data", str(home / "d")) == str(home / "d")
    with pytest.raises(UsageError, match="--url and --data name two registries"):
        name_of("--url", "http://localhost:1", "--data", str(home / "d"))


def test_a_configuration_that_others_can_read_is_warned_of(home, capsys):
    path = home / ".config" / "drafter-registry" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('token = "drg_x"\nurl = "http://localhost:1"\n')
    path.chmod(0o644)
    assert name_of() == "http://localhost:1"
    told = capsys.readouterr().err
    assert "chmod 600" in told
    assert "drg_x" not in told


def test_whoever_runs_the_command_is_named():
    actor = local_actor()
    assert actor.name.startswith("local:")
    assert actor.scopes == ("admin",)


WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from drafter_cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(("missing", "argv", "extra"), [
    ("httpx2", ["pull", "tiny@1.0", "--url", "http://localhost:1"], "client"),
    ("sqlalchemy", ["pull", "tiny@1.0", "--data", "d"], "server"),
])  # fmt: skip
def test_a_missing_extra_is_named(home, missing, argv, extra):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *argv], capture_output=True, text=True, check=False, timeout=60,
        cwd=home,
    )  # fmt: skip
    assert done.returncode == EXIT_USAGE
    assert f"pip install 'drafter-registry[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_client_alone_needs_no_part_of_the_server(home):
    without = "sqlalchemy,fastapi,obstore,alembic,psycopg"
    argv = ["pull", "tiny@1.0", "--url", "http://localhost:1"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, without, *argv], capture_output=True, text=True, check=False, timeout=60
    )
    assert "cannot be reached" in done.stderr


def test_a_fault_of_this_program_is_not_taken_for_a_missing_extra():
    error = ModuleNotFoundError("no", name="drafter_cli.nothing")
    with pytest.raises(ModuleNotFoundError):
        missing_extra("x", "server", error)
