"""What scores say about the stated layout, and what would settle it where they do not."""

from dataclasses import replace

import msgspec
import pytest
import torch
from making.remembering import Remembering, made_up_capture

from drafter_contracts.evidence.documents import LayoutScore
from drafter_contracts.layout import Tap, layout_from_boundaries
from drafter_contracts.values.acceptance import STATED, Measurement, Passage, judge, measure, neighbours

LAYOUT = layout_from_boundaries([1, 3, 5])
STEPS = 3


def score(name, length, *, error=0.01, base=2.4, boundaries=(3, 31, 59)):
    behind = length - base
    return LayoutScore(
        name=name,
        boundaries=boundaries,
        steps=(0.7,),
        length=length,
        deviation=0.02,
        behind=behind,
        behind_deviation=0.0 if name == STATED else error,
    )


def measurement(*scores, recorded=None, chance=1.05, rows=900, blocks=30):
    names = [one.name for one in (*scores, *((recorded,) if recorded else ()))]
    return Measurement(
        scores=scores,
        recorded=recorded,
        chance=dict.fromkeys(names, chance),
        rows=rows,
        blocks=blocks,
        greedy=0.5,
    )


FIRST = score(STATED, 2.4)


def test_a_trained_layout_is_told_from_its_neighbours():
    capture = made_up_capture(tokens=600)
    layouts = [(STATED, LAYOUT), *neighbours(LAYOUT, 6)]
    judged = judge(measure(Remembering(capture, LAYOUT), [Passage(capture=capture)], layouts, STEPS))
    assert judged.verdict == "stated"
    assert judged.reason.startswith("no layout is better than the stated one, 2.4")
    assert "does not tell" not in judged.reason


def test_another_layout_that_is_better_is_named():
    capture = made_up_capture(tokens=600)
    wrong = layout_from_boundaries([0, 3, 5])
    layouts = [(STATED, wrong), *neighbours(wrong, 6)]
    judged = judge(measure(Remembering(capture, LAYOUT), [Passage(capture=capture)], layouts, STEPS))
    assert judged.verdict == "other"
    assert "tap 0 one higher, boundaries [1, 3, 5], is better than the stated layout" in judged.reason


def test_a_drafter_that_is_never_accepted_proves_nothing():
    capture = made_up_capture(tokens=600)
    elsewhere = made_up_capture(tokens=600, seed=9)
    layouts = [(STATED, LAYOUT), *neighbours(LAYOUT, 6)]
    judged = judge(measure(Remembering(elsewhere, LAYOUT), [Passage(capture=capture)], layouts, STEPS))
    assert judged.verdict == "unknown"
    assert "never accepted under any layout tried" in judged.reason
    assert "drafters identify" in judged.reason


def test_few_rows_above_chance_are_not_called_never_accepted():
    wide = [msgspec.structs.replace(one, deviation=0.6) for one in (FIRST, score("all one lower", 1.2))]
    judged = judge(measurement(*wide, rows=30, blocks=10))
    assert judged.verdict == "unknown"
    assert "30 rows do not tell from chance" in judged.reason
    assert "2.40 tokens per step at most, 1.05 by chance" in judged.reason
    assert "never" not in judged.reason


def test_a_drafter_that_always_says_the_same_is_accepted_by_chance():
    capture = made_up_capture(tokens=600, vocabulary=3)
    layouts = [(STATED, LAYOUT), *neighbours(LAYOUT, 6)]
    measured = measure(Constant(), [Passage(capture=capture)], layouts, STEPS)
    assert measured.scores[0].length == pytest.approx(measured.chance[STATED], abs=0.1)
    assert measured.scores[0].length > 1.3
    assert judge(measured).verdict == "unknown"


class Constant:
    """Drafts the same token for ever."""

    taps = 3

    def choices(self, states, tokens, steps):
        return torch.ones(steps, len(tokens) - steps, dtype=torch.int64)


def test_a_layout_under_which_it_says_the_same_for_ever_is_no_better_one():
    measured = measurement(FIRST, score("default", 2.6), score("embedding first", 1.4))
    assert judge(measured).verdict == "other"
    constant = judge(replace(measured, chance=measured.chance | {"default": 2.6}))
    assert constant.verdict == "unknown"


def test_a_layout_within_chance_leaves_it_open_and_says_how_many_rows_would_tell():
    judged = judge(measurement(FIRST, score("default", 2.38), score("embedding first", 1.4)))
    assert judged.verdict == "unknown"
    assert "default cannot be told from the stated layout, 2.38 against 2.40" in judged.reason
    # 3.28 errors by t with 29 degrees: (3.28 x 0.01 / 0.02) squared times 900
    assert "about 2500 rows would tell (900 so far): give more tokens" in judged.reason
    same = judge(measurement(FIRST, score("default", 2.4)))
    assert same.verdict == "unknown"
    assert "they may be the same" in same.reason
    above = judge(measurement(FIRST, score("default", 2.42)))
    assert above.verdict == "unknown"


def test_a_tap_that_moved_by_one_layer_may_be_near_and_is_named():
    near = [score(f"tap {at} one lower", 2.41 - 0.01 * at) for at in range(5)]
    judged = judge(measurement(FIRST, *near, score("default", 2.1), score("embedding first", 1.4)))
    assert judged.verdict == "stated"
    assert "default comes next with 2.10" in judged.reason
    named = "tap 0 one lower, tap 1 one lower, tap 2 one lower and 2 more"
    assert f"acceptance does not tell {named} from it, drafters identify does" in judged.reason
    assert judge(measurement(FIRST, score("tap 0 one lower", 2.5), score("default", 2.1))).verdict == "other"
    given = judge(measurement(FIRST, score("given 1", 2.4), score("default", 2.1)))
    assert given.verdict == "unknown"
    alone = judge(measurement(FIRST, score("tap 0 one lower", 2.1)))
    assert alone.verdict == "unknown"


def test_each_that_is_behind_is_asked_for_itself():
    behind = [score(f"order {number}", 2.4 - 0.034) for number in range(20)]  # 3.4 errors where 3.28 are needed
    assert judge(measurement(FIRST, *behind)).verdict == "stated"


def test_better_by_chance_or_by_nothing_that_matters_is_no_other_layout():
    assert judge(measurement(FIRST, score("default", 2.5, error=0.05))).verdict == "unknown"
    assert judge(measurement(FIRST, score("default", 2.415, error=0.0001))).verdict == "unknown"
    assert judge(measurement(FIRST, score("default", 2.5, error=0.01))).verdict == "other"


def test_more_comparisons_ask_for_more():
    one = score("default", 2.435, error=0.01)
    worse = [score(f"tap {number} one lower", 1.5) for number in range(24)]
    assert judge(measurement(FIRST, one)).verdict == "other"
    assert judge(measurement(FIRST, one, *worse)).verdict == "unknown"


def test_few_rows_prove_nothing():
    judged = judge(measurement(FIRST, score("default", 3.5), rows=40, blocks=7))
    assert judged.verdict == "unknown"
    assert judged.reason.startswith("40 rows are too few")
    assert judge(measurement(FIRST, score("default", 3.5), rows=48, blocks=8)).verdict == "other"


def test_nothing_to_compare_with():
    judged = judge(measurement(FIRST))
    assert judged.verdict == "unknown"
    assert "--layouts" in judged.reason


def test_the_stated_layout_must_draft_itself():
    poor = score(STATED, 1.07, base=1.07)
    judged = judge(measurement(poor, score("default", 1.0, base=1.07, error=0.001), chance=1.01))
    assert judged.verdict == "unknown"
    assert "do not tell from chance" in judged.reason


def test_the_samples_own_states_hold_something_else():
    others = [score("default", 1.5)]
    better = judge(measurement(FIRST, *others, recorded=score("as recorded", 2.8, boundaries=())))
    assert better.verdict == "unknown"
    assert "2.80 against 2.40" in better.reason
    assert "drafters identify" in better.reason
    worse = judge(measurement(FIRST, *others, recorded=score("as recorded", 1.8, boundaries=())))
    assert worse.verdict == "stated"
    assert any("not those of the stated layout: 1.80 against 2.40" in note for note in worse.notes)
    same = judge(measurement(FIRST, *others, recorded=score("as recorded", 2.405, boundaries=())))
    assert same.verdict == "stated"
    assert not any("not those of the stated layout" in note for note in same.notes)
    both = judge(measurement(FIRST, score("default", 2.8), recorded=score("as recorded", 2.9, boundaries=())))
    assert both.verdict == "other"
    assert both.reason.startswith("default")


def test_no_layout_is_stated():
    judged = judge(measurement(score("given 2", 2.4), score("given 1", 1.4)))
    assert judged.verdict == "unknown"
    assert "boundaries [3, 31, 59] are best" in judged.reason
    assert "--boundaries" in judged.reason


def test_notes_say_what_the_numbers_rest_on():
    capture = made_up_capture(tokens=600)
    partly = replace(capture, states={tap: state for tap, state in capture.states.items() if tap != Tap(0)})
    layouts = [(STATED, LAYOUT), *neighbours(LAYOUT, 6)]
    notes = judge(measure(Remembering(capture, LAYOUT), [Passage(capture=partly)], layouts, STEPS)).notes
    assert any(note.startswith("by chance, ") for note in notes)
    assert any("100.0% of its tokens" in note for note in notes)
    assert any("lacks their states" in note and "embedding first" in note for note in notes)
