"""What is seen of acceptance: counters of a running engine, and the lines of a log."""

from __future__ import annotations

import msgspec

from drafter_contracts.acceptance.causes import Cause, Open
from drafter_contracts.acceptance.causes_of_log import arguments_in, cause_in
from drafter_contracts.acceptance.records import COLLAPSED, DEGRADED, TOO_LITTLE, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drafter_cli.observing.engine import EngineClient
    from drafter_contracts.acceptance.promises import Promise
    from drafter_contracts.acceptance.records import EngineState, Judgement
    from drafter_contracts.manifest_records import Acceptance

#: What nothing is judged without.
WHAT = "acceptance"
#: Chance that a verdict on acceptance is ever wrong.
ALPHA = 0.01
_MOST_CAUSES = 50
#: Seconds of readings that are judged together: what was good yesterday does not hide what is bad now.
_WINDOW = 3600.0
#: Words that are worse than others.
_WORSE = {DEGRADED: 1, COLLAPSED: 2}
#: Seconds between two looks at the counters.
_EVERY = 1.0


class Seen(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
        readings: Reports of the engine, in their order.
        causes: What the log says beside them.
        arguments: Arguments in force that the log states.
        told: Where it was read, in words.
        open: What could not be read.
    """

    readings: tuple[Reading, ...] = ()
    causes: tuple[Cause, ...] = ()
    arguments: dict[str, object] = {}
    told: str = ""
    open: tuple[Open, ...] = ()


def of_engine(
    client: EngineClient,
    state: EngineState,
    seconds: float,
    sleep: Callable[[float], None],
    settled: Callable[[tuple[Reading, ...]], bool],
) -> Seen:
    """The counters, every second for a while; else the engine's own mean since its start.

    Args:
        client: The engine.
        state: What it says of itself.
        seconds: For how long to look.
        sleep: Waits so many seconds.
        settled: Whether these readings are enough.

    Raises:
        UsageError: It wants a key.
    """
    from drafter_cli.errors import UnreachableError
    from drafter_contracts.errors import EngineReportError

    try:
        readings, told = _counted(client, seconds, sleep, settled)
    except (UnreachableError, EngineReportError) as error:  # what it said of itself is worth a look all the same
        readings, told = (), str(error)
    own = tuple(
        Reading(length=length, rank=str(rank) if len(state.lengths) > 1 else "", source="server info")
        for rank, length in enumerate(state.lengths)
        if length is not None
    )
    if readings:
        return Seen(readings, told=f"{told}, {len(readings)} looks in which something was verified")
    if own:
        return Seen(own, told="the engine's own mean since its start, of how many steps it does not say")
    return Seen(open=(_nothing(f"{told}, and it tells no mean of its own"),))


def _counted(
    client: EngineClient,
    seconds: float,
    sleep: Callable[[float], None],
    settled: Callable[[tuple[Reading, ...]], bool],
) -> tuple[tuple[Reading, ...], str]:
    """Readings of the counters and where they are from; without any, why there are none."""
    from drafter_contracts.acceptance.exposition import difference, restarted

    before = client.metrics()
    if before is None or not before.tells_acceptance:
        return (), "it tells no counters"
    readings: tuple[Reading, ...] = ()
    told = "/metrics"
    for _ in range(int(seconds / _EVERY)):
        sleep(_EVERY)
        after = client.metrics()
        if after is None:
            break
        if again := restarted(before, after):
            readings, told = (), f"/metrics since the engine was started again ({again})"
        readings += difference(before, after)
        before = after
        if settled(readings):
            break
    return readings, told if readings else f"no verify step was counted in {seconds:g} s"


def of_log(lines: tuple[str, ...], path: str) -> Seen:
    """Everything that a log says.

    Args:
        lines: Its lines.
        path: The file, for messages.
    """
    from drafter_contracts.acceptance.repeated import Repeats
    from drafter_contracts.acceptance.sglang_log import read_line

    readings: list[Reading] = []
    causes: dict[tuple[str, str], Cause] = {}
    arguments: dict[str, object] = {}
    repeats = Repeats()
    for line in lines:
        reading = read_line(line)
        if reading is not None:
            if not repeats.again(line):
                readings.append(reading)
            continue
        stated = arguments_in(line)
        if stated:  # a later start in the same file counts, and what was read of the one before does not
            arguments, readings, causes = stated, [], {}
            repeats.forget()
            continue
        cause = cause_in(line)
        if cause is not None and len(causes) < _MOST_CAUSES:
            causes.setdefault((cause.code, cause.message), cause)
    left = () if readings else (_nothing(f"{path} holds no decode line with an acceptance length"),)
    told = f"{len(readings)} decode lines of {path}" if readings else ""
    return Seen(tuple(readings), tuple(causes.values()), arguments, told, left)


def _nothing(why: str) -> Open:
    return Open(
        what=WHAT,
        why=why,
        settle="send it requests, then ask again; or start it with --enable-metrics, or give its log (--log FILE)",
        decides=True,
    )


def judged(seen: Seen, state: EngineState, promises: Sequence[Promise | Acceptance]) -> Judgement | None:
    """Seen against promised, over the last hour that was seen; None where nothing was.

    Where one data-parallel rank is worse than all together, that rank's judgement counts. The chance of a wrong word is
    shared out between them.
    """
    readings = _recent(seen.readings)
    if not readings:
        return None
    from drafter_contracts.acceptance.judge import judge

    ranks = sorted({reading.rank for reading in readings})
    shares = 2 if len(ranks) > 1 else 1
    whole = judge(readings, promises, state.conditions, alpha=ALPHA / shares, simulated=state.simulated)
    for rank in ranks if shares > 1 else ():
        own = tuple(reading for reading in readings if reading.rank == rank)
        alpha = ALPHA / shares / len(ranks)
        found = judge(own, promises, state.conditions, alpha=alpha, simulated=state.simulated)
        if _WORSE.get(found.word, 0) > _WORSE.get(whole.word, 0):
            whole = msgspec.structs.replace(found, reason=f"rank {rank}: {found.reason}")
    return whole


def _recent(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of the last hour; of a source that tells no times, all."""
    times = [reading.time for reading in readings if reading.time is not None]
    if not times:
        return readings
    since = times[-1] - _WINDOW
    return tuple(reading for reading in readings if reading.time is None or reading.time >= since)


def is_settled(readings: tuple[Reading, ...], state: EngineState, promises: Sequence[Promise | Acceptance]) -> bool:
    """Whether more readings would not change the word: what is degraded may still turn out to have collapsed."""
    found = judged(Seen(readings), state, promises)
    return bool(state.simulated) or (found is not None and found.word not in (TOO_LITTLE, DEGRADED))
