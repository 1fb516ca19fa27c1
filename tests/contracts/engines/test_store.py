"""Shipped profiles: what is there, and what is said when something is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafter_contracts.engines import store
from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.profile import FITTED, Advisory
from drafter_contracts.engines.scan import encode
from drafter_contracts.errors import ProfileError, UnknownReleaseError

RELEASES = store.releases("sglang")
STABLE = (Path(__file__).parents[3] / "contracts/stable-releases/sglang.txt").read_text(encoding="ascii").split()


def test_releases_are_listed_oldest_first():
    assert [release for release in STABLE if release in RELEASES] == list(RELEASES)
    assert sorted(STABLE, key=store.version_key) == STABLE
    assert len(STABLE) == len(set(STABLE))
    assert store.releases("an engine that nobody wrote") == ()


def test_every_stable_release_is_shipped():
    assert list(RELEASES) == STABLE


@pytest.mark.parametrize(
    ("older", "newer"),
    [("0.5.9", "0.5.12"), ("0.5.12", "0.5.12.post1"), ("0.5.12.post2", "0.5.12.post10"), ("0.5.2rc1", "0.5.2")],
)
def test_versions_are_ordered_as_published(older, newer):
    assert store.version_key(older) < store.version_key(newer)


def test_an_unknown_release_names_those_that_are_known_and_how_to_scan():
    with pytest.raises(UnknownReleaseError) as caught:
        store.load_profile("sglang", "0.9.99")
    assert "drafters engine scan" in caught.value.message
    assert caught.value.expected == f"one of {len(RELEASES)} shipped releases from {RELEASES[0]} to {RELEASES[-1]}"
    with pytest.raises(UnknownReleaseError) as caught:
        store.load_profile("another engine", "0.5.9")
    assert not caught.value.expected


@pytest.mark.parametrize("name", ["../../errors", "/etc/passwd", ""])
def test_a_release_is_a_name_and_no_path(name):
    with pytest.raises(UnknownReleaseError):
        store.load_profile("sglang", name)


@pytest.mark.parametrize("release", RELEASES)
def test_every_shipped_profile_is_whole(release):
    profile = store.load_profile("sglang", release)
    assert (profile.engine, profile.release) == ("sglang", release)
    used = {index for methods in profile.targets.values() for index in methods.values()}
    assert used == set(range(len(profile.rules)))
    assert all(len(digest) == 16 for digest in profile.sources.values())
    for rule in profile.rules:
        if rule.status == FITTED:
            assert rule.source.file in profile.sources
            assert rule.forward.file in profile.sources
            assert not rule.reason
            assert not rule.shifts or rule.shifts[-1].when == "always"
        else:
            assert rule.reason
    assert profile.launch.flags
    assert profile.drafters


@pytest.mark.parametrize("release", RELEASES)
def test_a_shipped_profile_is_in_canonical_form(release):
    data = store.document("sglang", release)
    assert encode(store.decode(data, release)) == data
    assert len(data) < 200_000


def test_a_damaged_or_foreign_document_is_refused():
    with pytest.raises(ProfileError, match="not an engine profile"):
        store.decode(b'{"schema": 1}', "here")
    with pytest.raises(ProfileError, match="another schema"):
        store.decode(b'{"schema": "v0", "engine": "sglang", "release": "1"}', "here")


def test_advisories_hold_for_a_range_of_releases():
    ranged = Advisory("A", "effect", "source", "read", first="0.5.2", last="0.5.12")
    open_ended = Advisory("B", "effect", "source", "read", first="0.5.12.post1")
    ids = {
        release: [a.id for a in store.advisories_for((ranged, open_ended), release)]
        for release in ("0.4.6.post5", "0.5.2", "0.5.9", "0.5.12", "0.5.12.post1", "0.5.23")
    }
    assert ids == {
        "0.4.6.post5": [], "0.5.2": ["A"], "0.5.9": ["A"], "0.5.12": ["A"], "0.5.12.post1": ["B"], "0.5.23": ["B"],
    }  # fmt: skip


def test_shipped_advisories_are_read():
    advisories = store.load_advisories("sglang")
    assert advisories
    assert all(advisory.source and advisory.evidence for advisory in advisories)
    assert store.load_advisories("another engine") == ()


@pytest.mark.parametrize(
    ("release", "architecture", "ids", "expected"),
    [
        ("0.5.12.post1", "KimiK25ForConditionalGeneration", [2, 30, 58], [3, 31, 59]),
        ("0.5.15", "KimiK25ForConditionalGeneration", [2, 30, 58], [2, 30, 58]),
        ("0.5.23", "KimiK25ForConditionalGeneration", [2, 30, 58], [2, 30, 58]),
        ("0.5.23", "KimiK25ForConditionalGeneration", [1, 30, 58], [2, 31, 59]),
        ("0.5.9", "LlamaForCausalLM", [2, 16, 29], [3, 17, 30]),
        ("0.5.23", "LlamaForCausalLM", None, [2, 30, 58]),
    ],
)
def test_what_releases_capture_of_a_target_of_61_layers(release, architecture, ids, expected):
    rule = store.load_profile("sglang", release).capture_method(architecture, "EAGLE3")
    assert [tap.boundary for tap in capture_once(rule, 61, ids).taps] == expected


def test_a_profile_in_a_newer_rule_language_is_refused():
    data = b'{"schema": "drafters.engine-profile.v1", "engine": "sglang", "release": "1", "scan_version": 2}'
    with pytest.raises(ProfileError, match="newer rule language") as caught:
        store.decode(data, "here")
    assert caught.value.where == "here"
