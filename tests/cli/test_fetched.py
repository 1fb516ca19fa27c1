"""What a registry answers with is what it was asked for, or nothing is taken of it."""

from __future__ import annotations

import msgspec
import pytest

from drafter_cli.cache import drafters as cache
from drafter_cli.cache import fetched
from drafter_contracts.manifest import SCHEMA, Manifest, canonical
from drafter_contracts.manifest import digest as digest_of
from drafter_registry.errors import IntegrityError

MANIFEST = Manifest(schema=SCHEMA, name="tiny", version="1.0")
DIGEST = digest_of(MANIFEST)
OTHER = Manifest(schema=SCHEMA, name="tiny", version="1.0", method="EAGLE3")


class Liar:
    """A registry without files."""

    name = "a registry"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("reference", ["tiny@1.0", "tiny@prod", f"tiny@{DIGEST}"])
def test_an_answer_of_what_was_asked_for_is_taken(reference):
    assert fetched.fetch(Liar(), reference, "tiny", DIGEST, MANIFEST).endswith(DIGEST.removeprefix("sha256:"))


@pytest.mark.parametrize(
    ("reference", "name", "digest", "manifest"),
    [
        (f"tiny@{DIGEST}", "tiny", digest_of(OTHER), OTHER),
        ("tiny@2.0", "tiny", DIGEST, MANIFEST),
        ("other@1.0", "tiny", DIGEST, MANIFEST),
        ("other@prod", "other", DIGEST, MANIFEST),
        ("tiny@1.0", "tiny", DIGEST, OTHER),
    ],
    ids=["digest", "version", "name", "manifest of another name", "manifest of another digest"],
)
def test_an_answer_of_something_else_is_refused_and_kept_nowhere(reference, name, digest, manifest):
    with pytest.raises(IntegrityError, match=f"when asked for {reference}"):
        fetched.fetch(Liar(), reference, name, digest, manifest)
    assert cache.find_pulled("tiny@1.0") is None


def test_a_digest_that_a_server_swaps_is_noticed_by_check_and_resolve(scripted, drafters, tmp_path):
    """A pinned digest is a pin, whatever answers."""
    manifest = msgspec.json.decode(canonical(OTHER))
    summary = {
        "name": "tiny", "version": "1.0", "digest": digest_of(OTHER), "fingerprint": DIGEST, "state": "live",
        "method": "EAGLE3", "target_model": "x", "target_architecture": "y", "size": 0,
        "publication": {"at": "2026-01-01T00:00:00Z", "by": "x", "tool": "x"},
    }  # fmt: skip
    shown = {"summary": summary, "manifest": manifest}
    resolved = {
        "name": "tiny", "version": "1.0", "digest": digest_of(OTHER), "fingerprint": DIGEST, "manifest": manifest,
        "engine": "sglang 0.5.23", "flags": ["--speculative-draft-model-path", "{drafter}"],
    }  # fmt: skip
    scripted.answer = lambda request: (200, {}, msgspec.json.encode(resolved if request.method == "POST" else shown))
    variables = {"DRAFTERS_URL": scripted.url, "DRAFTERS_CONFIG": "", "DRAFTERS_CACHE": str(tmp_path / "cache")}
    pinned = f"tiny@{DIGEST}"
    launch = ("python", "-m", "sglang.launch_server", "--model-path", "m", "--speculative-algorithm", "EAGLE3")
    for command in (
        ("check", pinned, "--engine", "sglang==0.5.23", "--", *launch),
        ("resolve", pinned, "--engine", "sglang==0.5.23"),
        ("resolve", pinned, "--engine", "sglang==0.5.23", "--no-pull"),
    ):
        done = drafters(*command, variables=variables)
        assert (done.returncode, done.stdout) == (7, "")
        assert f"when asked for {pinned}" in done.stderr
