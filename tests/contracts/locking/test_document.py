"""The lock as a document: strict, sealed, the same bytes for the same content."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from drafter_contracts import limits
from drafter_contracts.engines.profile import Profile
from drafter_contracts.errors import LockError
from drafter_contracts.locking.document import (
    Lock,
    LockedDrafter,
    LockedEngine,
    LockedRender,
    LockedTarget,
    LockedVerdict,
    Question,
    canonical,
    config_digest,
    decode,
    is_lock,
    json_schema,
    locked_engine,
    locked_verdict,
    schema_text,
    sealed,
)
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding, conclude

ROOT = Path(__file__).parents[3]
CALM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
DIGEST = HEX.map("sha256:".__add__)
COUNT = st.none() | st.integers(1, 64)
LOCKS = st.builds(
    Lock,
    schema=st.just("drafters.lock.v1"),
    tool=TEXT,
    asked=st.builds(
        Question, reference=TEXT, engine=st.just("") | TEXT, target=st.just("") | TEXT, target_config=TEXT,
        steps=COUNT, topk=COUNT, draft_tokens=COUNT, prefer=st.sampled_from(["flags", "render"]),
        launch=st.lists(TEXT, max_size=3).map(tuple),
    ),
    drafter=st.builds(
        LockedDrafter, name=TEXT, version=TEXT, digest=DIGEST, fingerprint=DIGEST,
        files=st.dictionaries(TEXT, HEX, min_size=1, max_size=3),
    ),
    render=st.none() | st.builds(
        LockedRender, changes=st.lists(TEXT, max_size=2).map(tuple), order=st.permutations(range(3)).map(tuple)
    ),
    engine=st.builds(
        LockedEngine, name=TEXT, release=TEXT, known_by=st.sampled_from(["published", "files"]), digest=DIGEST
    ),
    target=st.builds(LockedTarget, name=TEXT, config_sha256=st.just("") | HEX, tokenizer_sha256=st.just("") | HEX),
    flags=st.lists(TEXT, min_size=1, max_size=4).map(tuple),
    options=st.lists(TEXT, max_size=2).map(tuple),
    verdict=st.builds(LockedVerdict, decision=st.sampled_from(["allow", "warn"]), findings=st.just(())),
).map(sealed)  # fmt: skip


@given(LOCKS)
@CALM
def test_reading_what_was_written_gives_the_same_and_the_same_bytes(lock):
    data = canonical(lock)
    assert decode(data) == lock
    assert canonical(decode(data)) == data
    assert data.endswith(b"}\n")


@given(LOCKS, st.data())
@CALM
def test_any_change_of_any_value_is_noticed(lock, data):
    document = json.loads(canonical(lock))
    places = list(leaves(document))
    path = data.draw(st.sampled_from(places))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    before = holder[path[-1]]
    holder[path[-1]] = data.draw(
        st.sampled_from([0, 1, None, "", "x", [], "sha256:" + "0" * 64, "0" * 64]).filter(lambda value: value != before)
    )
    with pytest.raises(LockError):
        decode(json.dumps(document).encode())


def leaves(value, path=()):
    """Paths of everything that holds no more."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [place for key, child in items for place in leaves(child, (*path, key))]
    return inner or [path]


@given(LOCKS)
@CALM
def test_the_published_schema_describes_it(lock):
    jsonschema_rs.validator_for(json_schema()).validate(json.loads(canonical(lock)))


def test_the_stored_schema_is_the_generated_one():
    assert (ROOT / "docs" / "lock.schema.json").read_text(encoding="utf-8") == schema_text(), "run: make docs"


@pytest.mark.parametrize(
    ("data", "where", "expected"),
    [
        (b"", "my.lock", "a drafters.lock.v1"),
        (b"\x80\x04K\x01.", "my.lock", "a drafters.lock.v1"),
        (b"[]", "my.lock", "drafters.lock.v1"),
        (b"{}", "my.lock: schema", "drafters.lock.v1"),
        (b'{"schema": "drafters.lock.v2"}', "my.lock: schema", "drafters.lock.v1"),
        (b'{"schema": "drafters.lock.v1"}', "my.lock", "a drafters.lock.v1"),
        (b"[" * 100_000, "my.lock", "a drafters.lock.v1"),
        (b" " * (limits.lock_max_bytes + 1), "my.lock", f"at most {limits.lock_max_bytes} bytes"),
    ],
)
def test_what_is_no_lock_is_refused_by_file_field_and_expectation(data, where, expected):
    with pytest.raises(LockError) as caught:
        decode(data, where="my.lock")
    assert (caught.value.where, caught.value.expected) == (where, expected)


@given(LOCKS)
@CALM
def test_an_unknown_field_names_itself_and_its_place(lock):
    document = json.loads(canonical(lock))
    document["engine"]["extra"] = 1
    with pytest.raises(LockError, match="unknown field `extra`") as caught:
        decode(json.dumps(document).encode(), where="my.lock")
    assert caught.value.where == "my.lock: engine"


@given(LOCKS)
@CALM
def test_a_missing_seal_is_a_broken_one(lock):
    document = json.loads(canonical(lock))
    del document["seal"]
    with pytest.raises(LockError, match="changed after it was written"):
        decode(json.dumps(document).encode())


def test_a_lock_of_any_version_may_be_written_anew_and_nothing_else():
    assert is_lock(b'{"schema": "drafters.lock.v9", "seal": 1}')
    for other in (b"", b"#!/bin/sh\n", b"{}", b'{"schema": 1}', b'{"schema": "drafters.manifest.v1"}', b"[" * 100_000):
        assert not is_lock(other)


@given(st.dictionaries(TEXT, st.integers(0, 9) | TEXT | st.floats(allow_nan=False), max_size=5), st.randoms())
@CALM
def test_a_config_s_digest_is_of_its_content_and_not_of_its_order(config, random):
    shuffled = list(config.items())
    random.shuffle(shuffled)
    assert config_digest(dict(shuffled)) == config_digest(config)
    assert config_digest(config | {"one more": 1}) != config_digest(config)


def engine(**more):
    values = {"name": "sglang", "release": "0.5.9", "known_by": "files", "digest": "sha256:" + "0" * 64, **more}
    return LockedEngine(**values)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (engine(), True),
        (engine(digest="sha256:" + "1" * 64), False),
        (engine(known_by="published"), True),
        (engine(release="0.5.10"), False),
        (engine(name="vllm"), False),
        (engine(known_by="published", digest="sha256:" + "1" * 64), False),
    ],
)
def test_an_engine_of_own_files_is_the_same_by_those_files_alone(other, same):
    assert engine().same(other) is other.same(engine()) is same


def test_a_release_as_published_is_the_same_however_many_files_tell_it():
    assert engine(known_by="published").same(engine(known_by="published", digest="sha256:" + "1" * 64))
    assert not engine(known_by="published").same(engine(known_by="published", release="0.5.10"))


def test_a_profile_is_told_by_the_files_it_was_derived_from_else_by_itself():
    first = Profile("drafters.profile.v1", "sglang", "0.5.9", sources={"a.py": "0" * 16, "b.py": "1" * 16})
    turned = replace(first, sources=dict(reversed(first.sources.items())))
    assert locked_engine(first, published=True) == locked_engine(turned, published=True)
    patched = replace(first, sources={"a.py": "2" * 16, "b.py": "1" * 16})
    assert locked_engine(first, published=False).digest != locked_engine(patched, published=False).digest
    bare = replace(first, sources={})
    other = replace(bare, rewrites={"A": "B"})
    assert locked_engine(bare, published=False).digest != locked_engine(other, published=False).digest


def test_a_verdict_is_kept_as_its_codes_with_their_worst_severity():
    findings = [Finding("B", NOTE, "n"), Finding("A", WARN, "w"), Finding("B", WARN, "w"), Finding("C", NOTE, "n")]
    kept = locked_verdict(conclude(findings, ("A",)))
    assert [(one.code, one.severity) for one in kept.findings] == [("A", "warn"), ("B", "warn"), ("C", "note")]
    assert kept.decision == "warn"


@pytest.mark.parametrize("severity", [REFUSE, UNKNOWN])
def test_what_may_not_start_is_not_locked(severity):
    with pytest.raises(LockError, match="only a launch that may start"):
        locked_verdict(conclude([Finding("A", severity, "m")], ("A",)))
    with pytest.raises(LockError):
        locked_verdict(conclude([], ()))


def test_a_lock_holds_no_verdict_that_would_not_start():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"decision": "refuse"}, LockedVerdict)
