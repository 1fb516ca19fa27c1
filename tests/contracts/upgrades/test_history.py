"""What ids mean over releases: ranges of the same behaviour, and one sentence that says it all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.engines import words
from drafter_contracts.engines.profile import (
    BROKEN,
    FITTED,
    OPAQUE,
    SCHEMA,
    CaptureMethod,
    CaptureRule,
    Drafter,
    GraphReplay,
    IdReading,
    Profile,
    ReadingShift,
    Region,
    Shift,
    Source,
)
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.engines.versions import version_key
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.upgrades.answer import Question, answer
from drafter_contracts.upgrades.history import class_history, ids_history, methods_of, rule_history
from drafter_contracts.upgrades.sentence import sentence

NAME = "KimiForCausalLM"
KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"
READING = IdReading(keys=(KEY,), hooks=("set_eagle3_layers_to_capture",), source=Source("runner.py", "read", 5))
ONE_MORE = CaptureMethod(
    FITTED,
    source=Source("models/kimi.py", "set", 10),
    forward=Source("models/base.py", "forward", 20),
    default=("2", "N//2", "N-3"),
    shifts=(Shift(1),),
)
AS_IS = msgspec.structs.replace(ONE_MORE, shifts=(Shift(1, "first==1"), Shift(0)))
BROKEN_RULE = CaptureMethod(BROKEN, "raises KeyError @ models/kimi.py:11", source=Source("models/kimi.py", "set", 10))
OPAQUE_RULE = CaptureMethod(OPAQUE, "no rule fits", source=Source("models/kimi.py", "set", 12))


def release(version, rule=None, *, registered=True, graphs="same", reading=READING, method="EAGLE3"):
    targets = {NAME: {} if rule is None else {method: 0}} if registered else {}
    return Profile(
        SCHEMA,
        "sglang",
        version,
        readings={method: reading},
        graphs={method: GraphReplay(graphs, Source("graph_runner.py", "__init__", 30))},
        rules=() if rule is None else (rule,),
        targets=targets,
    )


STORY = (
    release("0.5.8", registered=False),
    release("0.5.9"),
    release("0.5.10", ONE_MORE, graphs="default"),
    release("0.5.10.post1", ONE_MORE, graphs="default"),
    release("0.5.11", ONE_MORE),
    release("0.5.12.post1", ONE_MORE),
    release("0.5.13", AS_IS),
    release("0.5.14", AS_IS),
)


def story(profiles, ids=(2, 30, 58), layers=61):
    return ids_history(profiles, NAME, "EAGLE3", ids, layers)


def told(history):
    return [(line.span.text(), line.text) for line in history.lines]


def test_each_change_is_one_line():
    assert told(story(STORY)) == [
        ("0.5.8", "not registered as a target"),
        ("0.5.9", "no capture hook"),
        (
            "0.5.10 to 0.5.10.post1",
            (
                "boundaries 3, 31, 59 (outputs of layers 2, 30, 58) in eager execution; CUDA graphs replay the default,"
                " boundaries 2, 30, 58 (outputs of layers 1, 29, 57)"
            ),
        ),
        ("0.5.11 to 0.5.12.post1", "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"),
        ("from 0.5.13 on", "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)"),
    ]


def test_one_sentence_says_what_the_ids_mean_and_since_when():
    assert sentence(story(STORY)) == (
        f"{NAME}, EAGLE3: ids [2, 30, 58] mean boundaries 3, 31, 59 in 0.5.11 to 0.5.12.post1 and 2, 30, 58 from 0.5.13"
        " on (models/kimi.py, models/base.py); before 0.5.11 CUDA graphs replayed the default taps (2, 30, 58; eager "
        "execution 3, 31, 59); not registered as a target before 0.5.9; no capture hook in 0.5.9"
    )


def test_a_meaning_that_comes_back_is_told_once():
    back = (release("1", ONE_MORE), release("2", AS_IS), release("3", ONE_MORE))
    assert "mean boundaries 3, 31, 59 in 1, in 3 and 2, 30, 58 in 2 (" in sentence(story(back))


def test_graphs_that_replay_the_same_are_no_second_answer():
    same = story((release("1", AS_IS, graphs="default"), release("2", AS_IS)))
    assert told(same) == [("from 1 on", "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)")]


def test_what_cannot_be_told_of_graphs_is_said():
    unknown = msgspec.structs.replace(
        STORY[4], graphs={"EAGLE3": GraphReplay("unknown", reason="the order cannot be told")}
    )
    (line,) = story((unknown,)).lines
    assert line.text.endswith("what CUDA graphs replay is not decidable (the order cannot be told)")
    assert "it cannot be told what CUDA graphs replay" in sentence(story((unknown,)))


def test_line_numbers_do_not_make_a_change():
    moved = msgspec.structs.replace(
        BROKEN_RULE, reason="raises KeyError @ models/kimi.py:99", source=Source("models/kimi.py", "set", 90)
    )
    history = story((release("1", BROKEN_RULE), release("2", moved)))
    assert told(history) == [("from 1 on", "has a hook that cannot work: raises KeyError @ models/kimi.py:11")]
    assert history.lines[0].source == "models/kimi.py:10 (set)"


def test_broken_and_opaque_are_lines_with_reason_and_place():
    history = story((release("1", BROKEN_RULE), release("2", OPAQUE_RULE), release("3", ONE_MORE)))
    assert [line.status for line in history.lines] == ["broken", "not decidable", "captures"]
    assert history.lines[1].text == "not decidable: no rule fits"
    assert history.lines[1].source == "models/kimi.py:12 (set)"
    assert sentence(history).endswith("has a hook that cannot work before 2; not decidable in 2")


def test_a_release_that_reads_no_ids_gives_them_no_meaning():
    deaf = release("1", ONE_MORE, reading=IdReading())
    history = story((deaf, STORY[4]))
    assert (
        history.lines[0].text
        == "the default, since no ids are read: boundaries 2, 30, 58 (outputs of layers 1, 29, 57)"
    )
    assert "mean boundaries 3, 31, 59 in 0.5.11 (" in sentence(history)


def test_lost_states_and_errors_are_told():
    loud = msgspec.structs.replace(ONE_MORE, capture=CaptureRule(last=Region("error", "IndexError", "setter")))
    history = story((release("1", ONE_MORE), release("2", loud)), ids=(2, 30, 60))
    assert told(history) == [
        ("1", "boundaries 3, 31 (outputs of layers 2, 30), 61 dropped silently: 2 of 3 states arrive"),
        ("2", "IndexError at start-up"),
    ]
    assert history.lines[1].status == "raises"
    assert sentence(history).startswith(
        f"{NAME}, EAGLE3: ids [2, 30, 60] have no one meaning in any of these releases; "
    )


def test_without_a_depth_the_ids_are_taken_to_lie_inside_and_that_is_said():
    history = story(STORY[-1:], layers=None)
    assert history.assumed == "a target of more than 59 layers"
    assert told(history) == [("0.5.14", "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)")]


def test_a_config_that_the_release_refuses_or_does_not_explain():
    strict = msgspec.structs.replace(READING, range_high="N-1", error="ValueError")
    (line,) = story((release("1", ONE_MORE, reading=strict),), ids=(2, 61)).lines
    assert (line.status, line.text) == ("raises", f"ValueError when the drafter's config is read ({KEY})")
    assert line.source == "runner.py:5 (read)"
    unclear = msgspec.structs.replace(READING, status=OPAQUE, reason="no rule reads them")
    (line,) = story((release("1", ONE_MORE, reading=unclear),)).lines
    assert (line.status, line.text) == ("not decidable", "not decidable: no rule reads them")


def test_a_config_that_turns_capture_off_is_fed_the_final_state():
    reading = msgspec.structs.replace(READING, switch="eagle_config.use_aux_hidden_state")
    facts = DrafterFacts("", "EAGLE3", config={"eagle_config": {"use_aux_hidden_state": False}})
    seen = answer(release("1", ONE_MORE, reading=reading), Question(NAME, "EAGLE3", 61, facts))
    assert (seen.kind, seen.words()) == ("off", "capture is turned off: final norm (after boundary 61)")


def test_moves_of_ids_that_a_class_name_does_not_tell_are_noted():
    moved = msgspec.structs.replace(READING, shifts=(ReadingShift(1, "kimi", ("D",)), ReadingShift(2, "muse", ())))
    history = story((STORY[4], release("0.5.12", ONE_MORE, reading=moved)))
    assert history.notes == (
        "not counted above, in 0.5.12: ids move by +1 before the setter sees them of D on targets of model_type kimi",
    )


def test_what_depends_on_a_depth_that_is_not_known_is_told_as_expressions():
    sticky = msgspec.structs.replace(ONE_MORE, sticky=True)
    first, second = story((STORY[2], release("0.5.11", sticky, graphs="default")), layers=None).lines
    replay = "CUDA graphs replay the default, boundaries 2, N//2, N-3 (outputs of layers 1, N//2-1, N-4)"
    assert first.text == f"boundaries 3, 31, 59 (outputs of layers 2, 30, 58) in eager execution; {replay}"
    assert second.text.startswith(
        "boundaries 2, 3, 31, 59, N//2, N-3 (outputs of layers 1, 2, 30, 58, N//2-1, N-4) in eager"
    )
    deaf = story((release("1", ONE_MORE, reading=IdReading()),), layers=None).lines[0]
    assert deaf.text.endswith("boundaries 2, N//2, N-3 (outputs of layers 1, N//2-1, N-4)")


@given(st.integers(0, limits.target_max_layers))
def test_boundaries_of_targets_that_exist_are_numbers(boundary):
    assert words.boundary_name(boundary) == boundary


@pytest.mark.parametrize("expression", ["N", "N-1", "N-3", "N//2", "N//2+1", "N//3-2", "N//4"])
def test_boundaries_of_a_target_of_unknown_depth_are_expressions(expression):
    assert words.boundary_name(evaluate_expression(expression, words.UNKNOWN_DEPTH)) == expression


def test_layers_spread_over_a_depth_that_is_not_known_have_no_numbers():
    spread = IdReading(keys=("ids",), missing="formula")
    profile = msgspec.structs.replace(release("1", ONE_MORE, method="DFLASH"), readings={"DFLASH": spread})
    facts = DrafterFacts("", "DFLASH", config={"num_hidden_layers": 5})
    seen = answer(profile, Question(NAME, "DFLASH", words.UNKNOWN_DEPTH, facts))
    assert seen.words() == "boundaries spread over the target's depth"
    assert answer(profile, Question(NAME, "DFLASH", 36, facts)).boundaries == "2, 10, 18, 26, 34"


def test_ids_are_written_where_the_release_takes_them():
    picky = IdReading(
        keys=("first", "second"), unchecked=("first",), checks_all=True, missing="error", requires=("rank",)
    )
    history = ids_history((release("1", ONE_MORE, reading=picky, method="DSPARK"),), NAME, "DSPARK", (2, 30, 58), 61)
    assert told(history) == [("1", "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)")]


def test_the_rule_is_told_once_and_then_its_changes():
    history = rule_history(STORY, NAME, "EAGLE3")
    assert [line.span.text() for line in history.lines] == [
        "0.5.8",
        "0.5.9",
        "0.5.10 to 0.5.10.post1",
        "0.5.11 to 0.5.12.post1",
        "from 0.5.13 on",
    ]
    assert "without ids: boundaries 2, N//2, N-3; ids become boundaries: id+1" in history.lines[2].text
    assert history.lines[3].text == "CUDA graphs replay: the default -> the same"
    assert history.lines[4].text == "ids become boundaries: id+1 -> id+1 if first==1, else id"
    assert "boundaries 2, 30, 58" in rule_history(STORY, NAME, "EAGLE3", 61).lines[2].text


def test_a_rule_that_comes_back_after_a_defect_is_told_by_what_changed():
    history = rule_history((release("1", ONE_MORE), release("2", BROKEN_RULE), release("3", AS_IS)), NAME, "EAGLE3")
    assert [line.status for line in history.lines] == ["fitted", "broken", "fitted"]
    assert history.lines[2].text == "ids become boundaries: id+1 -> id+1 if first==1, else id"
    again = rule_history((release("1", ONE_MORE), release("2", BROKEN_RULE), release("3", ONE_MORE)), NAME, "EAGLE3")
    assert again.lines[2].text == "as before"


def test_a_drafter_class_has_a_history():
    profiles = [
        msgspec.structs.replace(release(version), drafters=drafters)
        for version, drafters in (
            ("1", {}),
            ("2", {"D": Drafter("EAGLE3", source=Source("models/d.py", "__init__", 3))}),
            ("3", {"D": Drafter("EAGLE3", source=Source("models/d.py", "__init__", 9))}),
            ("4", {"D": Drafter("EAGLE3", keys=("fc_norm",), fc_norm=("fc_norm",))}),
        )
    ]
    history = class_history(profiles, "D")
    assert told(history) == [
        ("1", "no such drafter class"),
        ("2 to 3", "known, for EAGLE3"),
        ("4", "norm per state switched on by: nothing -> [fc_norm]; config keys read: nothing -> [fc_norm]"),
    ]
    assert history.lines[1].source == "models/d.py:3 (__init__)"


def test_methods_are_those_that_any_release_has_a_hook_for():
    assert methods_of(STORY, NAME) == ("EAGLE3",)
    assert methods_of(STORY[:2], NAME) == ()


@pytest.mark.parametrize(
    ("architecture", "method", "ids", "layers", "meaning"),
    [
        ("KimiK25ForConditionalGeneration", "EAGLE3", (2, 30, 58), 61, ["3, 31, 59", "2, 30, 58", "2, 30, 58"]),
        ("GptOssForCausalLM", "EAGLE3", (24, 30, 36), 36, ["25, 31", "25, 31", "24, 30, 36"]),
        ("Qwen3ForCausalLM", "EAGLE3", (2, 18, 33), 36, ["3, 19, 34"] * 3),
        ("Qwen3ForCausalLM", "DFLASH", (2, 18, 33), 36, ["3, 19, 34"] * 3),
    ],
)
def test_shipped_releases(architecture, method, ids, layers, meaning):
    profiles = [load_profile("sglang", one) for one in ("0.5.12.post1", "0.5.15", "0.5.23")]
    answers = {}
    for line in ids_history(profiles, architecture, method, ids, layers).lines:
        first, last = (("0.5.12.post1", "0.5.15", "0.5.23").index(end) for end in (line.span.first, line.span.last))
        answers |= dict.fromkeys(range(first, last + 1), line.answer.boundaries)
    assert [answers[index] for index in range(3)] == meaning


def test_states_lost_in_eager_execution_are_not_left_out_beside_graphs():
    told_once = sentence(story((release("1", ONE_MORE, graphs="default"), STORY[4]), ids=(2, 30, 60)))
    assert "eager execution boundaries 3, 31 (outputs of layers 2, 30), 61 dropped silently: 2 of 3" in told_once


@pytest.mark.parametrize(
    "version", [version for version in releases("sglang") if version_key(version) >= version_key("0.5.9")]
)
def test_the_incidents_ids_in_every_shipped_release(version):
    """What a survey of the source said of them, release by release."""
    profile = load_profile("sglang", version)
    seen = ids_history((profile,), "KimiK25ForConditionalGeneration", "EAGLE3", (2, 30, 58), 61).lines[0].answer
    if version_key(version) < version_key("0.5.10"):
        assert seen.kind == "no hook"
        return
    assert seen.boundaries == ("3, 31, 59" if version_key(version) < version_key("0.5.13") else "2, 30, 58")
    assert seen.replays_otherwise is (version_key(version) < version_key("0.5.11"))
    if seen.replays_otherwise:
        assert words.boundary_list(seen.effect.replay) == "2, 30, 58"
