"""A trained drafter on its target's own text: real acceptance, and the layouts of the incident."""

import pytest
import torch
from making.engine_loop import accepted_by, drafts_of_an_engine

from drafter_contracts.layout import layout_from_boundaries
from drafter_contracts.values.acceptance import STATED, Passage, judge, measure, neighbours
from drafter_contracts.values.acceptance.hits import Hits, hits_of, states_of
from drafter_contracts.values.acceptance.scores import served_length
from drafter_contracts.values.drafting import load_drafter
from drafter_contracts.values.targets import embedding_and_head, open_target

STEPS = 3


@pytest.fixture(scope="module")
def target(trained):
    return open_target(trained.target, dtype="float32")


@pytest.fixture(scope="module")
def drafter(trained):
    embedding, head = embedding_and_head(trained.target)
    return load_drafter(trained.drafter, embedding=embedding, head=head, target_hidden_size=trained.hidden_size)


@pytest.fixture(scope="module")
def captures(trained, target):
    return [target.run(torch.tensor(text)) for text in trained.texts]


def test_on_its_targets_text_the_count_is_that_of_a_real_speculative_loop(trained, target, drafter, captures):
    layout = layout_from_boundaries(trained.boundaries)
    capture, text = captures[0], torch.tensor(trained.text)
    fused = torch.cat(states_of(capture, layout), dim=-1)
    hits = hits_of(drafter, states_of(capture, layout), capture, STEPS)
    first, last = trained.prompt, trained.prompt + 36
    assert capture.choices[first - 1 : -1].tolist() == text[first:].tolist()  # it wrote it itself

    every = {
        at: accepted_by(
            lambda given: target.run(given, taps=()).choices,
            text,
            at,
            drafts_of_an_engine(drafter, fused, text, at, STEPS),
        )
        for at in range(first, last)
    }
    assert hits.accepted[first:last].tolist() == list(every.values())
    assert len(set(every.values())) > 2

    at, tokens, steps = first, 0, 0
    while at < last:
        tokens, steps, at = tokens + every[at] + 1, steps + 1, at + every[at] + 1
    walked = Hits(drafted=hits.drafted[:, first:last], chosen=hits.chosen[:, first:last])
    assert served_length([walked]) == tokens / steps


def test_the_trained_layout_is_the_best_of_its_neighbours_and_that_of_the_labels_is_refused(trained, drafter, captures):
    passages = [Passage(capture=capture) for capture in captures]
    true, labelled = (layout_from_boundaries(one) for one in (trained.boundaries, trained.labelled))
    measured = measure(drafter, passages, [(STATED, true), *neighbours(true, trained.layers)], STEPS)
    judged = judge(measured)
    assert judged.verdict == "stated", judged.reason
    confused = {score.name: score for score in measured.scores}["embedding first"]
    assert confused.boundaries == trained.labelled
    assert confused.behind < -0.25
    assert confused.behind < -4 * confused.behind_deviation
    assert measured.scores[0].length > measured.chance[STATED] + 1

    other = judge(measure(drafter, passages, [(STATED, labelled), ("given 1", true)], STEPS))
    assert other.verdict == "other"
    assert str(list(trained.boundaries)) in other.reason
