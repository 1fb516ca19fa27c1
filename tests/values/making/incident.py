"""The incident in small: recorded states whose labels claim the embedding, and what they really are."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from drafter_contracts.layout import Tap
from drafter_contracts.values.records import SPECULATORS_V1
from drafter_contracts.values.targets import open_target

from . import formats


def dump(
    folder: str,
    target: str,
    texts: Sequence[list[int]],
    prompts: Sequence[int],
    boundaries: tuple[int, ...],
    labels: tuple[int, ...] = (),
) -> str:
    """Texts with the target's states at some boundaries, float32, one file each.

    Args:
        folder: Where to.
        target: The target's directory.
        texts: Tokens of each.
        prompts: How many of each the target did not write: the masks leave them out.
        boundaries: What is recorded.
        labels: What the file beside claims instead; the number of the last state, which this format keeps beside the
            others, is put behind them.
    """
    opened = open_target(target, dtype="float32")
    layers = opened.record.layers
    for number, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
        capture = opened.run(torch.tensor(text))
        formats.write(
            SPECULATORS_V1,
            folder,
            capture.tokens,
            [capture.states[Tap(boundary)] for boundary in boundaries],
            capture.states[Tap(layers)],
            name=f"data_{number}",
            labels=(*labels, layers - 1) if labels else None,
            loss_mask=(torch.arange(len(text)) >= prompt).long(),
        )
    return os.path.abspath(folder)
