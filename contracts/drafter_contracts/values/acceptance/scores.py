"""How well a drafter drafts under each layout, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch

from drafter_contracts.errors import CaptureError, InternalError
from drafter_contracts.evidence.documents import LayoutScore
from drafter_contracts.layout import RESIDUAL, CaptureLayout, describe_taps
from drafter_contracts.value_types import State
from drafter_contracts.values.acceptance.blocks import block_numbers, mean_and_error
from drafter_contracts.values.acceptance.hits import (
    Drafts,
    Hits,
    Passage,
    check_taps,
    hits_of,
    states_of,
    too_short,
)
from drafter_contracts.values.records import Capture

#: Name of the score on the states that the samples themselves hold.
AS_RECORDED = "as recorded"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a drafter did.

    Attributes:
        scores: The layout that the others are compared with first, then these, best first.
        recorded: On the states that the samples hold, or None.
        chance: Per score: the length that its first choices would have if they were shuffled among the rows.
        rows: Rows that were counted.
        blocks: Blocks of neighbouring rows among them, see `blocks`.
        greedy: How often the text is the target's own first choice, 0 to 1.
        left_out: Layouts of which the reference does not hold every state.
    """

    scores: tuple[LayoutScore, ...]
    recorded: LayoutScore | None
    chance: dict[str, float]
    rows: int
    blocks: int
    greedy: float
    left_out: tuple[tuple[str, CaptureLayout], ...] = ()


@dataclass
class _Tally:
    """Hits per name, one entry per passage; None once a passage has not the states for it."""

    hits: dict[str, list[Hits] | None] = field(default_factory=dict)
    counted: list[torch.Tensor] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    agreed: int = 0
    asked: int = 0

    def add(self, name: str, hits: Hits | None) -> None:
        before = self.hits.setdefault(name, [])
        if before is None or hits is None:
            self.hits[name] = None
        else:
            before.append(hits)


def evaluate(
    drafter: Drafts, captures: Sequence[Capture], layouts: Sequence[tuple[str, CaptureLayout]], steps: int
) -> tuple[LayoutScore, ...]:
    """Score a drafter under several layouts on a target's own states.

    Args:
        drafter: The drafter.
        captures: The target's states and choices; every row of them counts.
        layouts: (name, layout), the stated one first.
        steps: Tokens drafted per step, 1 or more.

    Returns:
        The stated layout's score first, then the others, best first.

    Raises:
        CaptureError: No choices of the target, or no states of the stated layout.
        LayoutError: A layout that does not fit `fc`.
        SampleError: Too few tokens.
    """
    return measure(drafter, (Passage(capture=capture) for capture in captures), layouts, steps).scores


def measure(
    drafter: Drafts,
    passages: Iterable[Passage],
    layouts: Sequence[tuple[str, CaptureLayout]],
    steps: int,
    *,
    ranked: bool = False,
) -> Measurement:
    """As `evaluate`, of passages that are looked at one after another, with everything that a judgement needs.

    Args:
        drafter: The drafter.
        passages: What it drafts in; those that are too short do not count.
        layouts: (name, layout), the stated one first.
        steps: Tokens drafted per step, 1 or more.
        ranked: No layout is stated: the best one stands first and the others are compared with it.

    Raises:
        CaptureError, LayoutError, SampleError: See `evaluate`.
    """
    if not layouts or steps < 1:
        raise InternalError("nothing to evaluate", expected="a layout and a step", actual=f"{len(layouts)}, {steps}")
    check_taps(drafter, layouts)
    tally = _Tally()
    for passage in passages:
        if passage.rows(steps):
            _add(tally, drafter, passage, layouts, steps)
    if not any(bool(counted.any()) for counted in tally.counted):
        raise too_short(steps)
    base = layouts[0][0]
    if ranked:
        lengths = {
            name: _mean(hits, tally.counted) for name, hits in tally.hits.items() if hits and name != AS_RECORDED
        }
        base = max(lengths, key=lambda name: lengths[name], default=base)
    if tally.hits[base] is None:
        raise _lacking(layouts, tally)
    return _measured(tally, layouts, steps, base)


def _add(
    tally: _Tally, drafter: Drafts, passage: Passage, layouts: Sequence[tuple[str, CaptureLayout]], steps: int
) -> None:
    capture = passage.capture
    tally.counted.append(passage.counted(steps))
    tally.held.append(describe_taps(capture.taps()))
    for name, layout in layouts:
        states = states_of(capture, layout)
        tally.add(name, None if states is None else hits_of(drafter, states, capture, steps))
    recorded = passage.recorded
    tally.add(AS_RECORDED, None if recorded is None else hits_of(drafter, recorded, capture, steps))
    if capture.choices is not None:
        tally.agreed += int((capture.choices[:-1].cpu() == capture.tokens[1:].cpu()).sum())
        tally.asked += len(capture.tokens) - 1


def _lacking(layouts: Sequence[tuple[str, CaptureLayout]], tally: _Tally) -> CaptureError:
    wanted = next(layout for name, layout in layouts if tally.hits[name] is None)
    held = "; ".join(dict.fromkeys(tally.held))
    return CaptureError("the reference lacks states", expected=describe_taps(wanted.taps), actual=held)


def _measured(tally: _Tally, layouts: Sequence[tuple[str, CaptureLayout]], steps: int, base_name: str) -> Measurement:
    blocks = block_numbers(tally.counted, steps)
    by_name = {name: hits for name, hits in tally.hits.items() if hits is not None}
    base = _accepted(by_name[base_name], tally.counted)
    scores = {
        name: _score(name, layout, by_name[name], base, tally.counted, blocks)
        for name, layout in layouts
        if name in by_name
    }
    first = scores.pop(base_name)
    recorded = None
    if AS_RECORDED in by_name:
        recorded = _score(AS_RECORDED, None, by_name[AS_RECORDED], base, tally.counted, blocks)
    return Measurement(
        scores=(first, *sorted(scores.values(), key=lambda score: -score.length)),
        recorded=recorded,
        chance={name: _chance_length(hits, tally.counted) for name, hits in by_name.items()},
        rows=len(blocks),
        blocks=int(blocks.max()) + 1,
        greedy=tally.agreed / tally.asked,
        left_out=tuple((name, layout) for name, layout in layouts if name not in by_name),
    )


def _score(
    name: str,
    layout: CaptureLayout | None,
    hits: Sequence[Hits],
    base: torch.Tensor,
    counted: Sequence[torch.Tensor],
    blocks: torch.Tensor,
) -> LayoutScore:
    accepted = _accepted(hits, counted)
    right = torch.cat([one.right[:, rows] for one, rows in zip(hits, counted, strict=True)], dim=1)
    mean, deviation = mean_and_error(accepted, blocks)
    behind, behind_deviation = mean_and_error(accepted - base, blocks)
    taps = () if layout is None else layout.taps
    states = () if all(tap.state == RESIDUAL for tap in taps) else tuple(tap.state for tap in taps)
    return LayoutScore(
        name=name,
        boundaries=tuple(tap.boundary for tap in taps),
        states=cast("tuple[State, ...]", states),
        steps=tuple(right.double().mean(1).tolist()),
        length=1 + mean,
        served=served_length(hits, counted),
        deviation=deviation,
        behind=behind,
        behind_deviation=behind_deviation,
    )


def _accepted(hits: Sequence[Hits], counted: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([one.accepted[rows] for one, rows in zip(hits, counted, strict=True)])


def _mean(hits: Sequence[Hits], counted: Sequence[torch.Tensor]) -> float:
    return float(_accepted(hits, counted).double().mean())


def served_length(hits: Sequence[Hits], counted: Sequence[torch.Tensor] | None = None) -> float:
    """Tokens per step of an engine that drafts its way through the passages, each from its first counted row.

    A step begins where the last one ended: behind its accepted tokens and the target's own one. That visits hard
    stretches more often than easy ones, so it is mostly less than the mean over all rows. Rows before the first
    counted one are the prompt, of which an engine drafts nothing; behind it all are walked, whatever the mask includes.
    A step that ends behind the passage's last row is the last one, and counts in full.
    """
    tokens = count = 0
    for number, one in enumerate(hits):
        gains = (one.accepted + 1).tolist()
        at = 0 if counted is None else _first(counted[number])
        while at < len(gains):
            count += 1
            tokens += gains[at]
            at += gains[at]
    return tokens / count if count else 1.0


def _first(rows: torch.Tensor) -> int:
    """The first row that is counted; behind the last one if none is."""
    return int(rows.int().argmax()) if bool(rows.any()) else len(rows)


def _chance_length(hits: Sequence[Hits], counted: Sequence[torch.Tensor]) -> float:
    """1 + mean run of hits, if first choices and the target's fell together by their frequencies only."""
    drafted = torch.cat([one.drafted[:, rows] for one, rows in zip(hits, counted, strict=True)], dim=1)
    chosen = torch.cat([one.chosen[:, rows] for one, rows in zip(hits, counted, strict=True)], dim=1)
    length, run = 1.0, 1.0
    for ours, theirs in zip(drafted, chosen, strict=True):
        most = int(max(ours.max(), theirs.max())) + 1
        together = torch.bincount(ours, minlength=most).double() @ torch.bincount(theirs, minlength=most).double()
        run *= float(together) / len(ours) ** 2
        length += run
    return length
