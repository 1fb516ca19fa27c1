"""Settings come from option, environment, file or default, in this order, and say which."""

from __future__ import annotations

import os

import pytest

from drafter_cli.client import configuration
from drafter_cli.client.configuration import without_password
from drafter_cli.client.connect import OPTIONS
from drafter_cli.commandline import Command, parse
from drafter_cli.errors import UsageError

COMMAND = Command("list", "", "", options=OPTIONS)
TOKEN = "drg_" + "secret" * 3


def write_config(home, text, mode=0o600):
    folder = home / ".config" / "drafter-registry"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def read(home, *argv, **variables):
    return configuration.read(parse(COMMAND, list(argv)), {"HOME": str(home), **variables})


def test_an_option_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path):
    default = read(tmp_path).get("url")
    assert (default.value, default.source) == ("", "default")
    path = write_config(tmp_path, 'url = "https://file"\n')
    assert read(tmp_path).get("url").source == f"file {path}"
    assert read(tmp_path).value("url") == "https://file"
    by_environment = read(tmp_path, DRAFTERS_URL="https://environment").get("url")
    assert (by_environment.value, by_environment.source) == ("https://environment", "environment DRAFTERS_URL")
    by_option = read(tmp_path, "--url", "https://option", DRAFTERS_URL="https://environment").get("url")
    assert (by_option.value, by_option.source) == ("https://option", "option --url")


def test_an_empty_option_turns_off_what_the_environment_says(tmp_path):
    assert read(tmp_path, "--url", "", DRAFTERS_URL="https://environment").value("url") == ""


def test_defaults_are_below_the_user_s_own_directories(tmp_path):
    assert read(tmp_path).value("data") == str(tmp_path / ".local/share/drafter-registry")
    assert read(tmp_path).value("cache") == str(tmp_path / ".cache/drafter-registry")
    moved = read(tmp_path, XDG_DATA_HOME="/data", XDG_CACHE_HOME="/cache")
    assert moved.value("data") == "/data/drafter-registry"
    assert moved.value("cache") == "/cache/drafter-registry"


def test_a_file_can_be_named_and_must_then_be_there(tmp_path):
    named = tmp_path / "other.toml"
    with pytest.raises(UsageError, match="does not exist"):
        read(tmp_path, DRAFTERS_CONFIG=str(named))
    named.write_text("timeout = 5\nanonymous_read = true\n")
    found = read(tmp_path, DRAFTERS_CONFIG=str(named))
    assert (found.value("timeout"), found.value("anonymous_read")) == ("5", "1")
    assert found.file == str(named)


def test_everything_wrong_in_the_file_is_told_at_once_with_what_was_meant(tmp_path):
    write_config(tmp_path, 'ulr = "x"\nstorrage = "y"\ntimeout = [1]\n')
    with pytest.raises(UsageError) as told:
        read(tmp_path)
    for part in ("'ulr' is not known", "did you mean url?", "did you mean storage?", "timeout must be"):
        assert part in told.value.message


def test_a_broken_file_is_refused_without_saying_what_is_in_it(tmp_path):
    write_config(tmp_path, f'token = "{TOKEN}\n')
    with pytest.raises(UsageError, match="not TOML") as told:
        read(tmp_path)
    assert TOKEN not in told.value.message


@pytest.mark.parametrize(("text", "warned"), [
    (f'token = "{TOKEN}"', True),
    ('database = "postgresql://me:hunter2@host/db"', True),
    ('database = "postgresql://me@host/db"', False),
    ('url = "https://x"', False),
])  # fmt: skip
def test_a_secret_that_others_can_read_is_warned_of(tmp_path, text, warned):
    path = write_config(tmp_path, text + "\n", 0o640)
    assert bool(read(tmp_path).warnings) is warned
    assert all(path in warning and TOKEN not in warning for warning in read(tmp_path).warnings)
    os.chmod(path, 0o600)
    assert not read(tmp_path).warnings


def test_secrets_are_not_shown(tmp_path):
    found = read(tmp_path, DRAFTERS_TOKEN=TOKEN, DRAFTERS_DATABASE="postgresql://me:hunter2@host/db")
    assert found.get("token").shown == "(set)"
    assert found.get("database").shown == "postgresql://me:***@host/db"
    assert TOKEN not in repr(found) + str(found)
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize("option", ["--url", "--database", "--storage"])
def test_a_password_on_the_command_line_is_refused(tmp_path, option):
    with pytest.raises(UsageError, match=f"{option} holds a password") as told:
        read(tmp_path, option, "postgresql://me:hunter2@host/db")
    assert "hunter2" not in told.value.message + told.value.hint


@pytest.mark.parametrize("text", ["", "/a/b:c@d", "s3://bucket/a:b@c", "https://host:80/x", "sqlite:////a:b"])
def test_what_is_no_password_stays(text):
    assert without_password(text) == text


def test_a_token_s_file_is_read_and_the_more_specific_one_wins(tmp_path):
    file, other = tmp_path / "token", tmp_path / "other"
    file.write_text(TOKEN + "\n")
    other.write_text("drg_other\n")
    assert configuration.read_token(read(tmp_path)) == ""
    assert configuration.read_token(read(tmp_path, DRAFTERS_TOKEN_FILE=str(file))) == TOKEN
    by_option = read(tmp_path, "--token-file", str(other), DRAFTERS_TOKEN=TOKEN)
    assert configuration.read_token(by_option) == "drg_other"
    both = read(tmp_path, DRAFTERS_TOKEN_FILE=str(file), DRAFTERS_TOKEN=TOKEN + "2")
    assert configuration.read_token(both) == TOKEN + "2"
    write_config(tmp_path, 'token = "drg_filed"\n')
    assert configuration.read_token(read(tmp_path, DRAFTERS_TOKEN_FILE=str(file))) == TOKEN


def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(tmp_path):
    with pytest.raises(UsageError, match="signs that no token has") as told:
        configuration.read_token(read(tmp_path, DRAFTERS_TOKEN=TOKEN + "\nEvil: x"))
    assert TOKEN not in told.value.message
    with pytest.raises(UsageError, match="cannot be read"):
        configuration.read_token(read(tmp_path, DRAFTERS_TOKEN_FILE=str(tmp_path / "none")))


def test_a_registry_in_this_process_gets_every_setting(tmp_path):
    write_config(tmp_path, "gc_grace_seconds = 60\nanonymous_read = true\n")
    found = configuration.registry_settings(read(tmp_path, "--data", "/d", DRAFTERS_STORAGE="s3://b/p"))
    assert (found.data, found.storage, found.gc_grace_seconds, found.anonymous_read) == ("/d", "s3://b/p", 60, True)


def test_every_option_that_all_registry_commands_share_is_a_setting():
    settings = {key.option for key in configuration.KEYS if key.option}
    assert settings == {option.name for option in OPTIONS}
    assert not any(key.secret and key.option for key in configuration.KEYS)
