"""Acceptance on recorded states: which layout a drafter drafts best from, and how well.

`layouts` says which layouts to try, `hits` runs the drafter, `scores` counts, `judging` says what follows.
"""

from drafter_contracts.values.acceptance.hits import Drafts, Passage
from drafter_contracts.values.acceptance.judging import Judgement, judge
from drafter_contracts.values.acceptance.layouts import STATED, neighbours
from drafter_contracts.values.acceptance.scores import Measurement, evaluate, measure

__all__ = [
    "STATED",
    "Drafts",
    "Judgement",
    "Measurement",
    "Passage",
    "evaluate",
    "judge",
    "measure",
    "neighbours",
]
