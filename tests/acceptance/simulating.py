"""Engines that are made up, to measure how often the words of `judge` are wrong and how soon they come.

python tests/acceptance/simulating.py        prints the tables of docs/acceptance.md (some minutes)
"""

from __future__ import annotations

import math
import random

from drafter_contracts.acceptance.judge import judge
from drafter_contracts.acceptance.records import (
    COLLAPSED,
    DEGRADED,
    TOO_LITTLE,
    Conditions,
    Judgement,
    Reading,
)
from drafter_contracts.manifest_records import Acceptance

STEPS = 3
PROMISED = 2.75
CONDITIONS = Conditions(engine="sglang", release="0.5.23", steps=STEPS, topk=1, draft_tokens=STEPS + 1)
PROMISE = Acceptance(length=PROMISED, engine="sglang 0.5.23", steps=STEPS, topk=1, draft_tokens=STEPS + 1)


def lengths(rng: random.Random, length: float, deviation: float, alike: float, count: int) -> list[float]:
    """Readings about a length, cut to what is possible; `alike` is the correlation of neighbours (AR(1))."""
    found, state = [], rng.gauss(0, 1)
    for _ in range(count):
        found.append(round(min(max(length + deviation * state, 1.0), STEPS + 1.0), 2))
        state = alike * state + math.sqrt(1 - alike * alike) * rng.gauss(0, 1)
    return found


def readings(values: list[float]) -> list[Reading]:
    return [Reading(length=value) for value in values]


def judged(values: list[float], alpha: float = 0.01) -> Judgement:
    return judge(readings(values), [PROMISE], CONDITIONS, alpha=alpha)


def looks(most: int) -> list[int]:
    """After how many readings one looks: ever rarer, as little happens between two looks late."""
    found, count = [], 10.0
    while count < most:
        found.append(round(count))
        count = max(count + 5, count * 1.1)
    return [*found, most]


def ever(values: list[float], words: tuple[str, ...], alpha: float = 0.01) -> bool:
    """Whether one of the words was said at any look."""
    return any(judged(values[:count], alpha).word in words for count in looks(len(values)))


def until(values: list[float]) -> tuple[int, str]:
    """After how many readings the first word is said, and which."""
    for count in looks(len(values)):
        word = judged(values[:count]).word
        if word != TOO_LITTLE:
            return count, word
    return len(values), TOO_LITTLE


def _errors(runs: int = 60, count: int = 3000, deviations: tuple[float, ...] = (0.2, 0.4, 0.8)) -> None:
    print("deviation  alike  outside  false")  # noqa: T201
    for deviation in deviations:
        for alike in (0.0, 0.5, 0.8, 0.9, 0.95):
            rng = random.Random(7)  # noqa: S311 - drawn again the same
            outside = false = 0
            for _ in range(runs):
                values = lengths(rng, PROMISED, deviation, alike, count)
                found = [judged(values[:seen]) for seen in looks(count)]
                outside += any(not one.low <= _mean(deviation) <= one.high for one in found)
                false += any(one.word in (DEGRADED, COLLAPSED) for one in found)
            print(f"{deviation:9} {alike:6} {outside / runs:8.3f} {false / runs:6.3f}", flush=True)  # noqa: T201


def _mean(deviation: float) -> float:
    """Mean of a normal length that is cut to [1, K + 1]."""
    total = weight = 0.0
    for step in range(-4000, 4001):
        density = math.exp(-0.5 * (step / 800) ** 2)
        total += density * min(max(PROMISED + deviation * step / 800, 1.0), STEPS + 1.0)
        weight += density
    return total / weight


def _power(runs: int = 41) -> None:
    print("missing  deviation  median  last  words")  # noqa: T201
    for missing in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0):
        for deviation in (0.2, 0.6):
            rng = random.Random(11)  # noqa: S311 - drawn again the same
            length = 1 + (1 - missing) * (PROMISED - 1)
            spread = deviation if missing < 1 else 0.0
            found = sorted(until(lengths(rng, length, spread, 0.0, 12_000)) for _ in range(runs))
            words = sorted({word for _, word in found})
            last = found[-1][0]
            print(f"{missing:7} {deviation:10} {found[runs // 2][0]:7} {last:5}  {words}", flush=True)  # noqa: T201


def _collapse(runs: int = 41) -> None:
    print("missing  until 'collapsed' (median)")  # noqa: T201
    for missing in (0.6, 0.7, 0.8, 0.9, 1.0):
        rng, found = random.Random(13), []  # noqa: S311 - drawn again the same
        for _ in range(runs):
            spread = 0.4 if missing < 1 else 0.0
            values = lengths(rng, 1 + (1 - missing) * (PROMISED - 1), spread, 0.0, 4000)
            found.append(next((n for n in looks(4000) if judged(values[:n]).word == COLLAPSED), 4000))
        print(f"{missing:7} {sorted(found)[runs // 2]:7}", flush=True)  # noqa: T201


def _late() -> None:
    print("good readings  length then  until 'collapsed'")  # noqa: T201
    for good in (300, 900, 1800, 3600):
        for length in (1.0, 1.3):
            rng = random.Random(1)  # noqa: S311 - drawn again the same
            before = lengths(rng, PROMISED, 0.4, 0.0, good)
            after = lengths(rng, length, 0.2 if length > 1 else 0.0, 0.0, 2000)
            counts = range(20, 2000, 20)
            told = next((n for n in counts if judged(before + after[:n]).word == COLLAPSED), 2000)
            print(f"{good:13} {length:12} {told:10}", flush=True)  # noqa: T201


if __name__ == "__main__":
    _power()
    _collapse()
    _late()
    _errors()
