"""`drafters pull`, from a registry in its own process and from a real server."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time

import pytest

from drafter_cli.errors import (
    EXIT_CONFLICT,
    EXIT_INTEGRITY,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

#: Rows of a head that makes weights of 200 MB.
LARGE = 1_600_000
FILES = "/v1/drafters/tiny/versions/1.0/files/"


@pytest.fixture
def stocked(shop):
    """The registry with tiny@1.0 in it, @prod."""
    return stock(shop)


def stock(shop, **more):
    done = shop.publish(shop.drafter(**more), "--alias", "prod")
    assert done.returncode == EXIT_OK, done.stderr
    return shop


def content(directory):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), directory)] = file.read()
    return found


def pulled(shop, *arguments, **keywords):
    done = shop.run("pull", *arguments, **keywords)
    assert done.returncode == EXIT_OK, done.stderr
    return done.stdout.removesuffix("\n")


def test_a_pulled_directory_holds_what_was_published(stocked):
    directory = pulled(stocked, "tiny@prod")
    found = content(directory)
    manifest = found.pop("drafters-manifest.json")
    assert found == content(os.path.join(stocked.folder, "drafter"))
    assert os.path.basename(directory) == hashlib.sha256(manifest).hexdigest()
    inspected = json.loads(stocked.run("inspect", directory, "--target", stocked.target, "--json").stdout)
    assert inspected["method"] == "EAGLE3"
    for reference in ("tiny@1.0", f"tiny@sha256:{os.path.basename(directory)}"):
        assert pulled(stocked, reference) == directory


def test_what_was_there_is_not_fetched_and_that_is_said(served_shop):
    shop = stock(served_shop)
    first = shop.run("pull", "tiny@1.0")
    assert "fetched 2 files" in first.stderr
    asked = len(shop.requests("GET", FILES))
    assert asked == 2
    again = json.loads(pulled(shop, "tiny@1.0", "--json"))
    assert (again["fetched_files"], again["fetched_bytes"], again["version"]) == (0, 0, "1.0")
    assert "all of it was there" in shop.run("pull", "tiny@1.0").stderr
    assert len(shop.requests("GET", FILES)) == asked


def test_a_directory_of_one_s_own_gets_copies(stocked):
    place = os.path.join(stocked.folder, "mine")
    assert pulled(stocked, "tiny@1.0", place) == place
    assert set(content(place)) == {"config.json", "model.safetensors", "drafters-manifest.json"}
    with open(os.path.join(place, "config.json"), "a", encoding="utf-8") as file:
        file.write("\n")
    cached = pulled(stocked, "tiny@1.0")
    assert content(cached)["config.json"] != content(place)["config.json"]
    os.remove(os.path.join(place, "config.json"))
    assert pulled(stocked, "tiny@1.0", place) == place
    assert content(place) == content(cached)


def test_other_content_is_never_overwritten_and_all_of_it_is_told(own_shop, tmp_path):
    stock(own_shop)
    place = tmp_path / "mine"
    place.mkdir()
    theirs = {"config.json": b"mine", "other.safetensors": b"x", "README.md": b"mine"}
    for name, data in theirs.items():
        (place / name).write_bytes(data)
    done = own_shop.run("pull", "tiny@1.0", place)
    assert done.returncode == EXIT_CONFLICT
    assert done.stdout == ""
    assert "config.json" in done.stderr
    assert "other.safetensors" in done.stderr
    assert "README.md" not in done.stderr, "no engine reads it"
    assert content(place) == theirs


def test_a_link_in_the_way_is_not_followed(own_shop, tmp_path):
    directory = own_shop.drafter()
    os.mkdir(os.path.join(directory, "sub"))
    with open(os.path.join(directory, "sub", "vocab.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    stock(own_shop)
    outside, place = tmp_path / "outside", tmp_path / "mine"
    outside.mkdir()
    place.mkdir()
    os.symlink(outside, place / "sub")
    assert own_shop.run("pull", "tiny@1.0", place).returncode == EXIT_CONFLICT
    assert not list(outside.iterdir())


def test_only_some_files(stocked):
    directory = pulled(stocked, "tiny@1.0", "--files", "*.json")
    assert set(content(directory)) == {"config.json", "drafters-manifest.json"}
    done = stocked.run("pull", "tiny@1.0", "--files", "*.txt")
    assert done.returncode == EXIT_USAGE
    assert "config.json" in done.stderr


def test_without_its_server_the_cache_answers_for_versions_but_not_for_aliases(served_shop):
    shop = stock(served_shop)
    directory = pulled(shop, "tiny@prod")
    shop.server.stop()
    for reference in ("tiny@1.0", f"tiny@sha256:{os.path.basename(directory)}"):
        done = shop.run("pull", reference)
        assert (done.returncode, done.stdout) == (EXIT_OK, directory + "\n")
        assert "from the cache" in done.stderr
    for reference in ("tiny@prod", "tiny@1.1", "other@1.0"):
        assert shop.run("pull", reference).returncode == EXIT_UNREACHABLE


@pytest.mark.parametrize("reference", ["tiny", "tiny@", "tiny@9", "tiny@nightly", "other@1.0", "../tiny@1.0"])
def test_what_is_not_there_is_told(stocked, reference):
    done = stocked.run("pull", reference)
    assert done.returncode == EXIT_USAGE
    assert done.stdout == ""


def test_a_yanked_version_is_pulled_by_its_exact_name_with_a_warning(stocked):
    stocked.run("alias", "rm", "tiny@prod")
    yanked = stocked.run("yank", "tiny@1.0", "--why", "wrong layers")
    assert yanked.returncode == EXIT_OK, yanked.stderr
    done = stocked.run("pull", "tiny@1.0")
    assert done.returncode == EXIT_OK, done.stderr
    assert "yanked: wrong layers" in done.stderr


def blob(shop, path):
    """The registry's own file of a drafter's file."""
    with open(os.path.join(shop.folder, "drafter", path), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    found = [os.path.join(place, digest) for place, _, names in os.walk(shop.data) if digest in names]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("harm", ["flipped", "short"])
def test_damaged_bytes_are_detected_and_not_kept(stocked, harm):
    path = blob(stocked, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        if harm == "short":
            file.truncate(100_000)
        else:
            file.seek(150_000)
            file.write(b"x")
    done = stocked.run("pull", "tiny@1.0")
    assert done.returncode == (EXIT_INTEGRITY if harm == "flipped" else done.returncode) != EXIT_OK
    assert done.stdout == ""
    assert not [name for name in content(stocked.cache) if name.endswith("drafters-manifest.json")]
    if harm == "flipped":
        assert not [name for name in content(stocked.cache) if name.endswith(os.path.basename(path) + ".part")]


def test_what_is_damaged_is_mended_by_publishing_the_same_files_again(stocked):
    path = blob(stocked, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(150_000)
        file.write(b"x")
    done = stocked.publish(os.path.join(stocked.folder, "drafter"), "--repair", "--json")
    assert done.returncode == EXIT_OK, done.stderr
    assert json.loads(done.stdout)["created"] is False
    assert (
        content(pulled(stocked, "tiny@1.0"))["model.safetensors"]
        == content(stocked.folder + "/drafter")["model.safetensors"]
    )


def start(shop, command, *arguments):
    environment = {name: value for name, value in {**os.environ, **shop.variables}.items() if value is not None}
    return subprocess.Popen(
        [command, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def partial(shop):
    folder = os.path.join(shop.cache, "partial")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, EXIT_INTERRUPTED)])
def test_a_pull_that_was_cut_goes_on(served_shop, command, number, code):
    shop = stock(served_shop, vocabulary=LARGE)
    size = os.path.getsize(os.path.join(shop.folder, "drafter", "model.safetensors"))
    client = start(shop, command, "pull", "tiny@1.0")
    deadline = time.monotonic() + 60
    while partial(shop) < 50_000_000:
        assert time.monotonic() < deadline
        assert client.poll() is None, client.communicate()
        time.sleep(0.002)
    client.send_signal(number)
    client.communicate(timeout=60)
    assert client.returncode == code
    kept = partial(shop)
    assert kept >= 50_000_000
    done = shop.run("pull", "tiny@1.0", "--json")
    assert done.returncode == EXIT_OK, done.stderr
    sent = shop.requests("GET", FILES)[-1]["sent"]
    assert sent <= size - kept
    directory = json.loads(done.stdout)["directory"]
    assert os.path.getsize(os.path.join(directory, "model.safetensors")) == size
    assert partial(shop) == 0


def test_two_processes_fetch_the_same_drafter_once(served_shop, command):
    shop = stock(served_shop, vocabulary=400_000)
    clients = [start(shop, command, "pull", "tiny@1.0") for _ in range(3)]
    answers = [client.communicate(timeout=60) for client in clients]
    assert [client.returncode for client in clients] == [EXIT_OK] * 3, answers
    assert len({answer[0] for answer in answers}) == 1
    assert len(shop.requests("GET", FILES)) == 2
