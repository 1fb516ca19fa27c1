"""The profile of a release by its name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.engines.local import kept, known
from drafter_contracts.engines.local.folder import profiles_folder
from drafter_contracts.engines.store import load_profile
from drafter_contracts.errors import UnknownReleaseError


@pytest.fixture
def add(folder):
    def add(release, name="0.5.9"):
        assert not kept.write_added(folder, replace(load_profile("sglang", name), release=release), "a wheel")

    return add


@pytest.mark.parametrize("release", ["0.5.24", "0.5.23.post9", "0.5.9.1", "0.5.9rc1", "0.4", "../../x", ""])
def test_an_unknown_release_is_unknown_and_never_its_neighbour(folder, release):
    with pytest.raises(UnknownReleaseError) as caught:
        known.load("sglang", release)
    assert f"drafters engine update {release}" in caught.value.message


def test_an_added_release_is_found_and_listed_in_its_place(add):
    add("0.5.24")
    add("0.5.2.post9")
    found = known.load("sglang", "0.5.24")
    assert (found.source, found.profile.release, found.origin) == (known.ADDED, "0.5.24", "a wheel")
    listed = known.releases("sglang")
    assert listed["0.5.24"] == listed["0.5.2.post9"] == known.ADDED
    assert listed["0.5.23"] == known.SHIPPED
    order = list(listed)
    assert order.index("0.5.2") < order.index("0.5.2.post9") < order.index("0.5.9") < order.index("0.5.24")
    with pytest.raises(UnknownReleaseError):
        known.load("sglang", "0.5.25")


def test_a_shipped_profile_wins_over_an_added_one(add, folder):
    add("0.5.9", "0.5.23")
    found = known.load("sglang", "0.5.9")
    assert found.source == known.SHIPPED
    assert found.profile == load_profile("sglang", "0.5.9")
    assert known.releases("sglang")["0.5.9"] == known.SHIPPED


def test_one_that_another_scanner_added_is_stale_and_not_used(add, monkeypatch):
    add("0.5.24")
    monkeypatch.setattr(kept, "scanner_digest", lambda _: "another")
    assert known.releases("sglang")["0.5.24"] == known.STALE
    with pytest.raises(UnknownReleaseError, match="another version of drafters"):
        known.load("sglang", "0.5.24")


def test_one_under_another_release_s_name_is_not_used(add, folder):
    import os

    add("0.5.24")
    os.rename(f"{folder}/added/sglang/0.5.24.profile", f"{folder}/added/sglang/0.5.25.profile")
    with pytest.raises(UnknownReleaseError):
        known.load("sglang", "0.5.25")
    assert known.releases("sglang")["0.5.25"] == known.STALE


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DRAFTERS_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own/profiles"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/drafter-registry/profiles"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/x"}, "/home/x/.cache/drafter-registry/profiles"),
        ({"HOME": "/home/x"}, "/home/x/.cache/drafter-registry/profiles"),
        ({"HOME": "relative"}, ""),
    ],
)
def test_where_profiles_are_kept(monkeypatch, variables, expected):
    for name in ("DRAFTERS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert profiles_folder() == expected
