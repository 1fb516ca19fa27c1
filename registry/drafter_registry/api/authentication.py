"""Who asks: the bearer token of a request, and how often an address may be wrong."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from hashlib import sha256

from drafter_registry import limits
from drafter_registry.api.metrics import Metrics
from drafter_registry.errors import NotAuthorisedError, TooManyRequestsError
from drafter_registry.service.context import Actor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

#: Addresses and tokens remembered at most; the longest unused is forgotten first.
_REMEMBERED = 4096


def bearer(request: Request) -> str:
    """The token that a request carries, "" if none.

    Raises:
        NotAuthorisedError: An Authorization header of another kind, or two of them.
    """
    headers = request.headers.getlist("authorization")
    if not headers:
        return ""
    scheme, _, token = headers[0].partition(" ")
    token = token.strip()
    if len(headers) > 1 or scheme.lower() != "bearer" or not token:
        raise NotAuthorisedError(
            "the Authorization header is no bearer token", hint="send: Authorization: Bearer TOKEN"
        )
    return token


class Attempts:
    """Counts failed attempts per address, in a bucket that refills.

    An address whose bucket is empty is not looked up any more, unless it shows a token that was good here before:
    one misconfigured job behind a shared address must not lock everybody else out.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str, token: str) -> None:
        """Return if the token may be looked up.

        Raises:
            TooManyRequestsError: Too many failures; says when to try again.
        """
        left = self._left(_network(address))
        if left >= 1 or sha256(token.encode()).digest() in self._good:
            return
        wait = int((1 - left) * 60 / limits.auth_failures_per_minute) + 1
        raise TooManyRequestsError(
            "too many tokens of this address were wrong", hint=f"try again in {wait} s", retry_after=wait
        )

    def failed(self, address: str) -> None:
        """Count one failure."""
        network = _network(address)
        self._buckets[network] = (max(self._left(network) - 1, 0.0), self._clock())
        self._buckets.move_to_end(network)
        while len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)

    def succeeded(self, token: str) -> None:
        """Remember that a token was good."""
        key = sha256(token.encode()).digest()
        self._good[key] = None
        self._good.move_to_end(key)
        while len(self._good) > _REMEMBERED:
            self._good.popitem(last=False)

    def _left(self, network: str) -> float:
        left, at = self._buckets.get(network, (float(limits.auth_failures_burst), self._clock()))
        return min(left + (self._clock() - at) * limits.auth_failures_per_minute / 60, limits.auth_failures_burst)


def _network(address: str) -> str:
    """The address, or of IPv6 the /64 that one customer has."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


class Recent:
    """Tokens that were good a moment ago: whoever asks often costs one look-up a second.

    A token that is revoked here is forgotten here at once; one that is revoked elsewhere, within `KEPT` seconds.

    Args:
        clock: Seconds that only go forward.
    """

    #: Seconds.
    KEPT = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[bytes, tuple[float, Actor]] = {}
        self._cleared = float("-inf")

    def get(self, token: str) -> Actor | None:
        """Who showed that token a moment ago, or None."""
        found = self._found.get(sha256(token.encode()).digest())
        return found[1] if found is not None and self._clock() - found[0] < self.KEPT else None

    def put(self, token: str, asked: float, actor: Actor) -> None:
        """Remember.

        Args:
            token: As shown.
            asked: `now()` from before it was looked up.
            actor: Who it is.
        """
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        if asked > self._cleared:
            self._found[sha256(token.encode()).digest()] = (asked, actor)

    def now(self) -> float:
        """The clock."""
        return self._clock()

    def clear(self) -> None:
        """Forget all; also what is being looked up at this moment."""
        self._cleared = self._clock()
        self._found.clear()


def count_failure(metrics: Metrics, error: Exception) -> None:
    """Count a refused token by why."""
    metrics.auth_failures.labels("limited" if isinstance(error, TooManyRequestsError) else "refused").inc()
