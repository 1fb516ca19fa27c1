"""A drafter's fingerprint, made with transformers, against what a real release returns for the right and wrong ids."""

from __future__ import annotations

import json
import os
import shutil

import answering
import environments
import pytest
import session
import whole

pytestmark = pytest.mark.running

RELEASE = whole.RELEASE
FLAG = "--enable-return-aux-hidden-states"
#: Which states are returned, from the ids of the release's numbering on.
RETURNED = (FLAG, "--speculative-algorithm", "EAGLE3", "--return-aux-hidden-state-layer-ids")
LAYOUT = (1, 3, 5)


@pytest.fixture(scope="module")
def models(wheel):
    try:
        wheel(RELEASE)
        return session.models(environments.environment_for(RELEASE))
    except environments.EnvironmentUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def target(models):
    return os.path.join(models, "llama")


@pytest.fixture
def drafter(models, target, drafters, tmp_path):
    """A drafter of the target with its fingerprint; its config says the outputs of layers 0, 2 and 4."""
    folder = shutil.copytree(os.path.join(models, "drafter"), tmp_path / "drafter")
    done = drafters("fingerprint", folder, "--target", target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("boundaries 1, 3, 5 (outputs of layers 0, 2, 4) on 16 tokens")
    return str(folder)


@pytest.fixture
def engine(target, tmp_path):
    """Starts one: `with engine("0", "2", "4") as url`."""
    return lambda *flags: answering.server(RELEASE, target, str(tmp_path / "log"), *flags)


def verified(drafters, drafter, url, expected):
    done = drafters("verify", drafter, "--url", url, "--json", timeout=300)
    assert done.returncode == expected, done.stdout + done.stderr
    return json.loads(done.stdout)


def boundaries(found):
    return tuple(one["resembles"]["boundary"] for one in found["taps"])


def test_the_right_ids_feed_the_same_states_again_and_again(drafters, drafter, engine):
    with engine(*RETURNED, "0", "2", "4") as url:
        for _ in range(2):  # the second time the prefix cache has every token
            found = verified(drafters, drafter, url, 0)
            assert (found["engine"], found["asked_ids"]) == (f"sglang {RELEASE}", [0, 2, 4])
            assert boundaries(found) == LAYOUT
            assert {one["rows"] for one in found["taps"]} == {15}
            assert max(one["error"] for one in found["taps"]) < 1e-4


def test_ids_off_by_one_are_not_the_same_and_what_they_are_is_named(drafters, drafter, engine):
    with engine(*RETURNED, "1", "3", "5") as url:
        found = verified(drafters, drafter, url, 3)
        assert boundaries(found) == (2, 4, 6)
        assert [one["found"] for one in found["taps"]] == ["not the same"] * 3
        wrong, right = (
            "boundaries 2, 4, 6 (outputs of layers 1, 3, 5)",
            "boundaries 1, 3, 5 (outputs of layers 0, 2, 4)",
        )
        assert found["reason"] == f"{wrong}, not {right}"


def test_an_engine_started_without_is_told_the_flags_of_the_first_test(drafters, drafter, engine):
    with engine() as url:
        found = verified(drafters, drafter, url, 5)
    assert tuple(found["settle"].split(" and with ")[1].split()) == (*RETURNED, "0", "2", "4")


def test_fewer_layers_than_the_drafter_reads_are_named(drafters, drafter, engine):
    with engine(*RETURNED, "0", "4") as url:
        found = verified(drafters, drafter, url, 3)
        assert found["reason"] == "there are 2 states per token where the drafter reads 3"
        assert [one["boundary"] for one in found["chunks"]] == [1, 5]
