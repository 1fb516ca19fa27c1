"""Opening a registry: made if it is not there, refused if it is another one, by several processes at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import msgspec
import pytest
from sqlalchemy import text

from drafter_registry.errors import InvalidError, SchemaError
from drafter_registry.service.open import close, open_database, open_registry
from drafter_registry.settings import Settings


def test_a_new_one_is_made_and_can_be_opened_again(settings):
    for create in (True, True, False):
        registry = open_registry(settings, create=create)
        assert registry.settings == settings
        with registry.database.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM versions")).scalar() == 0
        registry.blobs.probe()
        close(registry)


def test_only_its_owner_may_look_into_a_new_directory(settings):
    close(open_registry(settings))
    assert stat.S_IMODE(os.stat(settings.data).st_mode) == 0o700


def test_a_directory_that_is_there_keeps_its_mode(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o750)
    close(open_registry(Settings(data=str(folder))))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_nothing_is_made_unless_asked(tmp_path):
    data = tmp_path / "nowhere"
    with pytest.raises(SchemaError, match="there is no registry at"):
        open_registry(Settings(data=str(data)), create=False)
    assert not data.exists()


def test_an_empty_database_is_not_filled_unless_asked(settings):
    database = open_database(settings)
    with database.read() as connection:
        connection.execute(text("SELECT 1"))
    database.close()
    with pytest.raises(SchemaError, match="is empty"):
        open_registry(settings, create=False)
    close(open_registry(settings))


def test_a_newer_one_is_refused_before_anything_is_made(settings):
    registry = open_registry(settings)
    with registry.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'drafters_9999'"))
    close(registry)
    elsewhere = msgspec.structs.replace(settings, storage=os.path.join(settings.data, "blobs-not-made"))
    with pytest.raises(SchemaError, match="too old"):
        open_registry(elsewhere)
    assert not os.path.exists(elsewhere.storage)


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for settings in (
        Settings(data=str(tmp_path / "file" / "data")),
        Settings(data=str(tmp_path), database=f"sqlite:///{tmp_path}/file/x/r.db"),
    ):
        with pytest.raises(InvalidError, match="cannot be made: Not a directory"):
            open_registry(settings)


PROGRAM = """
import sys, msgspec
from drafter_registry.service.open import close, open_registry
from drafter_registry.settings import Settings
registry = open_registry(msgspec.json.decode(sys.argv[1], type=Settings))
close(registry)
"""


def test_processes_that_open_a_new_one_at_once_all_succeed(settings):
    program = [sys.executable, "-c", PROGRAM, msgspec.json.encode(settings).decode()]
    started = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert errors == [""] * 4
    close(open_registry(settings, create=False))
