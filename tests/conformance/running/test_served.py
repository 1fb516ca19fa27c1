"""Drafters are published, resolved by the command, and served by real releases with exactly the flags it printed."""

from __future__ import annotations

import os

import environments
import plan
import pytest
import served
import session
import whole
from served_cases import CASES, PREFERENCES, REFUSED, RELEASES, WHOLE, WIDTH

pytestmark = pytest.mark.running

OVERRIDES = "--json-model-override-args"
#: What the engine is started with beside the flags, so that `resolve` judges it with them.
OPERATOR = ("--device", "cpu", "--attention-backend", "intel_amx")


@pytest.fixture(autouse=True)
def _environment(wheel, request):
    """The wheels are in the cache, and the environments are built; or the test says why not."""
    release = request.node.callspec.params.get("release", whole.RELEASE) if hasattr(request.node, "callspec") else ""
    try:
        for one in {release or whole.RELEASE, whole.RELEASE}:
            wheel(one)
            environments.environment_for(one)
    except environments.EnvironmentUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def registry(command, tmp_path_factory):
    """An embedded registry."""
    return served.Registry(str(tmp_path_factory.mktemp("registry")), command)


def fed(name, printed):
    """The boundaries in the order in which the release must feed them."""
    recorded = CASES[name].boundaries
    return [recorded[place] for place in printed.order or range(len(recorded))]


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_captures_what_is_recorded_under_the_flags_that_resolve_printed(
    registry, release, prefer, keep, tmp_path
):
    answers, launches = {}, {}
    for name, case in CASES.items():
        reference, target = served.published(registry, release, name)
        answers[name] = registry.resolve(reference, release, target, prefer)
        if not answers[name].code:
            launches[name] = (case, answers[name].flags)
        if prefer == "render" and not answers[name].code:  # launched where `pull --for` put the same files
            ready = ("--for", f"sglang=={release}", "--target", target)
            directory = registry.pull(reference, str(tmp_path / served.slug(name)), *ready)
            assert served.content(directory) == served.content(answers[name].directory)
            launches[name] = (case, answers[name].at(directory))
    refused = {
        name: printed.answer["verdict"]["findings"][0]["code"] for name, printed in answers.items() if printed.code
    }
    assert refused == REFUSED[release]
    seen = served.captured(release, launches)
    kept = {name: {"refused": code} for name, code in refused.items()}
    for name, found in seen.items():
        kept[name] = answers[name].kept() | {"how": found["how"]} | found.get("launch", found.get("start"))
    keep("served", f"{release}, {prefer}", kept)
    keep("targets", release, served.configs(release))
    for name, found in seen.items():
        assert "launch" in found, (name, found)
        assert found["launch"].get("boundaries") == fed(name, answers[name]), (name, found)
        assert (OVERRIDES in answers[name].flags) <= (prefer == "flags"), "a render has no need of overrides"


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_engine_feeds_the_drafters_fc_what_is_recorded_while_it_speculates(registry, name, prefer, keep):
    case, release = CASES[name], whole.RELEASE
    reference, target = served.published(registry, release, name)
    printed = registry.resolve(reference, release, target, prefer, OPERATOR)
    assert not printed.code, printed.answer
    if prefer == "render" and printed.flags == registry.resolve(reference, release, target, "flags", OPERATOR).flags:
        pytest.skip("the same launch as with flags preferred")
    seen = served.served(
        target,
        printed.flags,
        [list(plan.PROMPT)],
        original=os.path.join(served.drafters(release), served.slug(name)),
        order=printed.order,
        taps=len(case.boundaries),
        fc=[WIDTH, WIDTH * len(case.boundaries)],
    )
    assert not seen.get("error"), seen
    known = ("boundaries", "right", "wrong", "accepted", *(key for key in seen if key.startswith("fc ")))
    keep("speculating", f"{release}, {prefer}, {name}", printed.kept() | {key: seen[key] for key in known})
    assert seen["boundaries"] == fed(name, printed)
    assert seen["fc is the drafter's own, in order"]
    assert seen["fc apart"] <= 1e-4 * seen["fc scale"]


@pytest.fixture(scope="module")
def trained():
    """Directories of a drafter that was trained on the target's own text, as different producers would leave it."""
    return served.trained()


@pytest.fixture(scope="module")
def plain():
    """What the target itself says to the prompts."""
    return whole.decoded("none")["tokens"]


@pytest.mark.parametrize(("kind", "prefer"), served.TRAINED)
def test_a_trained_drafter_is_accepted_with_resolves_flags_and_not_as_it_came(
    registry, trained, plain, kind, prefer, keep
):
    release, text = whole.RELEASE, whole.text()
    target = served.target_of(release, "llama")
    boundaries = served.ORDER if kind == "order" else whole.TRAINED
    reference = registry.publish(trained[kind], f"trained-{kind}-{prefer}", target, boundaries)
    printed = registry.resolve(reference, release, target, prefer, OPERATOR)
    assert not printed.code, printed.answer
    seen = served.served(target, printed.flags, text[:4])
    as_it_came = printed.at(trained[kind])
    if OVERRIDES in as_it_came:
        at = as_it_came.index(OVERRIDES)
        del as_it_came[at : at + 2]
    wrong = served.served(target, as_it_came, text[:4])
    came = wrong.get("accepted") or f"{wrong['error']}: {session.plain(wrong['text'])}"
    keep(
        "accepted", f"{release}, {kind}, {prefer}", printed.kept() | {"accepted": seen["accepted"], "as it came": came}
    )
    assert seen["tokens"] == plain, "greedy text is the target's"
    assert min(seen["accepted"]) > 3.5
    assert wrong.get("error") or max(wrong["accepted"]) < 0.85 * min(seen["accepted"])
