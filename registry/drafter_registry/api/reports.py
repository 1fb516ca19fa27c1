"""How often engines may be reported: a bucket for each instance of a token, and one for the token, that refill."""

from __future__ import annotations

import time
from collections import OrderedDict

from drafter_registry import limits
from drafter_registry.errors import TooManyRequestsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: Token's name, and an instance; or None for all that the token reports.
    Key = tuple[str, str | None]

#: Buckets remembered at most; the longest unused is forgotten first, and is full again.
_REMEMBERED = 16_384


class Reports:
    """Counts reports, on this server alone.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[Key, tuple[float, float]] = OrderedDict()

    def take(self, token: str, instances: Iterable[str]) -> None:
        """Count one report; a report that is refused does not count.

        Args:
            token: Name of the token.
            instances: Whose observations are in the report.

        Raises:
            TooManyRequestsError: Too many of the token or of one of the instances; says when to try again.
        """
        keys: list[Key] = [(token, None), *((token, instance) for instance in sorted(set(instances)))]
        left = {key: self._left(key) for key in keys}
        waits = {key: (1 - left[key]) * 60 / _per_minute(key) for key in keys if left[key] < 1}
        if waits:
            key = max(waits, key=lambda one: waits[one])
            wait = int(waits[key]) + 1
            whose = "this token" if key[1] is None else f"the instance {key[1][:80]!r}"
            raise TooManyRequestsError(
                f"{whose} is reported too often",
                hint=f"try again in {wait} s; a report holds all that was seen in the hour, so none is lost",
                retry_after=wait,
            )
        now = self._clock()
        for key in keys:
            self._buckets[key] = (left[key] - 1, now)
            self._buckets.move_to_end(key)
        while len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)

    def _left(self, key: Key) -> float:
        most = limits.token_reports_burst if key[1] is None else limits.instance_reports_burst
        left, at = self._buckets.get(key, (float(most), self._clock()))
        return min(left + (self._clock() - at) * _per_minute(key) / 60, most)


def _per_minute(key: Key) -> int:
    return limits.token_reports_per_minute if key[1] is None else limits.instance_reports_per_minute
