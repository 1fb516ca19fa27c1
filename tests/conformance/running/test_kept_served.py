"""Kept results of launches with printed flags: still what is printed, and what was seen is what is recorded."""

from __future__ import annotations

import os

import pytest
import results
import served_cases
from served_cases import CASES, PREFERENCES, RELEASES

from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile
from drafter_contracts.launch.plan import plan
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Wishes
from drafter_contracts.manifest import FileRecord
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement
from drafter_contracts.serving.target import target_from_config

FOUND = results.load()
SERVED = FOUND.get("served", {})
AGAIN = "make conformance CONFORMANCE_ARGS='-k served' launches them again"
FILE = FileRecord(path="config.json", size=1, sha256="0" * 64)


def planned(folder, release, name, prefer):
    """What is printed today for a case, its target as it was then."""
    case = CASES[name]
    seen = target_from_config(FOUND["targets"][release][case.shape], "target", source="config.json")
    directory = os.path.join(folder, name)
    write_skeleton(directory, served_cases.config(case), served_cases.tensors(case))
    facts = read_drafter(
        directory,
        target_layers=seen.num_layers,
        target_hidden_size=seen.hidden_size,
        target_model_type=seen.text_model_type,
    )
    said = Statement(
        name="drafter",
        version="1.0.0",
        boundaries=case.boundaries,
        option=f"--boundaries {','.join(map(str, case.boundaries))}",
        target_model="target",
        steps=3,
        topk=1,
        draft_tokens=4,
    )
    recorded = record(facts, said, seen, (FILE,))
    assert recorded.manifest is not None, recorded.obstacles
    return plan(
        manifest=recorded.manifest,
        facts=facts,
        profile=load_profile("sglang", release),
        target=seen,
        advisories=advisories_for(load_advisories("sglang"), release),
        wishes=Wishes(prefer=prefer),
    )


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize("release", RELEASES)
def test_what_was_launched_is_what_is_printed_today(release, prefer, tmp_path):
    kept = SERVED[f"{release}, {prefer}"]
    assert kept.keys() == CASES.keys(), AGAIN
    for name, seen in kept.items():
        made = planned(str(tmp_path), release, name, prefer)
        if "refused" in seen:
            assert (made.resolved, made.verdict.findings[0].code) == (False, seen["refused"]), (name, AGAIN)
            continue
        flags = ["DRAFTER" if flag == PATH_PLACEHOLDER else flag for flag in made.flags]
        assert (flags, made.rendered, list(made.weights.order)) == (
            seen["flags"], seen["rendered"], seen.get("order", []),
        ), (name, AGAIN)  # fmt: skip


def test_what_was_captured_is_what_is_recorded():
    launches = [(name, seen) for kept in SERVED.values() for name, seen in kept.items() if "refused" not in seen]
    whole = [(key.split(", ", 2)[2], seen) for key, seen in FOUND["speculating"].items()]
    assert len(launches) > 40
    assert {name for name, _ in whole} == set(served_cases.WHOLE)
    for name, seen in [*launches, *whole]:
        recorded = CASES[name].boundaries
        order = seen.get("order") or range(len(recorded))
        assert seen["boundaries"] == [recorded[place] for place in order], name


def test_what_was_accepted_is_much_with_the_printed_flags_and_little_without():
    for name, seen in FOUND["accepted"].items():
        assert min(seen["accepted"]) > 3.5, name
        came = seen["as it came"]
        assert isinstance(came, str) or max(came) < 0.85 * min(seen["accepted"]), name


def test_every_gate_refused_every_mismatch_and_left_nothing():
    kept = FOUND["refused"]
    assert {seen["exit"] for seen in kept.values() if "exit" in seen} == {3}
    assert {seen["left running"] for seen in kept.values() if "exit" in seen} == {0}
    assert len([name for name in kept if "the right launch" not in name]) == 12
