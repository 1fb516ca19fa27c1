"""What engines were seen to accept, as Prometheus is told: a bounded number of series, looked up now and then."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from drafter_registry import limits
from drafter_registry.service import observed_now
from drafter_registry.service.observed_now import Latest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

_LABELS = ("name", "version", "engine", "release", "instance")


class Observed:
    """Keeps what it found for `limits.metrics_kept_seconds`: several scrapes cost one look-up.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found = b""
        self._until = float("-inf")

    async def text(self, verb: Callable[..., Awaitable[Any]]) -> bytes:
        """The gauges in the text format of Prometheus.

        Args:
            verb: Runs a verb of the service for whoever asks, who may read.

        Raises:
            UnavailableError: The database does not answer.
        """
        if self._clock() >= self._until:
            self._found = _text(*await verb(observed_now.latest))
            self._until = self._clock() + limits.metrics_kept_seconds
        return self._found


def _text(series: tuple[Latest, ...], left_out: int) -> bytes:
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels: tuple[str, ...] = _LABELS) -> Gauge:
        return Gauge(f"drafters_{name}", text, labels, registry=registry)

    length = gauge("observed_length", "Tokens per verify step in the latest hour seen, the bonus token included.")
    lowest = gauge("observed_lowest_length", "Lowest reading of that hour.")
    readings = gauge("observed_readings", "Readings in that hour.")
    hour = gauge("observed_hour_timestamp_seconds", "When that hour began.")
    promised = gauge("promised_length", "Length promised under the conditions seen in that hour.")
    least = gauge("promised_least_length", "Less than this is less than that promise.")
    gauge("observed_left_out", "Series that are not told, for there are too many.", ()).set(left_out)
    for one in series:
        length.labels(*one.labels).set(one.observation.length)
        lowest.labels(*one.labels).set(one.observation.lowest)
        readings.labels(*one.labels).set(one.observation.readings)
        hour.labels(*one.labels).set(one.hour)
        if one.promised is not None:
            promised.labels(*one.labels).set(one.promised.length)
            least.labels(*one.labels).set(one.promised.least)
    return generate_latest(registry)
