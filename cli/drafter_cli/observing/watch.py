"""Readings so far, judged: all together, and each data-parallel rank by itself."""

from __future__ import annotations

import msgspec

from drafter_contracts.acceptance.blocks import counting
from drafter_contracts.acceptance.judge import LEFT, NEVER_SEEN, judge
from drafter_contracts.acceptance.records import (
    AS_PROMISED,
    COLLAPSED,
    DEGRADED,
    NOT_PROMISED,
    Conditions,
    Judgement,
    Reading,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drafter_contracts.acceptance.promises import Promise

#: Chance that a verdict is ever wrong, over a whole observation and all ranks.
ALPHA = 0.01
#: Readings that are judged together come from so many seconds, and are no more than so many: a collapse after many good
#: hours would take long to show among them.
WINDOW = 3600.0
MOST = 20_000
#: Windows that are kept for the report: a week.
WINDOWS_KEPT = 168
_BAD = (DEGRADED, COLLAPSED)
#: Words that are verdicts.
SETTLED = (AS_PROMISED, DEGRADED, COLLAPSED)


#: In `fail_on`: no drafted token is ever accepted.
NEVER = "never-accepted"


def is_named(found: Judgement, names: Sequence[str]) -> bool:
    """Whether a verdict is one of these: words with dashes for spaces, or `NEVER`."""
    return found.word.replace(" ", "-") in names or (found.never_accepted and NEVER in names)


def is_final(found: Judgement, names: Sequence[str]) -> bool:
    """Whether a verdict says all that is asked: of a drafter that is degraded, whether it is worse than that, too.

    Args:
        found: The verdict.
        names: What is asked for, see `is_named`: the fewer of an engine's steps were seen, the milder is what can be
            said of it, so that an early `degraded` does not answer whether it is collapsed.
    """
    if is_named(found, names) or found.word == AS_PROMISED:
        return True
    low = found.low if found.low is not None else 1.0
    if found.word == NOT_PROMISED:
        return low > NEVER_SEEN
    if found.word not in SETTLED or (NEVER in names and low <= NEVER_SEEN):
        return False
    if found.word == DEGRADED and COLLAPSED in names:
        return found.promised is None or low >= 1 + LEFT * (found.promised - 1)
    return True


class RankSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One data-parallel rank and what it was seen to do."""

    rank: str
    judgement: Judgement


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen.

    Attributes:
        judgement: Of all ranks together; where one rank alone is worse, that one's, which its reason then says.
        ranks: Each rank by itself, in the order of their names; empty for an engine with one.
    """

    judgement: Judgement
    ranks: tuple[RankSeen, ...] = ()


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen in one stretch of time that is over.

    Attributes:
        begun: Time of its first reading, Unix seconds.
        ended: Of its last.
        judgement: As `Seen.judgement`.
    """

    begun: float
    ended: float
    judgement: Judgement


class Watch:
    """An observation, window after window: each is judged by itself, with the whole chance of a wrong verdict.

    Within a window that chance is shared out: half of it to all ranks together, the other half to the ranks, each an
    equal part.

    Args:
        promises: What the drafter is promised to do.
        conditions: Under what it is seen.
        simulated: Why the engine's figures are made up, or "".
        window: Seconds of readings that are judged together.
        alpha: Chance that a window's verdict is ever wrong.
        most: Readings kept.

    Attributes:
        count: Readings in all.
        first: Time of the first of them, Unix seconds; None before it.
        last: Of the last.
        windows: Windows that are over, the latest last, under the conditions of now.
    """

    def __init__(
        self,
        promises: Sequence[Promise],
        conditions: Conditions,
        *,
        simulated: str = "",
        window: float = WINDOW,
        alpha: float = ALPHA,
        most: int = MOST,
    ) -> None:
        self.promises, self.conditions, self.simulated = tuple(promises), conditions, simulated
        self.count = 0
        self.first: float | None = None
        self.last: float | None = None
        self.windows: list[Window] = []
        self._window, self._alpha, self._most = window, alpha, most
        self._readings: list[Reading] = []
        self._seen: Seen | None = None

    def add(self, readings: Iterable[Reading]) -> list[Window]:
        """More readings, each with its time; the windows that are over by them."""
        over = []
        for reading in counting(readings):
            if self._readings and self._is_over(reading):
                over.append(self._close())
            self._readings.append(reading)
            self.count += 1
            self._seen = None
            self._date(reading)
        return over

    def replace(self, readings: Iterable[Reading]) -> None:
        """All readings there are, in place of those before: an engine's own running mean."""
        self._readings = list(readings)
        self.count, self._seen = len(self._readings), None
        for reading in self._readings:
            self._date(reading)

    def begin_anew(self, conditions: Conditions, simulated: str) -> None:
        """The engine runs under other conditions now: what was seen before says nothing of it."""
        self.conditions, self.simulated = conditions, simulated
        self._readings, self.windows, self._seen = [], [], None

    def seen(self) -> Seen:
        """What is seen in the present window, judged."""
        if self._seen is None:
            self._seen = self._judged()
        return self._seen

    def verdict(self) -> Judgement:
        """The present window's verdict; where it has none yet, that of the latest that had one."""
        now = self.seen().judgement
        if now.word in SETTLED:
            return now
        return next((one.judgement for one in reversed(self.windows) if one.judgement.word in SETTLED), now)

    def _date(self, reading: Reading) -> None:
        self.last = reading.time
        self.first = self.last if self.first is None else self.first

    def _is_over(self, reading: Reading) -> bool:
        passed = _time(reading) - _time(self._readings[0])
        return len(self._readings) >= self._most or passed >= self._window

    def _close(self) -> Window:
        window = Window(
            begun=_time(self._readings[0]), ended=_time(self._readings[-1]), judgement=self.seen().judgement
        )
        self.windows = [*self.windows[1 - WINDOWS_KEPT :], window]
        self._readings, self._seen = [], None
        return window

    def _judged(self) -> Seen:
        by_rank: dict[str, list[Reading]] = {}
        for reading in self._readings:
            by_rank.setdefault(reading.rank, []).append(reading)
        if len(by_rank) < 2:
            return Seen(judgement=self._judge(self._readings, self._alpha))
        part = self._alpha / 2
        ranks = tuple(
            RankSeen(rank=rank, judgement=self._judge(by_rank[rank], part / len(by_rank)))
            for rank in sorted(by_rank, key=lambda name: (len(name), name))
        )
        together = self._judge(self._readings, part)
        bad = [one for one in ranks if one.judgement.word in _BAD]
        worst = max(bad, key=lambda one: _BAD.index(one.judgement.word), default=None)
        if worst is not None and (
            together.word not in _BAD or _BAD.index(worst.judgement.word) > _BAD.index(together.word)
        ):
            together = msgspec.structs.replace(
                worst.judgement, reason=f"rank {worst.rank} by itself: {worst.judgement.reason}"
            )
        return Seen(judgement=together, ranks=ranks)

    def _judge(self, readings: Sequence[Reading], alpha: float) -> Judgement:
        return judge(readings, self.promises, self.conditions, alpha=alpha, simulated=self.simulated)


def _time(reading: Reading) -> float:
    return reading.time or 0.0
