"""A speculative loop as an engine runs it: a drafter that reads its own tokens, a target that verifies them."""

from __future__ import annotations

import torch


def drafts_of_an_engine(drafter, states, text, at, steps):
    """What an engine drafts at a row: from the drafter's own tokens, with nothing behind the row."""
    drafts = []
    unknown = torch.full((steps, states.shape[1]), 1e3)
    for step in range(steps):
        tokens = torch.cat([text[: at + 2], torch.tensor(drafts, dtype=torch.int64), torch.zeros(steps).long()])
        choices = drafter.choices(torch.cat([states[: at + 1], unknown]), tokens[: at + 1 + steps], steps)
        drafts.append(int(choices[step, at]))
    return drafts


def accepted_by(choices_after, text, at, drafts):
    """How many of them the target, run on them, chooses itself."""
    given = torch.cat([text[: at + 2], torch.tensor(drafts, dtype=torch.int64)])
    choices = choices_after(given)
    right = [int(choices[at + 1 + number]) == draft for number, draft in enumerate(drafts)]
    return right.index(False) if False in right else len(right)
