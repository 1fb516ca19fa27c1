"""Before the first look: what the engine is, where its readings come from, and under what conditions it is seen."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from drafter_cli.observing.sources import LIMITS, Log, Metrics, ServerInfo
from drafter_contracts.acceptance.records import Conditions, EngineState
from drafter_contracts.errors import EngineReportError, InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.observing.engine import EngineClient
    from drafter_cli.observing.follow import Follower
    from drafter_cli.observing.sources import Source
    from drafter_contracts.acceptance.exposition import Snapshot


@dataclass(frozen=True)
class Setting:
    """What is looked at.

    Attributes:
        source: Where readings come from.
        limits: What that cannot tell.
        state: What the engine is; of a log alone, only what the options say.
    """

    source: Source
    limits: tuple[str, ...]
    state: EngineState


class Asked:
    """The engine, with what the command line adds to what it says of itself.

    Args:
        client: The engine; None for a log alone.
        stated: What the command line says of the conditions: it counts where the engine does not say.

    Attributes:
        log: The log that says it where no engine is asked.
        environment_seen: Whether the environment of the engine's processes could be read.
    """

    def __init__(self, client: EngineClient | None, stated: Conditions) -> None:
        self._client, self._stated = client, stated
        self.environment_seen = False
        self.log: Log | None = None

    def state(self) -> EngineState:
        """What the engine is now.

        Raises:
            UnreachableError: No answer.
            UsageError: It wants a key.
            ContractsError: It answers as no known release does.
        """
        state = self._client.state() if self._client is not None else self._of_log()
        simulated = state.simulated or self._simulated(state.release)
        names = Conditions.__struct_fields__
        stated = {name: value for name in names if (value := getattr(self._stated, name)) not in (None, "")}
        said = {name: value for name in names if (value := getattr(state.conditions, name)) not in (None, "")}
        return replace(state, simulated=simulated, conditions=Conditions(**(stated | said)))

    def _of_log(self) -> EngineState:
        if self.log is None or "model_path" not in self.log.arguments:
            return EngineState(engine="")
        from drafter_contracts.acceptance.server_info import read_state

        return read_state({"version": "", **self.log.arguments}, where="the arguments in the log")

    def _simulated(self, release: str) -> str:
        """Why acceptance is made up, by the environment of an engine on this machine."""
        address = self._client.address if self._client is not None else None
        if address is None or not address.is_loopback:
            return ""
        from drafter_cli.observing.environment import environments
        from drafter_contracts.acceptance.simulation import simulated_in

        found = environments(address.port)
        self.environment_seen = found is not None
        return next((reason for one in found or () if (reason := simulated_in(one, release))), "")


def set_up(client: EngineClient | None, follower: Follower | None, asked: Asked) -> Setting:
    """Choose the best source there is: counters, else the log, else the engine's own mean.

    Raises:
        UnreachableError: The engine does not answer.
        UsageError: It wants a key.
        ContractsError: It answers as no known release does.
    """
    limits: list[str] = []
    snapshot = _metrics(client, limits) if client is not None else None
    source: Source
    if client is not None and snapshot is not None and (follower is None or _counts(snapshot)):
        source = Metrics(client, snapshot)
        if follower is not None:
            limits.append("the log is not read: the engine's counters tell more")
    elif follower is not None:
        source = asked.log = Log(follower)
    elif client is not None:
        source = ServerInfo(client)
    else:
        raise InternalError("neither an engine nor a log")
    state = asked.state()
    if LIMITS[source.kind]:
        limits.append(LIMITS[source.kind])
    if state.speculating is False:
        limits.append("the engine says that it runs without speculation: there is nothing to see")
    if state.simulated:
        limits.append("figures that are made up are reported to no registry")
    elif not asked.environment_seen:
        limits.append(
            "the environment of the engine's processes was not seen from here: that SGLANG_SIMULATE_ACC_LEN is not "
            "set there is taken for granted"
        )
    return Setting(source, tuple(limits), state)


def _metrics(client: EngineClient, limits: list[str]) -> Snapshot | None:
    """What the engine counts; None where it does not, or is not understood."""
    try:
        snapshot = client.metrics()
    except EngineReportError as error:
        limits.append(f"its metrics are not read: {error.message}")
        return None
    return snapshot if snapshot is not None and snapshot.engine else None


def _counts(snapshot: Snapshot) -> bool:
    """Whether there are counters of verify steps, and not only what was reported last."""
    from drafter_contracts.acceptance import sglang_metrics, vllm_metrics

    return any(name in snapshot.samples for name in (sglang_metrics.VERIFIED, vllm_metrics.DRAFTS))
