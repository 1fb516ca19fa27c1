"""Whether this process can do its work: asked by whatever sends it requests."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import text

from drafter_registry.db import schema
from drafter_registry.documents import Document
from drafter_registry.service.context import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_registry.api.state import State

OK = "ok"
#: An answer is this old at most, seconds: many may ask, and each look costs a write to the blob store.
_KEPT = 2.0
#: Longest wait for the database or the store, seconds: no answer is an answer.
_PATIENCE = 5.0


class Health(Document, frozen=True, kw_only=True):
    """The process is alive."""

    status: str
    version: str


class Readiness(Document, frozen=True, kw_only=True):
    """What was looked at: `OK` or the code of what is wrong, which the log says more of."""

    ready: bool
    checks: dict[str, str] = {}  # noqa: RUF012 - msgspec makes a new one for each


class Readies:
    """Looks, and keeps what it saw for a moment.

    Args:
        state: Of the application.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: dict[str, str] = {}
        self._at = float("-inf")
        self._looking = asyncio.Lock()

    async def look(self) -> Readiness:
        """What is well and what is not."""
        if self._state.draining:
            return Readiness(ready=False, checks={**self._seen, "process": "draining"})
        async with self._looking:
            if time.monotonic() - self._at > _KEPT:
                self._seen = await self._fresh()
                self._at = time.monotonic()
        return Readiness(ready=all(word == OK for word in self._seen.values()), checks=self._seen)

    async def _fresh(self) -> dict[str, str]:
        looks: dict[str, Callable[[Registry], object]] = {
            "database": _database,
            "schema": lambda registry: schema.check_running(registry.database),
            "storage": lambda registry: registry.blobs.probe(),
        }
        found = await asyncio.gather(*(self._one(name, look) for name, look in looks.items()))
        return {**dict(zip(looks, found, strict=True)), "process": OK}

    async def _one(self, name: str, look: Callable[[Registry], object]) -> str:
        try:
            await asyncio.wait_for(self._state.probe(look, self._state.registry), _PATIENCE)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process is not ready
            self._state.log.line(
                "warning", "not ready", check=name, error=type(error).__name__, message=str(error)[:500]
            )
            return str(getattr(error, "code", "UNAVAILABLE"))
        return OK


def _database(registry: Registry) -> None:
    with registry.database.read() as connection:
        connection.execute(text("SELECT 1"))
