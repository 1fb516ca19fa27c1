"""Where readings come from: an engine's counters, its log, or, where there is nothing better, its own mean."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import Literal

from drafter_cli.errors import UnreachableError
from drafter_contracts.acceptance.causes_of_log import arguments_in
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.repeated import Repeats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.observing.engine import EngineClient
    from drafter_cli.observing.follow import Follower
    from drafter_contracts.acceptance.exposition import Snapshot

Kind = Literal["metrics", "log", "server info"]

#: Bytes of a log's beginning in which its engine's arguments are looked for.
_HEAD = 4 * 1024 * 1024

#: What each source cannot tell.
LIMITS: dict[Kind, str] = {
    "metrics": "",
    "log": "",
    "server info": (
        "the engine tells only its mean since it started, and of how many steps it does not say: nothing follows from "
        "it but the figure itself; start it with --enable-metrics, or give its log with --log"
    ),
}


@dataclass(frozen=True)
class Look:
    """What one look found.

    Attributes:
        readings: New readings; of a source that is `cumulative`, all there are.
        notes: What happened meanwhile, one sentence each.
        restarted: Whether the engine was started anew since the last look.
        ended: Whether nothing more can come.
        behind: Whether more is there already.
    """

    readings: tuple[Reading, ...] = ()
    notes: tuple[str, ...] = ()
    restarted: bool = False
    ended: bool = False
    behind: bool = False


class Metrics:
    """Differences of an engine's counters between looks.

    Args:
        client: The engine.
        first: Its counters now, with which the first look is compared.
    """

    kind: Kind = "metrics"
    cumulative = False

    def __init__(self, client: EngineClient, first: Snapshot) -> None:
        self._client, self._before = client, first

    def look(self, now: float) -> Look:
        """What was counted since the last look.

        Args:
            now: Unix seconds, for readings that carry no time.

        Raises:
            UnreachableError: No answer.
            UsageError: It wants a key.
            ContractsError: What it answers is no exposition.
        """
        from drafter_contracts.acceptance.exposition import difference, restarted

        after = self._client.metrics()
        if after is None:
            raise UnreachableError(f"{self._client.url}/metrics is no longer there", "was it started --enable-metrics?")
        before, self._before = self._before, after
        why = restarted(before, after)
        notes = (f"the engine was started anew: {why}",) if why else ()
        return Look(tuple(_dated(one, now) for one in difference(before, after)), notes, restarted=bool(why))


class Log:
    """Lines of a log. A line with the arguments in force is an engine's start: what follows it is a look of its own.

    Args:
        follower: The log.

    Attributes:
        arguments: The arguments in force that it stated last; empty where it did not yet.
    """

    kind: Kind = "log"
    cumulative = False

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._lines: deque[str] = deque()
        self._repeats = Repeats()
        self.arguments: dict[str, object] = {}
        for line in _head(follower.path):
            self.arguments = arguments_in(line) or self.arguments

    def look(self, now: float) -> Look:
        """What was written since the last look; see `Metrics.look`. Lines that carry no time are of now."""
        from drafter_contracts.acceptance.sglang_log import read_line

        if not self._lines:
            self._lines.extend(self._follower.poll())
        notes, self._follower.notes = tuple(self._follower.notes), []
        readings: list[Reading] = []
        restarted = False
        while self._lines and not restarted:
            arguments = arguments_in(self._lines[0])
            if arguments and readings:
                break
            restarted = bool(arguments)
            if restarted:
                self._repeats.forget()
            self.arguments = arguments or self.arguments
            line = self._lines.popleft()
            reading = read_line(line)
            if reading is not None and not self._repeats.again(line):
                readings.append(_dated(reading, now))
        behind = bool(self._lines) or self._follower.behind
        return Look(
            tuple(readings), notes, restarted=restarted, ended=self._follower.ended and not behind, behind=behind
        )


def _head(path: str) -> list[str]:
    """The first lines of a log's file; none of a pipe."""
    try:
        if not os.path.isfile(path):
            return []
        with open(path, "rb") as file:
            return file.read(_HEAD).decode(errors="replace").splitlines()
    except OSError:
        return []


class ServerInfo:
    """An engine's own mean since its start, per rank. Each look replaces the one before: they are no two figures.

    Args:
        client: The engine.
    """

    kind: Kind = "server info"
    cumulative = True

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    def look(self, now: float) -> Look:
        """The means now; see `Metrics.look`."""
        state = self._client.state()
        several = len(state.lengths) > 1
        return Look(
            tuple(
                Reading(length=length, rank=str(rank) if several else "", time=now, source="server info")
                for rank, length in enumerate(state.lengths)
                if length is not None
            )
        )


Source = Metrics | Log | ServerInfo


def _dated(reading: Reading, now: float) -> Reading:
    if reading.time is not None:
        return reading
    import msgspec

    return msgspec.structs.replace(reading, time=now)
