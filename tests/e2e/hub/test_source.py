"""A drafter of the Hub as a source: pinned to a commit, from the network or the cache."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest
from hub_stand_in import COMMIT, REPOSITORY, point_at

from drafter_cli.errors import UnreachableError, UsageError
from drafter_cli.hub import source as hub_source


@pytest.mark.parametrize("revision", ["", "@main", "@v1", f"@{COMMIT}"])
def test_a_source_is_pinned_to_a_commit(hub, drafter, revision):
    found = hub_source.open(f"hf://{REPOSITORY}{revision}")
    assert (found.source, found.revision) == (f"hf://{REPOSITORY}", COMMIT)
    assert found.paths == ("README.md", "config.json", "model.safetensors")
    assert found.sha256 == {"model.safetensors": sha256(drafter["model.safetensors"]).hexdigest()}
    for path in found.paths:
        with open(os.path.join(found.directory, path), "rb") as file:
            assert file.read() == drafter[path]


def test_what_a_registry_does_not_keep_is_not_even_fetched(hub):
    found = hub_source.open(f"hf://{REPOSITORY}")
    assert [note.partition(":")[0] for note in found.notes] == ["left out .gitattributes", "left out optimizer.bin"]
    assert hub.sent("optimizer.bin") == []


def test_files_of_a_commit_are_fetched_once(hub):
    hub_source.open(f"hf://{REPOSITORY}")
    before = len(hub.sent("model.safetensors"))
    hub_source.open(f"hf://{REPOSITORY}")
    assert before > 0
    assert len(hub.sent("model.safetensors")) == before


def test_offline_the_cache_answers(cached, drafter):
    found = hub_source.open(f"hf://{REPOSITORY}")
    assert (found.directory, found.revision) == (cached, COMMIT)
    assert found.paths == ("README.md", "config.json", "model.safetensors")
    assert found.sha256 == {"model.safetensors": sha256(drafter["model.safetensors"]).hexdigest()}
    assert any(COMMIT in note and "offline" in note for note in found.notes)


def test_offline_a_commit_is_no_guess(cached):
    assert not any("offline" in note for note in hub_source.open(f"hf://{REPOSITORY}@{COMMIT}").notes)


def test_offline_and_not_cached(cached):
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE forbids") as caught:
        hub_source.open("hf://org/other")
    assert "hf download org/other" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf://org/other", "has no model org/other"),
        (f"hf://{REPOSITORY}@v9", "no revision 'v9'"),
        ("hf://org", "is no model"),
        ("hf://datasets/org/name", "is no model"),
        ("hf://org/../name", "is no model"),
        (f"hf://{REPOSITORY}@", "is no model"),
        (f"hf://{REPOSITORY}@../../x", "is no model"),
        (f"hf://{REPOSITORY}/config.json", "is no model"),
    ],
)
def test_sources_that_are_none(hub, source, message):
    with pytest.raises(UsageError, match=message):
        hub_source.open(source)


def test_a_gated_repository(hub):
    hub.gated = True
    with pytest.raises(UsageError, match="gated") as caught:
        hub_source.open(f"hf://{REPOSITORY}")
    assert "hf auth login" in caught.value.hint


def test_a_hub_that_does_not_answer(monkeypatch, tmp_path):
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path), offline=False)
    with pytest.raises(UnreachableError, match="does not answer") as caught:
        hub_source.open(f"hf://{REPOSITORY}")
    assert "HF_HUB_OFFLINE=1" in caught.value.hint
