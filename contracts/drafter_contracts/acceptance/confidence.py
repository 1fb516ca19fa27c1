"""Bounds for the mean of bounded observations that hold at every moment: look as often as you like, stop when you like.

Betting against a candidate mean (Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting",
JRSS-B 86, 2024): who holds the share c of his wealth in a stake that pays x / m, and the rest in cash, has after n
observations the wealth prod(1 - c + c * x_i / m). If the mean of x is at most m, that is a supermartingale which begins
with 1, and it ever reaches 1 / a with probability a at most (Ville). So m is too low for the true mean once the wealth
is there. The wealth is averaged over fixed shares c (Cover's universal portfolio with the arcsine prior, at 16 points):
any fixed shares are valid, and nothing about the variance need be known.

Fixed shares have a merit that shares adapted on the way do not have: the mean may drift. With conditional means u_i
(given all that was seen before), the product of (1 - c + c * u_i / m) is at most (1 - c + c * u / m)**n for their
average u, by the inequality of the means; where u is at most m the wealth is at most a martingale. So what is bounded
is the average of the conditional means up to now, be they constant or not, independent or not.
"""

from __future__ import annotations

import math

#: Observations are rounded to multiples of 1 / _BINS, away from what they are evidence for: memory is bounded by it.
_BINS = 2000
_POINTS = 16
_SHARES = tuple(math.sin(math.pi * (point + 0.5) / (2 * _POINTS)) ** 2 for point in range(_POINTS))
#: Halvings of an interval of width 1 in the search for a bound.
_HALVINGS = 20


class Mean:
    """Observations in [0, 1], and bounds for their mean.

    Bounds do not depend on the order of the observations. Adding one costs O(1); a bound costs O(distinct values).
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._floors: dict[int, int] = {}
        self._ceilings: dict[int, int] = {}

    def add(self, value: float) -> None:
        """One more observation; it is cut to [0, 1]."""
        value = min(max(value, 0.0), 1.0)
        self.count += 1
        self._sum += value
        # 1e-9: a multiple of the bin's width that is written in binary stays where it is.
        floor = math.floor(value * _BINS + 1e-9)
        ceiling = math.ceil(value * _BINS - 1e-9)
        self._floors[floor] = self._floors.get(floor, 0) + 1
        self._ceilings[_BINS - ceiling] = self._ceilings.get(_BINS - ceiling, 0) + 1

    @property
    def mean(self) -> float:
        """Mean of the observations; 0 if there are none."""
        return self._sum / self.count if self.count else 0.0

    def above(self, candidate: float, *, times: float = 1.0) -> float:
        """Log of the evidence that the mean is above a candidate in [0, 1].

        It ever reaches log(1 / a) wrongly with probability a at most, however often it is asked.

        Args:
            candidate: The mean betted against.
            times: As if everything had been seen so many times.
        """
        return _log_wealth(self._floors, candidate, times)

    def below(self, candidate: float, *, times: float = 1.0) -> float:
        """Log of the evidence that the mean is below a candidate, likewise."""
        return _log_wealth(self._ceilings, 1.0 - candidate, times)

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Lower and upper bound: that either is ever wrong has probability alpha at most, alpha / 2 each."""
        return _bound(self._floors, alpha / 2), 1.0 - _bound(self._ceilings, alpha / 2)


def needed(alpha: float) -> float:
    """Log of the evidence at which one of two bounds, that together err with probability alpha, is told."""
    return math.log(2.0 / alpha)


def _log_wealth(counts: dict[int, int], candidate: float, times: float) -> float:
    """Log of the mean wealth over the shares. A candidate of 0 is refuted by any value above it."""
    if candidate <= 0.0:
        return math.inf if any(counts_at for value, counts_at in counts.items() if value) else 0.0
    scale = 1.0 / (_BINS * candidate)
    values = [(value * scale - 1.0, times * count) for value, count in counts.items()]
    log1p = math.log1p
    logs = [sum([count * log1p(share * gain) for gain, count in values]) for share in _SHARES]
    top = max(logs)
    return top + math.log(sum(math.exp(one - top) for one in logs) / _POINTS)


def _bound(counts: dict[int, int], alpha: float) -> float:
    """The largest candidate that is refuted from below, rounded down; 0 if none is. The wealth falls with it."""
    enough = math.log(1.0 / alpha)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _log_wealth(counts, middle, 1.0) >= enough:
            low = middle
        else:
            high = middle
    return low
