"""The Hub's cache, offline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.hub_cache import cache_directory, find

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path):
    repository = tmp_path / "hub" / "models--org--name"
    (repository / "refs" / "pr").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    (repository / "refs" / "pr" / "1").write_text(COMMIT)
    (repository / "refs" / "gone").write_text("f" * 40)
    (repository / "snapshots" / COMMIT).mkdir(parents=True)
    return {"HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path)}


@pytest.mark.parametrize("revision", ["", "main", "pr/1", COMMIT])
def test_revisions(cache, revision):
    found = find("org/name", revision, environment=cache)
    assert found == f"{cache['HF_HUB_CACHE']}/models--org--name/snapshots/{COMMIT}"


@pytest.mark.parametrize(
    ("path", "revision"),
    [
        ("org/name", "v2"),
        ("org/name", "gone"),
        ("org/name", "../../main"),
        ("org/name", "/etc/hostname"),
        ("org/other", ""),
        ("a/b/c", ""),
        ("/no/such/place", ""),
        ("../x", ""),
        ("", ""),
        ("$MODEL", ""),
    ],
)
def test_what_is_not_here(cache, path, revision):
    assert find(path, revision, environment=cache) is None


def test_a_directory_is_itself(tmp_path, cache):
    assert find(str(tmp_path), "any", environment=cache) == str(tmp_path)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/c", "HF_HOME": "/b"}, "/c"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/x"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HOME": "/home/u"}, "/home/u/.cache/huggingface/hub"),
        ({"HOME": "/home/u", "HF_HOME": "~/hf"}, "/home/u/hf/hub"),
    ],
)
def test_where_the_cache_is(variables, expected):
    assert cache_directory(variables) == expected


@given(st.text(), st.text())
def test_any_name_gives_an_answer(path, revision):
    found = find("no-such-org/" + path, revision, environment={"HOME": "/nonexistent"})
    assert found is None
