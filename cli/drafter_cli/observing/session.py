"""Looking at an engine again and again: when to look, when to stop, and what to do while it does not answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from drafter_cli.errors import UsageError
from drafter_cli.observing.watch import is_final
from drafter_contracts.acceptance.records import Conditions, Reading
from drafter_contracts.errors import ContractsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drafter_cli.observing.sources import Look, Source
    from drafter_cli.observing.watch import Seen, Watch, Window
    from drafter_contracts.acceptance.records import EngineState

#: Longest wait between two questions to an engine that does not answer, seconds.
LONGEST_WAIT = 60.0


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        """Seconds that only ever grow."""
        ...

    def wall(self) -> float:
        """Unix seconds."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...


class SystemClock:
    """This machine's time."""

    def now(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall(self) -> float:
        """See `Clock`."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """See `Clock`."""
        time.sleep(seconds)


class Told(Protocol):
    """Whoever is told what happens."""

    def note(self, text: str) -> None:
        """Something happened, one sentence."""
        ...

    def window(self, window: Window) -> None:
        """A window is over."""
        ...

    def look(self, seen: Seen, readings: Sequence[Reading], conditions: Conditions, wall: float) -> None:
        """A look was taken: what is seen in all, and the readings that are new."""
        ...


@dataclass(frozen=True, kw_only=True)
class Until:
    """When an observation ends; with nothing given, when it is interrupted or its log ends.

    Attributes:
        seconds: After so long.
        readings: After so many readings.
        verdict: As soon as there is a verdict, or where there can be none.
        names: Verdicts that are asked for, see `watch.is_final`.
    """

    seconds: float | None = None
    readings: int | None = None
    verdict: bool = False
    names: tuple[str, ...] = ()


class Session:
    """One observation.

    Args:
        source: What is looked at.
        watch: What judges.
        told: Who is told.
        state: Asks the engine, or the log, again what it is; None where nothing can be asked.
        can_tell: Whether there is something to see at all.
        interval: Seconds between looks.
        clock: Time.
    """

    def __init__(
        self,
        source: Source,
        watch: Watch,
        told: Told,
        *,
        state: Callable[[], EngineState] | None = None,
        can_tell: bool = True,
        interval: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        self._source, self._watch, self._told = source, watch, told
        self._state, self._can_tell, self._interval = state, can_tell, interval
        self._clock = clock if clock is not None else SystemClock()
        self._silent_since: float | None = None
        self._failures = 0
        self._ask_again = False

    def run(self, until: Until) -> None:
        """Look until the end. A keyboard's interrupt is the end, too.

        Raises:
            UsageError, ContractsError: The first look fails: most likely it is asked of the wrong address.
        """
        try:
            self._run(until)
        except KeyboardInterrupt:
            self._told.note("interrupted: this is what was seen until now")

    def _run(self, until: Until) -> None:
        begun = self._clock.now()
        first = True
        while True:
            look = self._look(first=first)
            first = False
            if look is not None and look.ended:
                return
            passed = self._clock.now() - begun
            behind = look is not None and look.behind
            if self._done(until, passed, behind=behind):
                return
            if not behind:
                left = float("inf") if until.seconds is None else until.seconds - passed
                self._clock.wait(max(0.0, min(self._delay(), left)))

    def _look(self, *, first: bool) -> Look | None:
        try:
            look = self._source.look(self._clock.wall())
        except (UsageError, ContractsError) as error:
            if first:
                raise
            self._fails(error)
            return None
        for note in look.notes:
            self._told.note(note)
        changed = self._answers(look)
        if changed:  # what was read may be of both engines
            return look
        if self._source.cumulative:
            self._watch.replace(look.readings)
        for window in self._watch.add(look.readings) if not self._source.cumulative else ():
            self._told.window(window)
        # Neither a mean since the start, told again and again, nor what is made up is a report of an hour.
        new = () if self._source.cumulative or self._watch.simulated else look.readings
        self._told.look(self._watch.seen(), new, self._watch.conditions, self._clock.wall())
        return look

    def _fails(self, error: UsageError | ContractsError) -> None:
        self._failures += 1
        if self._silent_since is None:
            self._silent_since = self._clock.now()
            self._told.note(f"{error.message}; it is asked again, less and less often")

    def _answers(self, look: Look) -> bool:
        """Whether it runs under other conditions than before: asked after a silence, and after a restart."""
        if self._silent_since is not None:
            self._told.note(f"it answers again after {self._clock.now() - self._silent_since:.0f} s")
        self._ask_again = self._ask_again or self._silent_since is not None or look.restarted
        self._silent_since, self._failures = None, 0
        if not self._ask_again or self._state is None:
            return False
        try:
            state = self._state()
        except (UsageError, ContractsError):
            return False  # asked again after the next look
        self._ask_again = False
        watch = self._watch
        if (state.conditions, state.simulated) == (watch.conditions, watch.simulated):
            return False
        changed = "; ".join(_changes(watch.conditions, state.conditions)) or state.simulated or "no longer simulated"
        self._told.note(f"the engine runs under other conditions now, and the observation begins anew: {changed}")
        watch.begin_anew(state.conditions, state.simulated)
        return True

    def _delay(self) -> float:
        longest = max(self._interval, LONGEST_WAIT)
        return min(self._interval * 2.0 ** min(self._failures, 32), longest)

    def _done(self, until: Until, passed: float, *, behind: bool) -> bool:
        if until.readings is not None and self._watch.count >= until.readings:
            return True
        hopeless = not self._can_tell or self._source.cumulative or self._watch.simulated
        if until.verdict and (hopeless or is_final(self._watch.verdict(), until.names)):
            return True
        return until.seconds is not None and passed >= until.seconds and not behind


def _changes(before: Conditions, after: Conditions) -> list[str]:
    return [
        f"{name} {getattr(before, name) or '?'} -> {getattr(after, name) or '?'}"
        for name in Conditions.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]
