"""The gate reads what other releases do only for a refusal whose remedy is not at hand."""

from __future__ import annotations

import pytest

from drafter_cli.demo_files import EVERY_OPTION, write_drafter, write_target
from drafter_cli.gate import judge
from drafter_cli.gate_options import Request
from drafter_contracts.engines import store
from drafter_contracts.engines.ranges import span_text
from drafter_contracts.launch.others import others as other_releases
from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation
from drafter_contracts.situation import Situation


@pytest.fixture
def reads(monkeypatch):
    """What was asked of other releases."""
    asked = []
    whole = store.elsewhere
    monkeypatch.setattr(store, "elsewhere", lambda *question: asked.append(question) or whole(*question))
    return asked


def ask(folder, release, ids):
    """The verdict on a drafter with these ids, trained on the outputs of layers 2, 30 and 58."""
    target, drafter = write_target(str(folder / "target")), write_drafter(str(folder / "drafter"), ids=ids)
    argv = ["python", "-m", "sglang.launch_server", "--model-path", target, *EVERY_OPTION]
    argv += ["--speculative-draft-model-path", drafter]
    return judge(Request(tuple(argv), engine=release, boundaries=(3, 31, 59), option="--boundaries 3,31,59"))


def test_a_launch_that_is_right_asks_nothing_of_other_releases(tmp_path, reads):
    assert ask(tmp_path, "0.5.12.post1", [2, 30, 58]).decision == "allow"
    assert not reads


def test_a_refusal_with_its_remedy_at_hand_asks_nothing_of_other_releases(tmp_path, reads):
    verdict = ask(tmp_path, "0.5.12.post1", [-1, 2, 30])
    assert verdict.decision == "refuse"
    assert "[2, 30, 58]" in " ".join(finding.remedy for finding in verdict.findings)
    assert not reads


def test_a_refusal_without_one_asks_all_of_them_once_and_names_those_that_have_the_hook(tmp_path, reads):
    verdict = ask(tmp_path, "0.5.9", [2, 30, 58])
    assert verdict.decision == "refuse"
    (found,) = [finding for finding in verdict.findings if finding.code == "CAPTURE_NO_HOOK"]
    known = store.releases("sglang")
    having = [
        release
        for release in known
        if store.load_profile("sglang", release).capture_method("KimiK25ForConditionalGeneration", "EAGLE3") is not None
    ]
    assert 1 < len(having) < len(known)
    assert found.remedy == f"Use a release that has it: sglang {span_text(known, having)}."
    assert len(reads) == 1


@pytest.mark.parametrize("known", [True, False, None])
def test_algorithms_are_asked_for_where_the_launch_names_one_that_the_release_does_not_know(known):
    serving = ServingConfig(Invocation(("sglang", "serve")), speculation=Speculation("EAGLE9", "EAGLE9", known=known))
    others = other_releases(Situation(serving), "sglang", "0.5.9")
    assert [other.release for other in others] == [r for r in store.releases("sglang") if r != "0.5.9"]
    assert all(bool(other.algorithms) == (known is False) for other in others)
