"""A lock whose drafter is served as a render: other files than the version's, made again where they are gone."""

from __future__ import annotations

import json
import os
import shutil

import pytest


@pytest.fixture
def flags(site):
    """Flags of a render that was locked."""
    site.locked("--prefer", "render", "--engine", "sglang==0.5.23")
    return site.flags()


def directory_of(flags):
    return flags[flags.index("--speculative-draft-model-path") + 1]


def drift(site, flags):
    return site.drift(site.launch(flags), "--engine", "sglang==0.5.23")


def test_a_render_is_locked_by_its_own_files_and_its_changes(site, flags):
    lock = site.document()
    assert lock["asked"]["prefer"] == "render"
    assert lock["render"]["changes"]
    assert set(os.listdir(directory_of(flags))) == set(lock["drafter"]["files"])
    assert drift(site, flags) == []
    assert site.guard(site.launch(flags), "--engine", "sglang==0.5.23").returncode == 0


def test_the_version_s_own_files_are_not_the_render(site, flags):
    version = os.path.join(site.shop.cache, "drafters", "tiny", site.document()["drafter"]["digest"][7:])
    assert os.path.isdir(version)
    other = [version if flag == directory_of(flags) else flag for flag in flags]
    assert ("LOCK_FILES", "refuse") in drift(site, other)


def test_a_render_that_is_gone_is_made_again_with_the_same_bytes(site, flags):
    shutil.rmtree(os.path.join(site.shop.cache, "renders"))
    shutil.rmtree(site.shop.data)
    assert site.flags() == flags
    assert drift(site, flags) == []


def test_a_config_edited_in_a_copy_is_drift(site, flags):
    copy, copied = site.copy_of(flags)
    assert drift(site, copied) == []
    path = os.path.join(copy, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    os.chmod(path, 0o600)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config | {"torch_dtype": "float16"}, file)
    assert ("LOCK_FILES", "refuse") in drift(site, copied)


def test_a_copy_needs_the_render_s_own_manifest(site, flags):
    copy, copied = site.copy_of(flags)
    os.remove(os.path.join(copy, "drafters-manifest.json"))
    assert ("LOCK_FILES", "refuse") in drift(site, copied)
