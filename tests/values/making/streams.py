"""Residual streams made by adding: what a target's states look like, without a target."""

from __future__ import annotations

import torch

from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.records import Capture

MASSIVE = 1000.0


def stream(
    *, layers: int = 5, width: int = 96, rows: int = 40, seed: int = 0, step: float = 0.4, massive: bool = True
) -> Capture:
    """A float32 capture: every layer adds `step` of the stream's norm; row 0 is a thousand times as large."""
    generator = torch.Generator().manual_seed(seed)
    state = torch.randn(rows, width, generator=generator)
    if massive:
        state[0, 3] = MASSIVE * state[1].norm()
    states = {Tap(0): state}
    for boundary in range(1, layers + 1):
        added = torch.randn(rows, width, generator=generator)
        typical = state[1:].norm(dim=1).mean() * step
        state = state + added / added.norm(dim=1, keepdim=True) * typical
        states[Tap(boundary)] = state
    weight = 1.0 + 0.3 * torch.randn(width, generator=generator)
    states[Tap(layers, FINAL_NORM)] = state * state.square().mean(1, keepdim=True).rsqrt() * weight
    tokens = torch.randint(0, 1000, (rows,), generator=generator)
    return capture_of(states, tokens, layers=layers, width=width)


def capture_of(states: dict[Tap, torch.Tensor], tokens: torch.Tensor, *, layers: int, width: int) -> Capture:
    """A capture of these states."""
    record = ReferenceRecord(kind="capture", layers=layers, hidden_size=width, dtype="float32")
    return Capture(record=record, tokens=tokens, states=states)


def without(capture: Capture, *taps: Tap) -> Capture:
    """The capture, some states left out."""
    states = {tap: state for tap, state in capture.states.items() if tap not in taps}
    return Capture(record=capture.record, tokens=capture.tokens, states=states)


def noisy(state: torch.Tensor, relative: float, seed: int = 0) -> torch.Tensor:
    """The state with noise of this norm, relative to each row."""
    noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(seed + 7919))
    return state + noise / noise.norm(dim=1, keepdim=True) * state.norm(dim=1, keepdim=True) * relative


def rotation(width: int, seed: int = 0) -> torch.Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(seed)))[0]
