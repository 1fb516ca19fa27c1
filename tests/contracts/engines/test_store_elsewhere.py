"""What is read of other releases for a remedy: the same as their whole profiles say, and only when it is asked for."""

from __future__ import annotations

import shutil

import pytest

from drafter_contracts.engines import store
from drafter_contracts.engines.elsewhere import Asked, Elsewhere, OtherRelease, answer
from drafter_contracts.errors import ProfileError

ENGINE = "sglang"
RELEASES = store.releases(ENGINE)
#: Target class, method and drafter classes: known everywhere, in some releases, rewritten, and nowhere.
QUESTIONS = [
    ("LlamaForCausalLM", "EAGLE3", ("LlamaForCausalLMEagle3",)),
    ("KimiK25ForConditionalGeneration", "EAGLE3", ("NoSuchClass", "Qwen3ForCausalLMEagle3")),
    ("Qwen3ForCausalLM", "DFLASH", ("DFlashDraftModel",)),
    ("DeepseekV3ForCausalLM", "DSPARK", ("DeepseekV3ForCausalLM",)),
    ("NoSuchClass", "", ()),
]


@pytest.mark.parametrize(("architecture", "method", "drafters"), QUESTIONS)
def test_other_releases_are_as_their_profiles_say(architecture, method, drafters):
    found = store.elsewhere(ENGINE, "0.5.9", Asked(architecture, method, drafters, algorithms=True))
    assert [other.release for other in found] == [release for release in RELEASES if release != "0.5.9"]
    for other in found:
        profile = store.load_profile(ENGINE, other.release)
        names = [profile.rewrites.get(name, name) for name in drafters]
        assert other == OtherRelease(
            profile.engine,
            profile.release,
            profile.capture_method(architecture, method),
            profile.readings.get(method),
            profile.graphs.get(method),
            next((profile.drafters[name] for name in names if name in profile.drafters), None),
            profile.launch.speculative.algorithms,
        )


def test_the_questions_above_have_different_answers():
    """Or else the test above compares nothing with nothing."""
    answers = [store.elsewhere(ENGINE, "0.5.9", Asked(*question)) for question in QUESTIONS]
    assert {other.rule is None for found in answers for other in found} == {True, False}
    assert {other.draft_class is None for found in answers for other in found} == {True, False}
    assert all(other.algorithms == () for found in answers for other in found), "not asked for"


def test_a_whole_document_answers_as_the_part_of_it_that_is_read():
    asked = Asked(*QUESTIONS[0])
    (newest,) = store.elsewhere(ENGINE, "", asked)[-1:]
    assert answer(store.document(ENGINE, newest.release), asked, "here") == newest


def test_others_are_read_once_and_when_somebody_looks():
    read = []
    others = Elsewhere(lambda: read.append(1) or (OtherRelease(ENGINE, "1"), OtherRelease(ENGINE, "2")))
    assert not read
    assert [other.release for other in reversed(others)] == ["2", "1"]
    assert (len(others), others[0].release, others[1:][0].release) == (2, "1", "2")
    assert read == [1]


def test_a_damaged_profile_of_another_release_is_an_error(tmp_path):
    data = tmp_path / "data"
    shutil.copytree(store.DATA, data)
    path = data / ENGINE / store.LINES
    path.write_bytes(path.read_bytes().replace(b'"LlamaForCausalLMEagle3"', b'"LlamaForCausalLMEagle4"'))
    with pytest.raises(ProfileError, match="shared lines"):
        store.elsewhere(ENGINE, "0.5.9", Asked("LlamaForCausalLM", "EAGLE3", ()), data=str(data))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"{", "not an engine profile"),
        (b'{"schema":"v0","engine":"e","release":"1"}', "another schema"),
        (b'{"schema":"drafters.engine-profile.v1","engine":"e","release":"1","scan_version":9}', "newer rule language"),
        (
            b'{"schema":"drafters.engine-profile.v1","engine":"e","release":"1","targets":{"T":{"M":3}}}',
            "not an engine",
        ),
        (b'{"schema":"drafters.engine-profile.v1","engine":"e","release":"1","targets":{"T":[]}}', "not an engine"),
    ],
)
def test_what_is_no_profile_has_no_answer(document, complaint):
    with pytest.raises(ProfileError, match=complaint):
        answer(document, Asked("T", "M", ()), "here")
