"""A drafter that learnt by heart: for tests of what is counted, without a network."""

from __future__ import annotations

import torch

from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.records import Capture


def made_up_capture(*, tokens: int = 200, layers: int = 6, width: int = 8, vocabulary: int = 50, seed: int = 0):
    """States drawn at random, on text that is the target's own: every token is its choice after the one before."""
    generator = torch.Generator().manual_seed(seed)
    text = torch.randint(vocabulary, (tokens + 1,), generator=generator)
    taps = [*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM)]
    return Capture(
        record=ReferenceRecord(kind="target", model="made-up", layers=layers, hidden_size=width, vocab_size=vocabulary),
        tokens=text[:-1],
        states={tap: torch.randn(tokens, width, generator=generator) for tap in taps},
        choices=text[1:],
    )


class Remembering:
    """Knows the target's choices behind every state of one layout.

    It finds the nearest state that it knows and goes on as the text went on there, as long as the tokens it is given
    went on the same way. In a share of the rows it has forgotten the choice.

    Args:
        capture: What it learnt.
        layout: The layout that it learnt it from.
        forgets: Share of choices that it gets wrong.
    """

    def __init__(self, capture, layout, *, forgets: float = 0.3, seed: int = 0):
        self.known = torch.cat([capture.states[tap].float() for tap in layout.taps], dim=-1)
        self.tokens = capture.tokens
        self.after = capture.choices
        self.taps = len(layout.taps)
        self.vocabulary = int(capture.record.vocab_size)
        generator = torch.Generator().manual_seed(seed)
        self.forgotten = torch.rand(len(self.after), generator=generator) < forgets

    def choices(self, states, tokens, steps):
        rows = len(tokens) - steps
        assert rows > 0  # as the real one refuses it
        at = torch.cdist(states[:rows], self.known).argmin(1)
        drafted = []
        for step in range(1, steps + 1):
            place = (at + step).clamp(max=len(self.after) - 1)
            guess = torch.where(self.forgotten[place], (self.after[place] + 1) % self.vocabulary, self.after[place])
            given = tokens[step : step + rows]
            lost = given != self.tokens[place]
            guess = torch.where(lost, (given * 7 + step) % self.vocabulary, guess)
            drafted.append(guess)
        return torch.stack(drafted)
