"""`drafters publish`, on a registry in its own process and on a real server."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

from drafter_cli.errors import (
    EXIT_CONFLICT,
    EXIT_INTEGRITY,
    EXIT_INTERRUPTED,
    EXIT_NOT_AUTHORISED,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNKNOWN,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

#: Rows of a head that makes weights of 200 MB.
LARGE = 1_600_000


def published(shop, directory, *more, **keywords):
    done = shop.publish(directory, "--json", *more, **keywords)
    assert done.returncode == EXIT_OK, done.stderr
    return json.loads(done.stdout)


def manifest(shop, reference="tiny@1.0"):
    done = shop.run("show", reference, "--json")
    assert done.returncode == EXIT_OK, done.stderr
    return json.loads(done.stdout)["manifest"]


def test_what_is_published_is_shown_first_and_recorded(shop):
    done = shop.publish(shop.drafter())
    assert done.returncode == EXIT_OK, done.stderr
    name, digest = done.stdout.split()
    assert (name, digest[:7]) == ("tiny@1.0", "sha256:")
    read, _, rest = done.stderr.partition("taken on word:")
    word, _, _ = rest.partition("files, ")
    for text in ("boundaries 3, 31, 59", "eagle_config.eagle_aux_hidden_state_layer_ids = [2, 30, 58]", "fc.weight"):
        assert text in read
    assert "tiny" in word
    assert "fc_input_width" not in word
    found = manifest(shop)
    assert found["layout"]["boundaries"] == [3, 31, 59]
    assert (found["layout"]["fc_input_width"], found["target"]["layers"]) == (192, 61)
    assert [file["path"] for file in found["files"]] == ["config.json", "model.safetensors"]


def test_publishing_again_changes_nothing_and_says_so(shop):
    directory = shop.drafter()
    first = published(shop, directory)
    again = published(shop, directory)
    assert (first.pop("created"), again.pop("created")) == (True, False)
    assert first == again
    assert "was there already" in shop.publish(directory).stderr


def test_other_content_under_the_same_version_is_a_conflict(shop):
    directory = shop.drafter()
    first = published(shop, directory)
    with open(os.path.join(directory, "README.md"), "w", encoding="utf-8") as file:
        file.write("new\n")
    done = shop.publish(directory)
    assert done.returncode == EXIT_CONFLICT
    assert "README.md" in done.stderr
    assert published(shop, directory, version="1.1")["digest"] != first["digest"]
    assert "same contract as 1.0" in shop.publish(directory, version="1.1").stderr
    assert manifest(shop)["files"][0]["path"] == "config.json"


CONTRADICTORY = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "aux_hidden_state_layer_ids": [4, 5, 6]}


@pytest.mark.parametrize("config", [{}, CONTRADICTORY], ids=["no ids", "two keys that disagree"])
def test_a_layout_that_cannot_be_decided_is_refused_until_it_is_stated(shop, config):
    directory = shop.drafter(ids=None, **config)
    done = shop.publish(directory)
    assert done.returncode == EXIT_UNKNOWN, done.stderr
    assert "--output-ids" in done.stderr
    assert "settled by" in done.stderr
    assert done.stdout == ""
    assert shop.versions() == []
    stated = shop.publish(directory, "--output-ids", "2,30,58")
    assert stated.returncode == EXIT_OK, stated.stderr
    assert "--output-ids 2,30,58" in stated.stderr.partition("taken on word:")[2]
    assert manifest(shop)["layout"]["boundaries"] == [3, 31, 59]


def test_every_obstacle_is_told_at_once(own_shop):
    done = own_shop.run("publish", own_shop.drafter(ids=None), "--json")
    assert done.returncode == EXIT_UNKNOWN, done.stderr
    told = json.loads(done.stdout)
    pointers = {claim["pointer"] for claim in told["obstacles"]}
    assert {"/name", "/version", "/target/model"} <= pointers
    assert pointers & {"/layout/boundaries", "/target/layers"}
    assert told["exit_code"] == EXIT_UNKNOWN
    assert not os.path.exists(own_shop.data)


def test_what_the_files_contradict_is_refused(shop):
    done = shop.publish(shop.drafter(), "--boundaries", "3,31")
    assert done.returncode == EXIT_INTEGRITY, done.stderr
    assert "192" in done.stderr
    assert shop.versions() == []


def test_a_dry_run_shows_the_manifest_that_would_be_published(shop):
    directory = shop.drafter()
    done = shop.publish(directory, "--dry-run", "--json")
    assert done.returncode == EXIT_OK, done.stderr
    assert "nothing was published" in done.stderr
    if shop.server is None:
        assert not os.path.exists(shop.data)
    assert shop.versions() == []
    dry = json.loads(done.stdout)
    assert json.loads(shop.publish(directory, "--dry-run").stdout) == dry["manifest"]
    real = published(shop, directory)
    assert (dry["digest"], dry["fingerprint"]) == (real["digest"], real["fingerprint"])
    assert manifest(shop) == dry["manifest"]


def test_what_is_not_published_is_named_with_its_reason(own_shop, tmp_path):
    directory = own_shop.drafter()
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    write = {
        "README.md": "x", "modeling.py": "x = 1", "tokenizer.json": "{}", "sub/vocab.json": "{}",
        "optimizer.pt": "x", "training_args.bin": "x", "pytorch_model.bin": "x", ".hidden.json": "x",
        "other.safetensors": "x", "model.gguf": "x", "picture.png": "x", "checkpoint-10/config.json": "{}",
        "drafters-manifest.json": '{"schema": "drafters.manifest.v1"}',
    }  # fmt: skip
    for path, text in write.items():
        os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
        with open(os.path.join(directory, path), "w", encoding="utf-8") as file:
            file.write(text)
    os.symlink(outside, os.path.join(directory, "linked.json"))
    os.symlink("config.json", os.path.join(directory, "same.json"))
    done = own_shop.publish(directory)
    assert done.returncode == EXIT_OK, done.stderr
    kept = ["README.md", "config.json", "model.safetensors", "modeling.py", "same.json", "sub/vocab.json"]
    assert [file["path"] for file in manifest(own_shop)["files"]] == [*kept, "tokenizer.json"]
    left_out = done.stderr.partition("left out:")[2]
    for path in ("optimizer.pt", "training_args.bin", "pytorch_model.bin", ".hidden.json", "other.safetensors",
                 "model.gguf", "picture.png", "checkpoint-10", "linked.json"):  # fmt: skip
        assert path in left_out
    assert "modeling.py: code" in done.stderr


def test_weights_that_link_out_of_the_directory_are_refused(own_shop, tmp_path):
    directory = own_shop.drafter()
    shutil.move(os.path.join(directory, "model.safetensors"), tmp_path / "elsewhere.safetensors")
    os.symlink(tmp_path / "elsewhere.safetensors", os.path.join(directory, "model.safetensors"))
    done = own_shop.publish(directory)
    assert done.returncode == EXIT_USAGE
    assert "links out of the directory" in done.stderr
    assert own_shop.versions() == []


def test_pickles_alone_are_refused(own_shop):
    directory = own_shop.drafter()
    os.rename(os.path.join(directory, "model.safetensors"), os.path.join(directory, "pytorch_model.bin"))
    assert own_shop.publish(directory).returncode == EXIT_REFUSED


def test_a_manifest_beside_the_weights_is_a_word_and_no_file(own_shop):
    directory = own_shop.drafter(ids=None)
    beside = {
        "schema": "drafters.manifest.v1",
        "name": "tiny",
        "version": "2.0",
        "layout": {"boundaries": [3, 31, 59]},
        "provenance": {"notes": ["trained at night"]},
    }
    with open(os.path.join(directory, "drafters-manifest.json"), "w", encoding="utf-8") as file:
        json.dump(beside, file)
    done = own_shop.run("publish", directory, "--target", own_shop.target)
    assert done.returncode == EXIT_OK, done.stderr
    assert "drafters-manifest.json" in done.stderr.partition("taken on word:")[2]
    found = manifest(own_shop, "tiny@2.0")
    assert found["layout"]["boundaries"] == [3, 31, 59]
    assert found["provenance"]["notes"] == ["trained at night"]
    assert "drafters-manifest.json" not in [file["path"] for file in found["files"]]


def test_what_is_stated_by_option_is_recorded(own_shop):
    done = own_shop.publish(
        own_shop.drafter(), "--producer", "specforge==0.2.0", "--steps", "3", "--topk", "1", "--draft-tokens", "4",
        "--accept-length", "2.75", "--accept-dataset", "mt-bench", "--source", "hf://o/r", "--notes", "one", "two",
        "--trained-context", "2048", "--target-name", "org/target",
    )  # fmt: skip
    assert done.returncode == EXIT_OK, done.stderr
    found = manifest(own_shop)
    assert found["recommended"] == {"steps": 3, "topk": 1, "draft_tokens": 4}
    acceptance = {"length": 2.75, "dataset": "mt-bench", "steps": 3, "topk": 1, "draft_tokens": 4}
    assert found["acceptance"] == [acceptance]
    assert found["provenance"]["producer"] == "specforge==0.2.0"
    assert (found["provenance"]["source"], found["provenance"]["notes"]) == ("hf://o/r", ["one", "two"])
    assert found["target"]["model"] == "org/target"
    assert found["draft"]["trained_context"] == 2048


@pytest.mark.parametrize("options", [
    ("--steps", "0"), ("--steps", "x"), ("--accept-length", "0.5"), ("--accept-length", "nan"),
    ("--accept-dataset", "x"), ("--output-ids", "2", "--boundaries", "3"), ("--states", "residual"),
    ("--name", "../x"), ("--version", "v1"), ("--alias", "1"), ("--output-ids", "a,b"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused_before_anything_is_stored(own_shop, options):
    assert own_shop.publish(own_shop.drafter(), *options).returncode == EXIT_USAGE
    assert not os.path.exists(own_shop.data)


def test_a_directory_that_is_not_there_is_a_fault_of_the_command_line(own_shop):
    done = own_shop.publish(os.path.join(own_shop.folder, "nowhere"))
    assert (done.returncode, "is no directory" in done.stderr) == (EXIT_USAGE, True)
    assert not os.path.exists(own_shop.data)


def test_an_alias_moves_with_the_publication(shop):
    directory = shop.drafter()
    done = shop.publish(directory, "--alias", "prod", "--why", "first")
    assert done.returncode == EXIT_OK, done.stderr
    assert "tiny@prod is now 1.0" in done.stderr
    assert "already" in shop.publish(directory, "--alias", "prod").stderr
    moved = shop.publish(directory, "--notes", "x", "--alias", "prod", "--why", "second", version="1.1")
    assert "warning" not in moved.stderr
    history = json.loads(shop.run("alias", "history", "tiny@prod", "--json").stdout)["items"]
    assert [(move["to_version"], move["why"]) for move in history] == [("1.1", "second"), ("1.0", "first")]
    other = shop.publish(directory, "--output-ids", "1,29,57", "--alias", "prod", version="2.0")
    assert "warning: 2.0 has another contract than 1.1: layout.boundaries" in other.stderr


def test_a_drafter_of_the_hub_is_published_from_its_cache(shop):
    """As the Hub's library lays it out: links to blobs, large ones named by their digest."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = os.path.join(shop.folder, "hub", "models--org--tiny")
    snapshot, blobs = os.path.join(repository, "snapshots", commit), os.path.join(repository, "blobs")
    directory = shop.drafter()
    for folder in (snapshot, blobs, os.path.join(repository, "refs")):
        os.makedirs(folder)
    with open(os.path.join(repository, "refs", "main"), "w", encoding="utf-8") as file:
        file.write(commit)
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        shutil.move(os.path.join(directory, name), os.path.join(blobs, digest))
        os.symlink(f"../../blobs/{digest}", os.path.join(snapshot, name))
    offline = {"HF_HUB_CACHE": os.path.join(shop.folder, "hub"), "HF_HUB_OFFLINE": "1"}
    done = shop.publish("hf://org/tiny", variables=offline)
    assert done.returncode == EXIT_OK, done.stderr
    found = manifest(shop)
    assert (found["provenance"]["source"], found["provenance"]["revision"]) == ("hf://org/tiny", commit)
    assert [file["path"] for file in found["files"]] == ["config.json", "model.safetensors"]
    assert shop.run("pull", "tiny@1.0").returncode == EXIT_OK
    missing = shop.publish("hf://org/other", variables=offline, version="2.0")
    assert missing.returncode == EXIT_USAGE, missing.stderr


@pytest.mark.parametrize("token", [None, "drg_" + "a" * 40])
def test_a_wrong_token_publishes_nothing_and_is_not_shown(served_shop, token):
    done = served_shop.publish(served_shop.drafter(), variables={"DRAFTERS_TOKEN": token})
    assert done.returncode == EXIT_NOT_AUTHORISED, done.stderr
    assert str(token) not in done.stderr + done.stdout
    assert served_shop.versions() == []


def test_the_token_can_come_from_standard_input(served_shop):
    done = served_shop.publish(
        served_shop.drafter(), "--token-file", "-", stdin=None, input=served_shop.server.token + "\n",
        variables={"DRAFTERS_TOKEN": None},
    )  # fmt: skip
    assert done.returncode == EXIT_OK, done.stderr


def test_a_server_that_is_gone_is_unreachable(served_shop):
    served_shop.server.stop()
    done = served_shop.publish(served_shop.drafter())
    assert done.returncode == EXIT_UNREACHABLE
    assert served_shop.server.url in done.stderr


def wait_until(true, process):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def staged(shop):
    """Bytes that the server has of files that are not blobs yet."""
    folder, total = os.path.join(shop.data, "blobs", "uploads"), 0
    for place, _, names in os.walk(folder):
        total += sum(os.path.getsize(os.path.join(place, name)) for name in names)
    return total


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, EXIT_INTERRUPTED)])
def test_a_publication_that_was_cut_is_invisible_and_goes_on(served_shop, command, number, code):
    shop = served_shop
    directory = shop.drafter(vocabulary=LARGE)
    size = os.path.getsize(os.path.join(directory, "model.safetensors"))
    named = ["--name", "tiny", "--version", "1.0", "--target", shop.target]
    environment = {**os.environ, **shop.variables}
    client = subprocess.Popen(
        [command, "publish", directory, *named],
        env={name: value for name, value in environment.items() if value is not None},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_until(lambda: staged(shop) > 80_000_000, client)
    client.send_signal(number)
    client.communicate(timeout=60)
    assert client.returncode == code
    assert shop.versions() == []
    done = shop.publish(directory)
    assert done.returncode == EXIT_OK, done.stderr
    assert len(shop.requests("POST", "/v1/uploads")) == 2, "one for config.json, one for the weights"
    sent = [line["received"] for line in shop.requests("PATCH", "/v1/uploads")]
    assert sum(sent) < 1.6 * size, "what was stored was not sent again"
    assert shop.versions() == ["tiny@1.0"]
    assert staged(shop) == 0
    assert [name for _, _, names in os.walk(os.path.join(shop.cache, "uploads")) for name in names] == []


def test_a_full_disk_is_told_and_leaves_nothing(own_shop):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))

    directory = own_shop.drafter(vocabulary=20_000)
    done = own_shop.publish(directory, preexec_fn=limited)
    assert done.returncode == EXIT_UNREACHABLE, done.stderr
    assert "Traceback" not in done.stderr
    assert own_shop.versions() == []
    assert staged(own_shop) == 0
    assert own_shop.publish(directory).returncode == EXIT_OK


def test_a_version_of_a_release_that_read_less_is_the_same_when_published_again(own_shop):
    from drafter_contracts.manifest import decode
    from drafter_registry.service.context import LOCAL_SCOPES, Actor
    from drafter_registry.service.open import close, open_registry
    from drafter_registry.service.publish import publish
    from drafter_registry.settings import Settings

    directory = own_shop.drafter()
    published(own_shop, directory, version="0.9")
    today = json.loads(own_shop.publish(directory, "--dry-run").stdout)
    assert today["draft"].pop("context_length")
    registry = open_registry(Settings(data=own_shop.data), create=False)
    earlier = publish(registry, Actor("local:tests", LOCAL_SCOPES), "tiny", "1.0", decode(json.dumps(today).encode()))
    close(registry)
    again = published(own_shop, directory)
    assert (again["created"], again["digest"]) == (False, earlier.digest)
    other = own_shop.publish(directory, "--steps", "5")
    assert other.returncode == EXIT_CONFLICT
    assert "recommended" in other.stderr


@pytest.mark.parametrize("line", ["list", "show a@1", "resolve a@1 --engine 0.5.9", "audit"])
def test_a_command_that_only_looks_makes_no_registry(own_shop, line):
    done = own_shop.run(*line.split())
    assert done.returncode == EXIT_UNREACHABLE
    assert "there is no registry at" in done.stderr
    assert not os.path.exists(own_shop.data)
