"""`drafters evaluate` as a process of its own, on a trained drafter and its target's own text."""

from __future__ import annotations

import json

import pytest
import torch
from making import formats

from drafter_cli.errors import EXIT_OK, EXIT_REFUSED
from drafter_contracts.layout import Tap
from drafter_contracts.values.records import SPECFORGE_EAGLE3
from drafter_contracts.values.targets import open_target


@pytest.fixture(scope="module")
def data(trained, tmp_path_factory):
    """Every held-out text, in SpecForge's format; the masks include what the target wrote."""
    folder, target = str(tmp_path_factory.mktemp("data")), open_target(trained.target, dtype="float32")
    for number, text in enumerate(trained.texts):
        capture = target.run(torch.tensor(text))
        states = [capture.states[Tap(boundary)] for boundary in trained.boundaries]
        last = capture.states[Tap(trained.layers, "final_norm")]
        mask = (torch.arange(len(text)) >= trained.prompt).long()
        name = f"data_{number}"
        formats.write(SPECFORGE_EAGLE3, folder, capture.tokens, states, last, name=name, loss_mask=mask)
    return folder


def test_the_true_layout_is_first_by_a_margin_and_the_labels_one_is_refused(drafters, trained, data):
    common = ("evaluate", trained.drafter, data, "--target", trained.target, "--masked", "--json")
    done = drafters(*common)
    assert done.returncode == EXIT_OK, done.stderr
    stated, *others = json.loads(done.stdout)["scores"]
    assert stated["boundaries"] == list(trained.boundaries)
    assert stated["steps"][0] > 0.6
    confused = {tuple(score["boundaries"]): score for score in others}
    for layout in (trained.labelled, (1, 4, 6), (3, 6, 8)):
        score = confused[layout]
        assert score["steps"][0] < stated["steps"][0] - 0.04, score
        assert score["behind"] < -4 * score["behind_deviation"], score

    done = drafters(*common, "--boundaries", ",".join(map(str, trained.labelled)))
    assert done.returncode == EXIT_REFUSED, done.stderr
