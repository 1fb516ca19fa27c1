"""What a running engine says of itself and of its acceptance, asked over HTTP."""

from __future__ import annotations

import http.client
import time
from typing import Any

import msgspec

from drafter_cli.engine_request import EngineAddress
from drafter_cli.errors import UnreachableError
from drafter_contracts.acceptance.records import Conditions, EngineState
from drafter_contracts.errors import ContractsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.acceptance.exposition import Snapshot

#: Seconds without a byte, and seconds for a whole answer.
TIMEOUT, PATIENCE = 10.0, 30.0
#: Largest answer, bytes: a server's metrics with every histogram are some 200 kB.
_LARGEST = 8 * 1024 * 1024


class EngineClient:
    """One engine: SGLang of any release, or vLLM.

    Args:
        url: Its address, with whatever path a proxy adds. Its key, if it has one, is in DRAFTERS_ENGINE_KEY.
        timeout: Seconds without a byte before giving up.
        patience: Seconds that a whole answer may take.
        now: The clock of `patience`.

    Raises:
        UsageError: No address of a server, or a key that would go out unencrypted.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = EngineAddress(url, timeout=timeout, patience=patience, now=now)
        self.url = self.address.url

    def state(self) -> EngineState:
        """What it is and how it was started.

        Raises:
            UnreachableError: No answer, or none of an engine that is known.
            UsageError: It wants a key.
            ContractsError: It answers as no known release does.
        """
        for path in ("/server_info", "/get_server_info"):  # the second until 0.5.5, and deprecated since
            found = self._document(path)
            if found is not None and "vllm_config" not in found:  # vLLM in its developer's mode
                from drafter_contracts.acceptance.server_info import read_state

                return read_state(found, where=self.url + path)
        return self._vllm()

    def metrics(self) -> Snapshot | None:
        """Its counters now; None for an engine that was started without any.

        Raises:
            UnreachableError: No answer.
            UsageError: It wants a key.
            ContractsError: What it answers is no exposition.
        """
        status, body = self.address.ask("GET", "/metrics", None, _LARGEST)
        if status in (http.client.TEMPORARY_REDIRECT, http.client.PERMANENT_REDIRECT):  # a mount without its slash
            status, body = self.address.ask("GET", "/metrics/", None, _LARGEST)
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise UnreachableError(f"{self.url}/metrics answers {status}", "is that URL an engine's?")
        from drafter_contracts.acceptance.exposition import read_metrics

        return read_metrics(body.decode(errors="replace"), where=f"{self.url}/metrics")

    def _vllm(self) -> EngineState:
        """Its version, its model, and what its counters show: vLLM tells no arguments."""
        version = self._document("/version")
        release = version.get("version") if version else None
        if not isinstance(release, str):
            raise UnreachableError(
                f"{self.url} has none of /server_info, /get_server_info and /version", "is that URL an engine's?"
            )
        models = self._document("/v1/models") or {}
        data = models.get("data")
        first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
        model = first.get("root") or first.get("id")
        conditions = Conditions(
            engine="vllm",
            release=release[:64],
            steps=self._positions(),
            target_model=model[:512] if isinstance(model, str) else "",
        )
        return EngineState(engine="vllm", release=release[:64], conditions=conditions)

    def _positions(self) -> int | None:
        """How many tokens vLLM drafts: it counts by position, from its start on."""
        from drafter_contracts.acceptance.vllm_metrics import PLACES

        try:
            snapshot = self.metrics()
        except ContractsError:  # told where the metrics are wanted
            return None
        places = snapshot.samples.get(PLACES, {}) if snapshot is not None else {}
        return len({dict(labels).get("position") for labels in places}) or None

    def _document(self, path: str) -> dict[str, Any] | None:
        """A JSON object; None where there is no such path.

        Raises:
            UnreachableError: No answer, or no JSON object.
            UsageError: It wants a key.
        """
        status, body = self.address.ask("GET", path, None, _LARGEST)
        if status in (http.client.NOT_FOUND, http.client.METHOD_NOT_ALLOWED):
            return None
        if status != http.client.OK:
            raise UnreachableError(f"{self.url}{path} answers {status}", "is it up yet, and is that URL an engine's?")
        try:
            found = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            found = None
        if not isinstance(found, dict):
            raise UnreachableError(f"{self.url}{path} does not answer with a JSON object", "is that URL an engine's?")
        return found
