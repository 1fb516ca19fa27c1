"""What is counted when a drafter is run on recorded states, and how sure the counts are."""

import math
from dataclasses import replace

import pytest
import torch
from making.engine_loop import accepted_by, drafts_of_an_engine
from making.remembering import Remembering, made_up_capture

from drafter_contracts.errors import CaptureError, InternalError, LayoutError, SampleError
from drafter_contracts.layout import Tap, layout_from_boundaries
from drafter_contracts.values.acceptance import STATED, Passage, evaluate, measure, neighbours
from drafter_contracts.values.acceptance.blocks import block_numbers, block_rows, mean_and_error, needed_errors
from drafter_contracts.values.acceptance.hits import Hits, hits_of, states_of
from drafter_contracts.values.acceptance.scores import served_length

LAYOUT = layout_from_boundaries([1, 3, 5])
STEPS = 3


def test_on_the_targets_own_text_the_count_is_that_of_a_real_speculative_loop(random_target):
    from drafter_contracts.values.targets import open_target

    target = open_target(random_target, dtype="float32")

    def choices_after(tokens):
        return target.run(tokens, taps=()).choices

    text = torch.tensor([17, 201, 5])
    for _ in range(60):
        text = torch.cat([text, choices_after(text)[-1:]])
    whole = target.run(text)
    greedy = replace(whole, choices=torch.cat([text[1:], whole.choices[-1:]]))  # the first three are given, not chosen
    drafter = Remembering(greedy, LAYOUT, forgets=0.35)
    fused = torch.cat(states_of(whole, LAYOUT), dim=-1)
    hits = hits_of(drafter, states_of(whole, LAYOUT), whole, STEPS)
    rows = len(text) - STEPS
    first = 2  # from here on the text is the target's own
    every = {
        at: accepted_by(choices_after, text, at, drafts_of_an_engine(drafter, fused, text, at, STEPS))
        for at in range(first, rows)
    }
    assert hits.accepted[first:].tolist() == list(every.values())
    assert len(set(every.values())) > 2  # it is right sometimes

    at, tokens, steps = first, 0, 0
    while at < rows:
        tokens, steps, at = tokens + every[at] + 1, steps + 1, at + every[at] + 1
    own = Hits(drafted=hits.drafted[:, first:], chosen=hits.chosen[:, first:])
    assert served_length([own]) == tokens / steps


def test_rates_runs_and_lengths():
    capture = made_up_capture(tokens=9)
    drafted = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1]])
    hits = Hits(drafted=drafted, chosen=torch.ones(2, 4, dtype=torch.int64))
    assert hits.accepted.tolist() == [2, 1, 0, 2]
    # from row 0 to row 3, behind two accepted tokens and the target's own; then the end
    assert served_length([hits]) == 3.0
    assert served_length([hits, Hits(drafted=drafted[:, 2:], chosen=hits.chosen[:, 2:])]) == (3 + 3 + 1 + 3) / 4
    # from row 1: its prompt is not drafted
    counted = [torch.tensor([False, True, False, True]), torch.tensor([False, False, False, False])]
    assert served_length([hits], counted[:1]) == (2 + 3) / 2
    assert served_length([hits, hits], counted) == (2 + 3) / 2, "a passage without a counted row says nothing"
    chosen = hits_of(Remembering(capture, LAYOUT), states_of(capture, LAYOUT), capture, 2).chosen
    assert chosen.tolist() == [capture.choices[1:8].tolist(), capture.choices[2:9].tolist()]


def test_the_score_of_a_drafter_that_forgets():
    capture = made_up_capture(tokens=2000)
    drafter = Remembering(capture, LAYOUT, forgets=0.3)
    (score,) = evaluate(drafter, [capture], [(STATED, LAYOUT)], STEPS)
    kept = ~drafter.forgotten
    rows = 2000 - STEPS
    runs = torch.stack([kept[step : step + rows] for step in range(1, STEPS + 1)]).long()
    assert score.boundaries == (1, 3, 5)
    assert score.steps == pytest.approx(runs.double().mean(1).tolist())
    assert score.length == pytest.approx(1 + float(runs.cumprod(0).sum(0).double().mean()))
    assert score.length == pytest.approx(1 + 0.7 + 0.7**2 + 0.7**3, abs=4 * score.deviation)
    assert 0 < score.deviation < 0.1
    assert (score.behind, score.behind_deviation) == (0, 0)


def test_layouts_are_ranked_with_their_paired_difference():
    capture = made_up_capture(tokens=400)
    drafter = Remembering(capture, LAYOUT)
    scores = evaluate(drafter, [capture], [(STATED, LAYOUT), *neighbours(LAYOUT, 6)], STEPS)
    assert scores[0].name == STATED
    lengths = [score.length for score in scores]
    assert lengths[1:] == sorted(lengths[1:], reverse=True)
    assert {score.name for score in scores[1:]} == {name for name, _ in neighbours(LAYOUT, 6)}
    for score in scores[1:]:
        assert score.behind == pytest.approx(score.length - scores[0].length)
        assert score.behind_deviation > 0
    assert scores[0].length > 2


def test_passages_count_together_and_short_ones_not_at_all():
    capture = made_up_capture(tokens=300)
    drafter = Remembering(capture, LAYOUT)
    parts = [
        replace(
            capture,
            tokens=capture.tokens[part],
            choices=capture.choices[part],
            states={tap: state[part] for tap, state in capture.states.items()},
        )
        for part in (slice(0, 200), slice(200, 203), slice(203, 300))
    ]
    measured = measure(drafter, [Passage(capture=part) for part in parts], [(STATED, LAYOUT)], STEPS)
    assert measured.rows == 197 + 0 + 94
    assert measured.greedy == 1.0
    with pytest.raises(SampleError, match="too few tokens"):
        evaluate(drafter, [parts[1]], [(STATED, LAYOUT)], STEPS)


def test_only_rows_whose_predicted_tokens_the_mask_includes():
    capture = made_up_capture(tokens=12)
    mask = torch.zeros(12, dtype=torch.bool)
    mask[5:] = True
    passage = Passage(capture=capture, mask=mask)
    # row t predicts tokens t + 2 to t + 1 + steps; token 12 lies behind the end
    assert passage.counted(3).nonzero().flatten().tolist() == [3, 4, 5, 6, 7, 8]
    mask[9] = False
    assert passage.counted(3).nonzero().flatten().tolist() == [3, 4, 8]
    measured = measure(Remembering(capture, LAYOUT), [passage], [(STATED, LAYOUT)], 3)
    assert measured.rows == 3
    masked = Passage(capture=capture, mask=torch.zeros(12, dtype=torch.bool))
    with pytest.raises(SampleError):
        measure(Remembering(capture, LAYOUT), [masked], [(STATED, LAYOUT)], 3)


def test_the_samples_own_states_are_scored_beside():
    capture = made_up_capture(tokens=300)
    drafter = Remembering(capture, LAYOUT)
    shifted = tuple(capture.states[Tap(boundary)] for boundary in (0, 1, 3))
    passages = [Passage(capture=capture, recorded=shifted)]
    layouts = [(STATED, LAYOUT), *neighbours(LAYOUT, 6)]
    measured = measure(drafter, passages, layouts, STEPS)
    same = next(score for score in measured.scores if score.name == "embedding first")
    assert measured.recorded.boundaries == ()
    assert (measured.recorded.length, measured.recorded.behind) == (same.length, same.behind)
    assert all(score.name != "as recorded" for score in measured.scores)
    both = [*passages, Passage(capture=capture)]
    assert measure(drafter, both, layouts, STEPS).recorded is None


def test_where_none_is_stated_the_best_stands_first():
    capture = made_up_capture(tokens=300)
    drafter = Remembering(capture, LAYOUT)
    layouts = [("given 1", layout_from_boundaries([0, 1, 3])), ("given 2", LAYOUT)]
    scores = measure(drafter, [Passage(capture=capture)], layouts, STEPS, ranked=True).scores
    assert [score.name for score in scores] == ["given 2", "given 1"]
    assert scores[1].behind == pytest.approx(scores[1].length - scores[0].length)


def test_states_that_a_reference_lacks():
    capture = made_up_capture(tokens=100)
    states = {tap: state for tap, state in capture.states.items() if tap.boundary != 2}
    partly = replace(capture, states=states)
    drafter = Remembering(capture, LAYOUT)
    measured = measure(drafter, [Passage(capture=partly)], [(STATED, LAYOUT), *neighbours(LAYOUT, 6)], STEPS)
    lacking = {name for name, layout in neighbours(LAYOUT, 6) if 2 in layout.boundaries}
    assert {"tap 0 one higher", "tap 1 one lower"} <= lacking
    assert {name for name, _ in measured.left_out} == lacking
    assert len(measured.scores) + len(measured.left_out) == 1 + len(neighbours(LAYOUT, 6))
    with pytest.raises(CaptureError, match="lacks states") as caught:
        measure(drafter, [Passage(capture=partly)], [(STATED, layout_from_boundaries([2, 3, 5]))], STEPS)
    assert "boundaries 2, 3, 5" in caught.value.expected
    with pytest.raises(CaptureError, match="choices"):
        evaluate(drafter, [replace(capture, choices=None)], [(STATED, LAYOUT)], STEPS)


def test_a_layout_that_does_not_fit_fc():
    capture = made_up_capture(tokens=50)
    with pytest.raises(LayoutError, match="does not fit") as caught:
        evaluate(Remembering(capture, LAYOUT), [capture], [(STATED, layout_from_boundaries([1, 3]))], STEPS)
    assert caught.value.expected == "3 taps"
    assert "boundaries 1, 3" in caught.value.actual
    with pytest.raises(InternalError):
        evaluate(Remembering(capture, LAYOUT), [capture], [], STEPS)


def test_first_choices_that_agree_by_chance():
    capture = made_up_capture(tokens=4000, vocabulary=4)
    drafter = Remembering(capture, LAYOUT, forgets=1.0)
    measured = measure(drafter, [Passage(capture=capture)], [(STATED, LAYOUT)], 2)
    assert measured.chance[STATED] == pytest.approx(1 + 1 / 4 + 1 / 16, abs=0.02)
    assert measured.scores[0].length == 1.0


def test_the_error_is_that_of_means_over_rows_that_depend_on_each_other():
    generator = torch.Generator().manual_seed(1)
    rows, means, errors, naive = 900, [], [], []
    for _ in range(300):
        noise = torch.randn(rows + 9, generator=generator, dtype=torch.float64)
        values = noise.unfold(0, 10, 1).mean(1)
        blocks = block_numbers([torch.ones(rows, dtype=torch.bool)], STEPS)
        mean, error = mean_and_error(values, blocks)
        means.append(mean)
        errors.append(error)
        naive.append(float(values.std()) / math.sqrt(rows))
    true = float(torch.tensor(means).std())
    assert 0.8 * true < sum(errors) / len(errors) < 1.15 * true
    assert sum(naive) / len(naive) < 0.5 * true


def test_blocks_are_neighbours_of_one_passage():
    assert block_rows(100, 3) == 10
    assert block_rows(20, 3) == 6
    whole = torch.ones(25, dtype=torch.bool)
    numbers = block_numbers([whole, torch.ones(4, dtype=torch.bool), whole], 3)
    assert numbers.bincount().tolist() == [7, 7, 11, 4, 7, 7, 11]
    assert numbers.tolist() == sorted(numbers.tolist())
    partly = whole.clone()
    partly[5:19] = False
    assert block_numbers([partly], 1).bincount().tolist() == [3, 2, 2, 4]
    assert mean_and_error(torch.ones(3), torch.zeros(3, dtype=torch.int64)) == (1.0, 0.0)
    # two blocks, of means 0 and 1: their deviation is the root of 1/2, that of the mean of two a root of 2 less
    assert mean_and_error(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1])) == (0.5, pytest.approx(0.5))


@pytest.mark.parametrize(("blocks", "errors"), [(8, 4.53), (11, 3.96), (21, 3.42), (51, 3.16), (100_001, 3.0)])
def test_few_blocks_need_a_larger_difference(blocks, errors):
    # Student's t at 99.73 %: table G.2 of the Guide to the Expression of Uncertainty in Measurement
    assert needed_errors(blocks, 1) == pytest.approx(errors, rel=0.03)
    assert needed_errors(blocks, 20) > needed_errors(blocks, 1)
