"""The layouts that a drafter may have been given instead of the stated one: every mistake that keeps the shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

from msgspec.structs import replace

from drafter_contracts.layout import RESIDUAL, CaptureLayout, Tap

#: Name of the layout that the others are compared with.
STATED = "stated"
_SINGLE_STEP = re.compile(r"tap \d+ one (lower|higher)")
#: Up to so many taps, every order is tried; of more, the reversal and the swaps of two neighbours.
_ALL_ORDERS = 3


def neighbours(layout: CaptureLayout, layers: int) -> tuple[tuple[str, CaptureLayout], ...]:
    """Layouts as wide as the stated one that confused numberings, configs and engines make of it.

    Each residual tap one lower and one higher, all of them one lower and one higher, the embedding instead of each
    tap, the embedding first and the others one place further (an engine that reads `[3, 31, 59]` as the embedding and
    the first two), other orders, and the default `[2, N // 2, N - 3]` for three taps. Taps of other states stay
    where they are: there is one final norm.

    Args:
        layout: The stated layout.
        layers: N, decoder layers of the target.

    Returns:
        (name, layout), each once, none of them the stated one, none with a boundary outside 0..N. None takes a state
        twice unless the stated one does: no engine captures a layer twice.
    """
    seen = {layout.taps}
    twice = len(set(layout.taps)) < len(layout.taps)
    found = []
    for name, taps in _candidates(layout.taps, layers):
        possible = all(0 <= tap.boundary <= layers for tap in taps)
        if possible and taps not in seen and (twice or len(set(taps)) == len(taps)):
            seen.add(taps)
            found.append((name, replace(layout, taps=taps)))
    return tuple(found)


def is_single_step(name: str) -> bool:
    """Whether a neighbour of that name has one tap among several moved by one layer.

    No confusion of numberings, configs or orders makes such a layout, and it holds nearly what the stated one holds: a
    trained drafter may hardly notice.
    """
    return _SINGLE_STEP.fullmatch(name) is not None


def _candidates(taps: tuple[Tap, ...], layers: int) -> Iterator[tuple[str, tuple[Tap, ...]]]:
    movable = [at for at, tap in enumerate(taps) if tap.state == RESIDUAL]
    if len(movable) > 1:
        for at in movable:
            yield f"tap {at} one lower", _moved(taps, [at], -1)
            yield f"tap {at} one higher", _moved(taps, [at], 1)
    word = "all one" if len(movable) > 1 else "one"
    yield f"{word} lower", _moved(taps, movable, -1)
    yield f"{word} higher", _moved(taps, movable, 1)
    if len(movable) == len(taps):
        yield "embedding first", (Tap(0), *taps[:-1])
    for at in movable:
        yield f"embedding instead of tap {at}", (*taps[:at], Tap(0), *taps[at + 1 :])
    for order in _orders(len(taps)):
        yield f"order {','.join(map(str, order))}", tuple(taps[at] for at in order)
    if len(taps) == 3:
        yield "default", (Tap(2), Tap(layers // 2), Tap(layers - 3))


def _moved(taps: tuple[Tap, ...], which: list[int], by: int) -> tuple[Tap, ...]:
    return tuple(Tap(tap.boundary + by, tap.state) if at in which else tap for at, tap in enumerate(taps))


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    own = tuple(range(count))
    if count <= _ALL_ORDERS:
        yield from (order for order in permutations(own) if order != own)
        return
    yield own[::-1]
    for at in range(count - 1):
        yield (*own[:at], at + 1, at, *own[at + 2 :])
