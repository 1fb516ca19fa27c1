"""A lock held against what a start finds: each part alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.locking.codes import CODES
from drafter_contracts.locking.differences import differences
from drafter_contracts.locking.document import (
    Lock,
    LockedDrafter,
    LockedEngine,
    LockedFinding,
    LockedRender,
    LockedTarget,
    LockedVerdict,
    Question,
)
from drafter_contracts.locking.drift import (
    Seen,
    engine_drift,
    files_drift,
    read_by_engines,
    target_drift,
    tool_drift,
    verdict_drift,
)
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding, conclude

A, B = "a" * 64, "b" * 64
ENGINE = LockedEngine(name="sglang", release="0.5.9", known_by="published", digest=f"sha256:{A}")
FILES = {"config.json": A, "model.safetensors": B, "drafters-manifest.json": A}
LOCK = Lock(
    schema="drafters.lock.v1",
    tool="drafter-registry 1.0",
    asked=Question(reference="tiny@prod"),
    drafter=LockedDrafter(name="tiny", version="1.0", digest=f"sha256:{A}", fingerprint=f"sha256:{B}", files=FILES),
    engine=ENGINE,
    target=LockedTarget(name="T", config_sha256=A, tokenizer_sha256=B),
    flags=("--speculative-algorithm", "EAGLE3"),
    verdict=LockedVerdict(decision="warn", findings=(LockedFinding(code="KNOWN", severity="warn"),)),
)
SEEN = Seen(
    tool=LOCK.tool,
    engine=ENGINE,
    directory="/d",
    files=dict(FILES),
    names=tuple(FILES),
    target="/t",
    config_sha256=A,
    tokenizer_sha256=B,
)


def severities(outcome):
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize("drift", [engine_drift, files_drift, target_drift, tool_drift])
def test_what_is_as_it_was_locked_is_no_finding(drift):
    assert drift(LOCK, SEEN) == ()


@pytest.mark.parametrize(
    ("drift", "seen", "severity", "expected", "actual"),
    [
        (engine_drift, {"engine": replace(ENGINE, release="0.5.10")}, REFUSE, "0.5.9 (as published)", "0.5.10"),
        (
            engine_drift,
            {"engine": replace(ENGINE, known_by="files", digest=f"sha256:{B}")},
            REFUSE,
            "0.5.9 (as published)",
            "with files of its own, sha256:bbbbbbbbbbbb",
        ),
        (engine_drift, {"engine": None, "engine_problem": "not here"}, UNKNOWN, "0.5.9", "not here"),
        (files_drift, {"files": FILES | {"model.safetensors": A}}, REFUSE, f"sha256:{B}", f"sha256:{A}"),
        (files_drift, {"files": {"config.json": A, "model.safetensors": B}}, REFUSE, f"sha256:{A}", "no file of that"),
        (files_drift, {"names": (*FILES, "x.bin")}, REFUSE, "no file of that name", "an engine may read"),
        (files_drift, {"files": None, "files_problem": "gone"}, UNKNOWN, "a directory with the 3 files", "gone"),
        (target_drift, {"config_sha256": B}, REFUSE, A, B),
        (target_drift, {"tokenizer_sha256": A}, REFUSE, B, A),
        (target_drift, {"tokenizer_sha256": ""}, REFUSE, B, "no tokenizer.json"),
        (target_drift, {"config_sha256": "", "target_problem": "not here"}, UNKNOWN, A, "not here"),
        (tool_drift, {"tool": "drafter-registry 2.0"}, WARN, "1.0", "2.0"),
    ],
)
def test_each_drift_has_expected_actual_and_remedy(drift, seen, severity, expected, actual):
    (finding,) = drift(LOCK, replace(SEEN, **seen))
    assert finding.severity == severity
    assert expected in finding.expected
    assert actual in finding.actual
    assert finding.remedy
    assert finding.code in CODES
    assert "tiny@1.0" in finding.message or "drafter-registry" in finding.message


@pytest.mark.parametrize(
    ("asked", "engine", "told"),
    [
        ("", {"release": "0.5.10"}, "`drafters lock --update`"),
        (
            "sglang==0.5.9",
            {"release": "0.5.10"},
            "--engine sglang==0.5.10 (`--update` would ask for sglang==0.5.9 again)",
        ),
        ("sglang==0.5.9", {"known_by": "files", "digest": f"sha256:{B}"}, "--engine the engine's own path"),
    ],
)
def test_another_engine_is_taken_by_what_would_take_it(asked, engine, told):
    lock = replace(LOCK, asked=replace(LOCK.asked, engine=asked))
    (finding,) = engine_drift(lock, replace(SEEN, engine=replace(ENGINE, **engine)))
    assert told in finding.remedy


def test_config_and_tokenizer_are_two_findings_and_files_one_each():
    both = replace(SEEN, config_sha256=B, tokenizer_sha256=A)
    assert severities(target_drift(LOCK, both)) == [REFUSE, REFUSE]
    none = replace(SEEN, files={}, names=("other.json",))
    assert len(files_drift(LOCK, none)) == len(FILES) + 1


def test_a_manifest_that_is_known_from_elsewhere_need_not_lie_there_but_must_not_be_another():
    known = replace(SEEN, may_lack=frozenset({"drafters-manifest.json"}))
    without = {path: digest for path, digest in FILES.items() if path != "drafters-manifest.json"}
    assert files_drift(LOCK, replace(known, files=without)) == ()
    assert severities(files_drift(LOCK, replace(known, files=FILES | {"drafters-manifest.json": B}))) == [REFUSE]
    assert severities(files_drift(LOCK, replace(known, files={}))) == [REFUSE, REFUSE]


def test_a_lock_without_a_target_fits_any_and_says_so():
    bare = replace(LOCK, target=LockedTarget(name="T"))
    assert severities(target_drift(bare, SEEN)) == [NOTE]
    assert severities(target_drift(bare, replace(SEEN, config_sha256="", target_problem="x"))) == [NOTE]


@pytest.mark.parametrize(
    ("findings", "checked", "severity"),
    [
        ([], ("R",), None),
        ([Finding("KNOWN", WARN, "m")], ("R",), None),
        ([Finding("KNOWN", WARN, "m"), Finding("NEW", NOTE, "m")], ("R",), None),
        ([Finding("NEW", WARN, "m")], ("R",), REFUSE),
        ([Finding("KNOWN", REFUSE, "m")], ("R",), REFUSE),
        ([Finding("NEW", REFUSE, "m"), Finding("OPEN", UNKNOWN, "m")], ("R",), REFUSE),
        ([Finding("KNOWN", UNKNOWN, "m")], ("R",), UNKNOWN),
        ([], (), UNKNOWN),
    ],
)
def test_a_verdict_that_is_worse_or_warns_of_something_new_is_drift(findings, checked, severity):
    outcome = verdict_drift(LOCK, conclude(findings, checked))
    assert severities(outcome) == ([severity] if severity else [])


def test_a_warning_where_none_was_locked_is_drift():
    allowed = replace(LOCK, verdict=LockedVerdict(decision="allow"))
    (finding,) = verdict_drift(allowed, conclude([Finding("KNOWN", WARN, "m")], ("R",)))
    assert "was locked as allow, and is now warn for KNOWN" in finding.message


def test_a_note_that_became_a_warning_is_new():
    noted = replace(LOCK, verdict=LockedVerdict(decision="warn", findings=(LockedFinding(code="N", severity="note"),)))
    assert severities(verdict_drift(noted, conclude([Finding("N", WARN, "m")], ("R",)))) == [REFUSE]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.safetensors", True),
        ("CONFIG.JSON", True),
        ("modeling.py", True),
        ("README.md", False),
        ("LICENSE", False),
        (".lock.json", False),
    ],
)
def test_files_that_an_engine_may_open(name, read):
    assert read_by_engines(name) is read


def test_two_locks_differ_in_what_resolving_would_change_and_nothing_else():
    assert differences(LOCK, replace(LOCK, tool="other", seal="x", asked=Question(reference="tiny@1.0"))) == ()
    engine = replace(ENGINE, digest=f"sha256:{B}")
    assert differences(LOCK, replace(LOCK, engine=engine)) == (), "one release as published"
    drafter = replace(LOCK.drafter, version="2.0", files={"config.json": B, "new.json": A})
    now = replace(
        LOCK,
        drafter=drafter,
        render=LockedRender(changes=("x is set",), order=(1, 0)),
        engine=replace(ENGINE, release="0.5.10"),
        target=replace(LOCK.target, config_sha256=B),
        flags=("--speculative-algorithm", "EAGLE"),
        options=("--tp", "8"),
        verdict=LockedVerdict(decision="allow"),
    )
    fields = [change.field for change in differences(LOCK, now)]
    assert sorted(fields) == sorted([
        "drafter", "render", "engine", "target", "flags", "options", "verdict", "drafter.files: config.json",
        "drafter.files: new.json", "drafter.files: model.safetensors", "drafter.files: drafters-manifest.json",
    ])  # fmt: skip
    (change,) = differences(LOCK, replace(LOCK, drafter=replace(LOCK.drafter, fingerprint=f"sha256:{A}")))
    assert change.field == "drafter.fingerprint"
