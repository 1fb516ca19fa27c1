"""Publishing: what is refused and why, what the same bytes twice mean, and races between processes."""

import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from sqlalchemy import func, select, text

from drafter_contracts.manifest import canonical, digest
from drafter_registry import limits
from drafter_registry.db.models import BoundaryRow, DrafterRow, FileRow, VersionRow
from drafter_registry.errors import (
    ConflictError,
    ContradictionError,
    IncompleteError,
    InvalidError,
    NameTakenError,
    NotAuthorisedError,
    NotFoundError,
    TooLargeError,
)
from drafter_registry.names import Reference
from drafter_registry.service import audit
from drafter_registry.service.context import Actor
from drafter_registry.service.publish import publish as publish_verb
from drafter_registry.service.reread import reader
from drafter_registry.service.versions import delete, manifest_bytes, show, yank

PROCESSES = 32
#: Where nothing depends on the back end.
one_kind = pytest.mark.parametrize("kind", ["sqlite-local"])


def counts(registry):
    with registry.database.read() as connection:
        tables = (DrafterRow, VersionRow, FileRow, BoundaryRow)
        return [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]


def attempt(registry, actor, made, **changes):
    manifest = msgspec.structs.replace(made.manifest, **changes)
    return publish_verb(registry, actor, manifest.name, manifest.version, manifest, tool="test 1")


def test_a_version_is_what_was_published(registry, admin, publish, drafter):
    made = drafter(steps=3)
    done = publish(made)
    assert (done.created, done.digest, done.same_contract) == (True, digest(made.manifest), ())
    data, name = manifest_bytes(registry, admin, Reference("tiny-eagle3", version="1.0.0"))
    assert (data, name) == (canonical(made.manifest), done.digest)
    document = show(registry, admin, Reference("tiny-eagle3", digest=done.digest))
    assert document.manifest == made.manifest
    assert document.summary.boundaries == (3, 17, 30)
    assert document.summary.size == sum(map(len, made.files.values()))
    assert (document.summary.published.by, document.summary.published.tool) == ("admin", "test 1")
    assert document.summary.fingerprint == done.fingerprint
    with registry.database.read() as connection:
        row = connection.execute(select(VersionRow.__table__)).one()
    assert (row.facts_by, row.method, row.target_model) == (reader(), "EAGLE3", "org/target")
    assert reader().startswith("drafter-registry ")


def test_a_publication_is_in_the_audit_log(registry, admin, publish, drafter):
    done = publish(drafter())
    publish(drafter())
    (entry,) = audit.entries(registry, admin, subject="tiny-eagle3@1.0.0").items
    assert (entry.action, entry.actor, entry.request_id) == ("version.publish", "admin", "request-1")
    assert entry.detail == {"digest": done.digest, "fingerprint": done.fingerprint, "tool": "test 1"}


def test_the_same_content_again_succeeds_and_changes_nothing(registry, publish, drafter):
    first = publish(drafter())
    before = counts(registry)
    again = publish(drafter(), Actor("other", ("publish:tiny-*",)))
    assert again == msgspec.structs.replace(first, created=False)
    assert counts(registry) == before


def test_other_content_is_a_conflict_that_names_the_fields(registry, publish, drafter):
    first = publish(drafter())
    before = counts(registry)
    other = drafter(steps=5, config={"max_position_embeddings": 2048})
    with pytest.raises(ConflictError, match=r"draft\.context_length") as refused:
        publish(other)
    named = {one.pointer: (one.expected, one.actual) for one in refused.value.faults}
    assert named["/draft/context_length"] == ("4096", "2048")
    assert named["/recommended/steps"] == ("", "5")
    assert "config.json" in refused.value.message
    assert counts(registry) == before
    assert publish(drafter()).digest == first.digest


def test_versions_with_the_same_contract_are_named(registry, admin, publish, drafter):
    publish(drafter(version="1.0.0"))
    publish(drafter(version="1.0.1", extra={"README.md": b"words"}))
    publish(drafter(version="2.0.0", config={"max_position_embeddings": 2048}))
    delete(registry, admin, "tiny-eagle3", "1.0.0")
    done = publish(drafter(version="1.0.2"))
    assert done.same_contract[0] == "1.0.1"
    assert "1.0.0" not in done.same_contract
    publish(drafter("another", "1.0.2"))
    assert publish(drafter("another", "1.0.3")).same_contract == ("1.0.2",)


def test_a_yanked_version_published_again_stays_yanked(registry, admin, publish, drafter):
    publish(drafter())
    yank(registry, admin, "tiny-eagle3", "1.0.0", why="bad")
    assert publish(drafter()).created is False
    assert show(registry, admin, Reference("tiny-eagle3", version="1.0.0")).summary.state == "yanked"
    with pytest.raises(ConflictError, match="other content"):
        publish(drafter(steps=9))


def test_a_deleted_version_can_never_be_used_again(registry, admin, publish, drafter):
    publish(drafter())
    delete(registry, admin, "tiny-eagle3", "1.0.0", why="private data")
    for made in (drafter(), drafter(steps=4)):
        with pytest.raises(ConflictError, match="deleted, and that version can never be used again"):
            publish(made)
    assert publish(drafter(version="1.0.1")).created


def test_names_that_people_would_confuse_are_kept_apart(publish, drafter):
    publish(drafter("tiny-eagle3"))
    for name in ("tiny.eagle3", "tinyeagle3", "t1ny-eagle3", "tlny-eag1e3"):
        with pytest.raises(NameTakenError, match=rf"{name} looks too much like tiny-eagle3"):
            publish(drafter(name))
    assert publish(drafter("tiny-eagle4")).created


# Who may ------------------------------------------------------------------------------------------------------------


@one_kind
@pytest.mark.parametrize("scopes", [("read",), ("publish:other-*",), ("alias:*",), ()])
def test_who_may_not_publish_learns_nothing(registry, publish, drafter, scopes):
    made = drafter()
    told = []
    for _ in range(2):
        with pytest.raises(NotFoundError) as refused:
            attempt(registry, Actor("somebody", scopes), made)
        told.append((refused.value.message, refused.value.hint, refused.value.faults))
        publish(made)
    assert told[0] == told[1]
    with pytest.raises(NotAuthorisedError):
        attempt(registry, Actor("anonymous", ()), made)


# What is refused ----------------------------------------------------------------------------------------------------


@one_kind
def test_the_manifest_is_of_that_name_and_version(registry, admin, drafter):
    made = drafter()
    with pytest.raises(InvalidError) as refused:
        publish_verb(registry, admin, "other", "2.0.0", made.manifest, tool="")
    assert [(one.pointer, one.expected, one.actual) for one in refused.value.faults] == [
        ("/name", "other", "tiny-eagle3"),
        ("/version", "2.0.0", "1.0.0"),
    ]


@one_kind
@pytest.mark.parametrize(("name", "version"), [("Tiny", "1"), ("tiny", "latest"), ("../x", "1"), ("tiny", "1\0")])
def test_names_and_versions_are_checked(registry, admin, drafter, name, version):
    with pytest.raises(InvalidError):
        publish_verb(registry, admin, name, version, drafter().manifest, tool="")


def listing(made, *paths, size=1, **fields):
    """The manifest's files and some more."""
    record = type(made.manifest.files[0])
    more = tuple(record(path=path, size=size, sha256="0" * 64, **fields) for path in paths)
    return tuple(sorted((*made.manifest.files, *more), key=lambda file: file.path))


@one_kind
@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../up", "a/../b", "a//b", ".hidden", "a\\b", "a\0b", "con", "a/nul.txt", "a.", "ä", "a b"),
        *("drafters-manifest.json", "Drafters-Manifest.json", "/".join("abcdefghi"), "Config.JSON"),
        *("config.json/x", "model.safetensors/y"),
    ],
)
def test_paths_that_cannot_be_kept_are_refused(registry, admin, drafter, path):
    made = drafter()
    with pytest.raises(InvalidError) as refused:
        attempt(registry, admin, made, files=listing(made, path))
    assert any(one.pointer.startswith("/files/") for one in refused.value.faults)


@one_kind
def test_files_are_few_sorted_and_not_too_large(registry, admin, drafter):
    made = drafter()
    many = listing(made, *(f"f{i}" for i in range(limits.version_max_files)))
    with pytest.raises(InvalidError, match="more than a version may have"):
        attempt(registry, admin, made, files=many)
    with pytest.raises(InvalidError, match="not sorted"):
        attempt(registry, admin, made, files=made.manifest.files[::-1])
    with pytest.raises(InvalidError, match="one file where case"):
        attempt(registry, admin, made, files=listing(made, "a", "A"))
    with pytest.raises(InvalidError, match="larger than the registry takes"):
        attempt(registry, admin, made, files=listing(made, "a", size=limits.blob_max_bytes + 1))


@one_kind
def test_a_manifest_has_a_largest_size(registry, admin, drafter):
    made = drafter()
    provenance = msgspec.structs.replace(made.manifest.provenance, notes=("x" * limits.manifest_max_bytes,))
    with pytest.raises(TooLargeError, match="bytes"):
        attempt(registry, admin, made, provenance=provenance)


@one_kind
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("a.json", {"elsewhere": "hf://o/r@" + "1" * 40 + "/a.json"}),
        ("a.safetensors", {"elsewhere": "hf://o/r@" + "1" * 40 + "/a.safetensors"}),
        ("a.safetensors", {"elsewhere": "hf://o/r@main/a.safetensors", "header_sha256": "1" * 64}),
        ("a.safetensors", {"elsewhere": "http://x/a", "header_sha256": "1" * 64}),
        ("a.safetensors", {"elsewhere": "hf://o/r@" + "1" * 40 + "/a\nb", "header_sha256": "1" * 64}),
        ("a.safetensors", {"header_sha256": "1" * 64}),
    ],
)
def test_only_weights_at_a_fixed_place_may_stay_elsewhere(registry, admin, drafter, path, fields):
    made = drafter()
    with pytest.raises(InvalidError, match=r"a\."):
        attempt(registry, admin, made, files=listing(made, path, **fields))


@one_kind
@pytest.mark.parametrize("text", ["a\0b", "x" * 256, "a\nb"])
def test_texts_of_lists_are_short_lines(registry, admin, drafter, text):
    made = drafter()
    with pytest.raises(InvalidError, match=r"target\.model"):
        attempt(registry, admin, made, target=msgspec.structs.replace(made.manifest.target, model=text))


@one_kind
def test_values_that_the_schema_does_not_allow_are_refused(registry, admin, drafter):
    made = drafter()
    draft = made.manifest.draft
    for values in ({"rope_theta": float("nan")}, {"rope_scaling": {"a": "\ud800"}}, {"vocab_size": 0}):
        with pytest.raises(InvalidError):
            attempt(registry, admin, made, draft=msgspec.structs.replace(draft, **values))


@one_kind
def test_what_a_manifest_must_say_is_listed_whole(registry, admin, publish, drafter):
    made = drafter()
    made.upload(registry, admin)
    with pytest.raises(IncompleteError) as refused:
        attempt(registry, admin, made, target=type(made.manifest.target)(), layout=None)
    pointers = {one.pointer for one in refused.value.faults}
    assert {"/target/model", "/target/layers", "/target/hidden_size", "/layout"} <= pointers


@one_kind
def test_every_claim_that_the_bytes_contradict_is_listed(registry, admin, drafter):
    made = drafter()
    made.upload(registry, admin)
    draft = msgspec.structs.replace(made.manifest.draft, hidden_size=16, vocab_size=32, architecture="Other")
    before = counts(registry)
    with pytest.raises(ContradictionError) as refused:
        attempt(registry, admin, made, draft=draft)
    found = {one.pointer: (one.expected, one.actual) for one in refused.value.faults}
    assert found["/draft/hidden_size"] == ("8", "16")
    assert found["/draft/vocab_size"] == ("16", "32")
    assert found["/draft/architecture"] == ("LlamaForCausalLMEagle3", "Other")
    assert all(one.source for one in refused.value.faults)
    assert counts(registry) == before


def test_every_blob_that_is_missing_is_named(registry, admin, drafter):
    made = drafter(extra={"README.md": b"words"})
    made.upload(registry, admin, without=("README.md", "model.safetensors"))
    with pytest.raises(IncompleteError, match=r"README\.md.*model\.safetensors"):
        attempt(registry, admin, made)
    assert counts(registry) == [0, 0, 0, 0]
    made.upload(registry, admin)
    assert attempt(registry, admin, made).created


def test_a_blob_that_is_being_collected_counts_as_missing(registry, admin, drafter):
    made = drafter()
    made.upload(registry, admin)
    with registry.database.write() as connection:
        connection.execute(text("UPDATE blobs SET doomed = :yes"), {"yes": True})
    with pytest.raises(IncompleteError, match="not stored"):
        attempt(registry, admin, made)
    assert counts(registry) == [0, 0, 0, 0]


def test_a_long_tool_name_is_cut_and_cleaned(registry, admin, drafter):
    made = drafter()
    made.upload(registry, admin)
    manifest = made.manifest
    publish_verb(registry, admin, manifest.name, manifest.version, manifest, tool="x\0\n" * 200)
    shown = show(registry, admin, Reference("tiny-eagle3", version="1.0.0"))
    assert shown.summary.published.tool == "x" * 200


# Races and crashes --------------------------------------------------------------------------------------------------


def test_32_processes_with_the_same_bytes_make_one_row(registry, admin, drafter, race):
    made = drafter()
    made.upload(registry, admin)
    answers = race([made.manifest] * PROCESSES)
    assert sorted(answer for answer, _ in answers) == ["created"] + ["same"] * (PROCESSES - 1)
    assert {detail for _, detail in answers} == {digest(made.manifest)}
    assert counts(registry)[:2] == [1, 1]


def test_32_processes_with_different_bytes_make_one_row_and_31_conflicts(registry, admin, drafter, race):
    made = drafter()
    made.upload(registry, admin)
    recommended = type(made.manifest.recommended)
    manifests = [msgspec.structs.replace(made.manifest, recommended=recommended(steps=i + 1)) for i in range(PROCESSES)]
    answers = race(manifests)
    assert sorted(answer for answer, _ in answers) == ["CONFLICT"] * (PROCESSES - 1) + ["created"]
    assert all("recommended.steps" in detail for answer, detail in answers if answer == "CONFLICT")
    assert counts(registry)[:2] == [1, 1]
    (winner,) = [detail for answer, detail in answers if answer == "created"]
    assert show(registry, admin, Reference("tiny-eagle3", digest=winner)).summary.state == "live"


def test_names_that_look_alike_race_for_one(registry, admin, drafter, race):
    made = drafter()
    made.upload(registry, admin)
    names = ["tiny-eagle3", "tiny.eagle3", "tinyeagle3", "t1ny-eagle3"]
    answers = race([msgspec.structs.replace(made.manifest, name=name) for name in names])
    assert sorted(answer for answer, _ in answers) == ["NAME_TOO_SIMILAR"] * 3 + ["created"]
    assert counts(registry)[:2] == [1, 1]


_PUBLISH = """
import sys, msgspec
from drafter_contracts.manifest import Manifest
from drafter_registry.service.context import LOCAL_SCOPES, Actor
from drafter_registry.service.open import open_registry
from drafter_registry.service.publish import publish
from drafter_registry.settings import Settings
registry = open_registry(msgspec.json.decode(sys.argv[1], type=Settings))
manifest = msgspec.json.decode(sys.argv[2], type=Manifest)
publish(registry, Actor("p", LOCAL_SCOPES), manifest.name, manifest.version, manifest, tool="")
"""


@pytest.mark.parametrize("place", ["checked", "before_row", "before_commit", "committed"])
def test_a_publisher_killed_anywhere_leaves_all_or_nothing(registry, settings, admin, drafter, place):
    made = drafter()
    made.upload(registry, admin)
    run = subprocess.run(
        [
            *(sys.executable, "-c", _PUBLISH),
            *(msgspec.json.encode(settings).decode(), canonical(made.manifest).decode()),
        ],
        env={**os.environ, "DRAFTERS_FAILPOINT": f"publish.{place}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()[-3000:]
    done = place == "committed"
    assert counts(registry) == ([1, 1, len(made.files), 3] if done else [0, 0, 0, 0])
    assert attempt(registry, admin, made).created is not done
    assert counts(registry) == [1, 1, len(made.files), 3]
    (entry,) = audit.entries(registry, admin, subject="tiny-eagle3").items
    assert json.loads(msgspec.json.encode(entry))["action"] == "version.publish"
