"""What was seen, sent to a registry: one observation per hour, again and again until the hour is over."""

from __future__ import annotations

import hashlib
import secrets

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drafter_cli.client.backend import Backend
    from drafter_contracts.acceptance.hours import Key
    from drafter_contracts.acceptance.records import Conditions, Observation, Reading

#: Seconds between reports, and the longest wait after some that could not be sent.
EVERY, LONGEST_WAIT = 300.0, 3600.0
#: Observations that are kept while a registry does not answer: a week of one engine's hours.
MOST_KEPT = 168
#: Seconds in which an hour's last readings may still come.
_LATE = 2 * 3600


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the reports.

    Attributes:
        reference: To which version.
        run: The name under which this observer reports.
        stored: Hours (of an instance under the same conditions) that the registry holds as they were last seen.
        unsent: Those that it does not.
        dropped: Those given up, for there were too many unsent.
        error: Why the last report was not taken; "" if it was.
    """

    reference: str
    run: str
    stored: int = 0
    unsent: int = 0
    dropped: int = 0
    error: str = ""


class Poster:
    """Reports to a registry. A report that is lost costs nothing: the next one holds the whole hour again.

    Args:
        backend: The registry.
        reference: The version, "name@version": an alias may move meanwhile.
        instance: What the engine is called.
        note: Told what happens.
        source: Names what is read from its beginning each time, so that a second run of this counts nothing twice; ""
            for what is only read on.
        most: Observations that are kept unsent.
    """

    def __init__(
        self,
        backend: Backend,
        reference: str,
        instance: str,
        note: Callable[[str], None],
        *,
        source: str = "",
        most: int = MOST_KEPT,
    ) -> None:
        self._backend, self._reference, self._instance, self._note = backend, reference, instance, note
        own = hashlib.sha256(f"{instance}\0{source}".encode(errors="replace")).hexdigest()[:16] if source else ""
        self._most, self._run = most, f"observe-{own or secrets.token_hex(8)}"
        self._hours: dict[Key, Observation] = {}
        self._unsent: dict[Key, None] = {}
        self._stored: set[Key] = set()
        self._stored_and_gone = self._dropped = self._failures = 0
        self._error = ""
        self._next: float | None = None

    def add(self, readings: Sequence[Reading], conditions: Conditions, wall: float) -> None:
        """More readings; those without a time are of `wall`, Unix seconds."""
        from drafter_contracts.acceptance.hours import aggregate, key, merge

        for observation in aggregate(readings, conditions, self._instance, seen_at=wall):
            where = key(observation)
            known = self._hours.get(where)
            self._hours[where] = observation if known is None else merge(known, observation)
            self._unsent[where] = None
            self._stored.discard(where)
        while len(self._unsent) > self._most:
            oldest = min(self._unsent, key=lambda one: one[0])
            del self._unsent[oldest], self._hours[oldest]
            self._dropped += 1
            if self._dropped == 1:
                self._note(f"more than {self._most} hours are unsent: the oldest are given up")

    def send(self, now: float, wall: float) -> None:
        """Report, if it is time to.

        Args:
            now: Seconds of a clock that only grows.
            wall: Unix seconds.
        """
        if self._next is None:
            self._next = now + EVERY
        if now < self._next:
            return
        self._flush()
        self._next = now + min(EVERY * 2.0 ** min(self._failures, 16), LONGEST_WAIT)
        self._forget(wall)

    def end(self) -> Posted:
        """Report what is left, and say what became of all."""
        self._flush()
        return Posted(
            reference=self._reference,
            run=self._run,
            stored=self._stored_and_gone + len(self._stored),
            unsent=len(self._unsent),
            dropped=self._dropped,
            error=self._error,
        )

    def _flush(self) -> None:
        from drafter_registry import limits

        while self._unsent:
            batch = list(self._unsent)[: limits.observations_max_items]
            if not self._sent(batch):
                return

    def _sent(self, batch: list[Key]) -> bool:
        """Whether the registry had its say on all of these: what it finds wrong in itself is given up."""
        from drafter_cli.errors import UsageError
        from drafter_registry.errors import InvalidError, RegistryError

        try:
            self._backend.observe(self._reference, [self._hours[one] for one in batch], run=self._run)
        except InvalidError as error:
            if len(batch) > 1:
                return all(self._sent([one]) for one in batch)
            self._fails(error.message, again=False)
            del self._unsent[batch[0]], self._hours[batch[0]]
            self._dropped += 1
            return True
        except (RegistryError, UsageError) as error:
            self._fails(error.message)
            return False
        if self._failures:
            self._note(f"{self._backend.name} takes reports again")
        self._error, self._failures = "", 0
        for one in batch:
            del self._unsent[one]
            self._stored.add(one)
        return True

    def _fails(self, message: str, *, again: bool = True) -> None:
        self._failures += again
        if message != self._error:
            what = "it is tried again" if again else "given up"
            self._note(f"not reported to {self._backend.name}: {message}; {what}")
        self._error = message

    def _forget(self, wall: float) -> None:
        """Hours that are over and stored need not be kept."""
        from datetime import UTC, datetime

        until = datetime.fromtimestamp(wall - _LATE, UTC).strftime("%Y-%m-%dT%H:00:00Z")
        for where in [one for one in self._stored if one[0] < until]:
            self._stored.remove(where)
            del self._hours[where]
            self._stored_and_gone += 1
