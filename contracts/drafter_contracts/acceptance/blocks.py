"""Readings to observations: consecutive readings are put together to blocks, each of them one observation in [0, 1].

Readings seconds apart are of the same requests, and one that covers three steps is worth less than one of three
thousand. So a block is the mean over some readings in a row, by their verify steps where they are told, and blocks
count alike. Blocks grow while an engine is watched: the more of them, the less may neighbours be alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from drafter_contracts.acceptance.records import Reading

#: A block has at least so many readings, or lasts so long (seconds): a difference of counters is of many steps already.
BLOCK_READINGS = 5
BLOCK_SECONDS = 15.0
#: After so many blocks each one is of twice as much, after as many again of three times as much, and so they stay.
BLOCKS_OF_A_SIZE = 50
LARGEST = 3
#: And at least so many verify steps, where they are told: what one request does between two log lines of SGLang.
BLOCK_STEPS = 40
#: Releases print two decimals, and some divide figures that are not of the same moment.
ROUNDING = 0.02


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """Readings, put together.

    Attributes:
        lengths: Mean length of each full block, in order.
        ends: Readings up to the end of each block.
        readings: Readings that count, those of a last block that is not full yet included.
        verify_steps: Verify steps in them, None where a reading does not tell.
        seen: Mean length of all of them, by verify steps where all tell; None if there are none.
    """

    lengths: tuple[float, ...]
    ends: tuple[int, ...]
    readings: int
    verify_steps: int | None
    seen: float | None


def told_steps(readings: Sequence[Reading]) -> int | None:
    """Verify steps of all the readings, or None if one does not tell."""
    steps = [reading.verify_steps for reading in readings]
    told = [number for number in steps if number is not None]
    return sum(told) if len(told) == len(steps) else None


def mean_length(readings: Sequence[Reading]) -> float:
    """Mean length, at least 1: by verify steps where every reading tells them, else each reading alike."""
    if told_steps(readings):
        weights = [float(reading.verify_steps or 0) for reading in readings]
    else:
        weights = [1.0] * len(readings)
    pairs = zip(weights, readings, strict=True)
    return max(sum(weight * reading.length for weight, reading in pairs) / sum(weights), 1.0)


def counting(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """The readings in which something was verified: an idle engine reports a length of 0, or no steps."""
    return tuple(reading for reading in readings if reading.verify_steps != 0 and reading.length != 0)


def impossible(readings: Iterable[Reading], drafted: int | None) -> str:
    """What is wrong with readings that no mean of steps can be, in words; "" if nothing is.

    Args:
        readings: Those that count.
        drafted: Drafted tokens per path, K: a step gives from 1 to K + 1 tokens. None if not known.
    """
    for reading in readings:
        if not reading.length >= 1 - ROUNDING:
            return f"a reading of {reading.length:g} tokens per step: a step gives one token at least"
        if drafted is not None and not reading.length <= drafted + 1 + ROUNDING:
            return (
                f"a reading of {reading.length:g} tokens per step: {drafted} drafted tokens give {drafted + 1} at most"
            )
    return ""


def blocks(readings: Iterable[Reading]) -> Blocks:
    """Put readings together, in the order in which they came."""
    counted = counting(readings)
    lengths: list[float] = []
    ends: list[int] = []
    block: list[Reading] = []
    begun: float | None = None
    for number, reading in enumerate(counted, 1):
        block.append(reading)
        if begun is None:
            begun = reading.time
        if _full(block, begun, min(1 + len(lengths) // BLOCKS_OF_A_SIZE, LARGEST)):
            lengths.append(mean_length(block))
            ends.append(number)
            block, begun = [], reading.time
    return Blocks(
        lengths=tuple(lengths),
        ends=tuple(ends),
        readings=len(counted),
        verify_steps=told_steps(counted) if counted else None,
        seen=mean_length(counted) if counted else None,
    )


def amount(count: int) -> int:
    """What so many blocks take, in blocks of the first size."""
    return sum(max(count - BLOCKS_OF_A_SIZE * size, 0) for size in range(LARGEST))


def _full(block: list[Reading], begun: float | None, times: int) -> bool:
    """Whether a block is full: long enough, and of enough steps, both `times` over; the last one ended at `begun`."""
    steps = told_steps(block)
    if steps is not None and steps < times * BLOCK_STEPS:
        return False
    if len(block) >= times * BLOCK_READINGS:
        return True
    last = block[-1].time
    return begun is not None and last is not None and last - begun >= times * BLOCK_SECONDS
