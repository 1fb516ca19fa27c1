"""The incident in small: recorded states whose labels claim the embedding, and what they really are."""

from __future__ import annotations

import os

import torch

from drafter_contracts.layout import Tap
from drafter_contracts.values.records import SPECULATORS_V1
from drafter_contracts.values.targets import open_target

from . import formats
from .trained import Trained

#: The label's last number is that of the target's last state, which this format keeps beside the others.
LAST = 7


def dump(made: Trained, folder: str) -> str:
    """The held-out texts with the states that the drafter was trained on, float32, and a label that is wrong.

    The masks include what the target wrote itself.
    """
    target = open_target(made.target, dtype="float32")
    for number, text in enumerate(made.texts):
        capture = target.run(torch.tensor(text))
        formats.write(
            SPECULATORS_V1,
            folder,
            capture.tokens,
            [capture.states[Tap(boundary)] for boundary in made.boundaries],
            capture.states[Tap(made.layers)],
            name=f"data_{number}",
            labels=(*made.labelled, LAST),
            loss_mask=(torch.arange(len(text)) >= made.prompt).long(),
        )
    return os.path.abspath(folder)
