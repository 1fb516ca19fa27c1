"""Real releases, run on a CPU: what they return for random capture ids is what the shipped profiles predict."""

from __future__ import annotations

import json
import os
import random
import sys

import environments
import page
import plan
import pytest
import session
import whole

pytestmark = pytest.mark.running


@pytest.fixture(autouse=True)
def _environment(wheel, request):
    """The wheel is in the cache, and the environment is built; or the test says why not."""
    release = request.node.callspec.params.get("release", whole.RELEASE) if hasattr(request.node, "callspec") else ""
    try:
        wheel(release or whole.RELEASE)
        environments.environment_for(release or whole.RELEASE)
    except environments.EnvironmentUnavailable as error:
        pytest.skip(str(error))


def told(rows):
    return "\n".join(f"{shape}: {page.example(row)}" for shape, row in rows)


@pytest.mark.parametrize("release", plan.RELEASES)
def test_every_returned_state_is_the_boundary_that_the_profile_predicts(release, keep):
    for shape in plan.SHAPES:
        sys.stdout.write(f"{release} {shape}: {plan.id_lists(release, shape)}\n")
    found = session.run_release(release)
    keep("releases", release, found)
    rows = [(shape, row) for shape, rows in page.judged(release, found).items() for row in rows]
    different = [(shape, row) for shape, row in rows if row["counts"] == "different"]
    assert not different, told(different)
    assert any(row["counts"] == "match" for _, row in rows), told(rows)


@pytest.mark.parametrize("shape", ["llama", "qwen2", "qwen3", "qwen3_moe"])
def test_the_whole_engine_returns_the_same_to_a_client(shape, keep):
    ids = random.Random(shape).sample(range(plan.LAYERS - 1), 3)  # noqa: S311 - no secret
    seen = whole.returned(shape, ids)
    keep("whole engine", f"{whole.RELEASE} {shape}", seen)
    (row,) = page.judged(whole.RELEASE, {"shapes": {shape: {"start": seen, "lists": []}}})[shape]
    assert row["counts"] == "match", page.example(row)


@pytest.fixture(scope="module")
def decoded():
    """What the engine makes of the same prompts with every drafter, and without one."""
    return {name: whole.decoded(name) for name in ("none", "right", "next", "missing")}


def gate(drafters, name):
    stated = ",".join(map(str, whole.TRAINED))
    launch = whole.launch(name)
    done = drafters("check", "--json", "--engine", f"sglang=={whole.RELEASE}", "--boundaries", stated, "--", *launch)
    return json.loads(done.stdout)


def test_acceptance_and_the_gate_agree_about_a_drafter_that_is_served_rightly_and_one_that_is_not(
    decoded, drafters, keep
):
    verdicts = {name: gate(drafters, name)["decision"] for name in ("right", "next", "missing")}
    lengths = {name: decoded[name].get("accepted") for name in ("right", "next")}
    died = decoded["missing"].get("error", "nothing")
    rows = {name: f"accepted {lengths[name]} of at most 4 per step; the gate says {verdicts[name]}" for name in lengths}
    rows["missing"] = (
        f"the engine raises {died}: {decoded['missing'].get('text', '')}; the gate says {verdicts['missing']}"
    )
    keep("speculation", whole.RELEASE, rows)
    assert verdicts["right"] in {"allow", "warn"}
    assert verdicts["next"] == verdicts["missing"] == "refuse"
    assert all(decoded[name]["tokens"] == decoded["none"]["tokens"] for name in lengths), "greedy text is the target's"
    assert min(lengths["right"]) > 3.5
    assert max(lengths["next"]) < 0.85 * min(lengths["right"])
    assert died == "RuntimeError", "one tap fewer than fc is wide for"


def test_the_cost_on_disk_is_kept(keep):
    names = ["common", *{name for _, names in environments.SETS for name in names}]
    for name in names:
        folder = environments.folder_of(name)
        if os.path.isdir(folder):
            keep("environments", name, environments.megabytes(folder))
