"""What all requests of one application share."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TypeVar

import anyio
import anyio.to_thread

from drafter_registry.api.authentication import Attempts, Recent
from drafter_registry.api.health import Readies
from drafter_registry.api.logs import Log
from drafter_registry.api.metrics import Metrics
from drafter_registry.api.observed import Observed
from drafter_registry.api.reports import Reports
from drafter_registry.db.pipeline import NotAnsweredError, Pipeline
from drafter_registry.names import Reference
from drafter_registry.service.access import require
from drafter_registry.service.context import Actor, Registry
from drafter_registry.service.locate import LOOK_UPS, Located, live, locate, question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Verbs at work at once. Fewer than the database has connections (20): one that runs on the event loop must get one.
_VERBS = 16
#: Chunks being written to or read from the blob store at once.
_CHUNKS = 16
#: Notes of tokens' use that may wait to be written.
_NOTES = 64
#: Questions remembered; as many plans as the verbs keep.
_QUESTIONS = 1024


class Asked:
    """Questions of late, by their digests."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def again(self, question: bytes) -> bool:
        """Whether it was asked before; it was from now on."""
        digest = sha256(question).digest()
        known = digest in self._digests
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > _QUESTIONS:
            self._digests.popitem(last=False)
        return known


class State:
    """Shared by all requests.

    Attributes:
        registry: What the verbs work with.
        log: Where lines go.
        metrics: What counts.
        attempts: Failed authentications.
        recent: Successful ones.
        reports: How often engines are reported.
        observed: What they were seen to accept, for `/metrics`.
        asked: Questions that were answered before.
        readies: Whether database and store do their part.
        version: Of this distribution.
        document: The OpenAPI document.
        draining: Whether the process is about to end: readiness says no, requests are still answered.
    """

    def __init__(self, registry: Registry, log: Log, version: str) -> None:
        self.registry = registry
        self.log = log
        self.metrics = Metrics()
        self.attempts = Attempts()
        self.recent = Recent()
        self.reports = Reports()
        self.observed = Observed()
        self.asked = Asked()
        self.readies = Readies(self)
        self.version = version
        self.document = b""
        self.draining = False
        self._verbs = anyio.CapacityLimiter(_VERBS)
        self._chunks = anyio.CapacityLimiter(_CHUNKS)
        self._probe = anyio.CapacityLimiter(3)
        self._notes: ThreadPoolExecutor | None = None
        self._waiting = 0
        sqlite = registry.database.is_sqlite
        self._pipeline = None if sqlite else Pipeline(registry.database, LOOK_UPS.values(), self.in_thread)

    def close(self) -> None:
        """Write what was put off, and end the thread that does; another request starts one anew."""
        if self._pipeline is not None:
            self._pipeline.close()
        if self._notes is not None:
            self._notes.shutdown()
            self._notes = None

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        """A verb, in a worker thread."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._verbs)

    async def chunk(self, function: Callable[..., T], *arguments: object) -> T:
        """A piece of a stream, in a worker thread of another group: streams do not hold up the verbs."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._chunks)

    async def probe(self, function: Callable[..., T], *arguments: object) -> T:
        """A look at what this depends on, in threads of its own: it answers when all others wait."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._probe, abandon_on_cancel=True)

    def later(self, note: Callable[[], None]) -> None:
        """Write a note that nobody waits for; dropped while many wait: the next request makes it again."""
        if self._waiting < _NOTES:
            self._waiting += 1
            if self._notes is None:
                self._notes = ThreadPoolExecutor(1, thread_name_prefix="drafters-notes")
            self._notes.submit(self._write, note)

    def _write(self, note: Callable[[], None]) -> None:
        try:
            note()
        except Exception as error:  # noqa: BLE001 - in a thread of its own, nobody else would hear of it
            self.log.failure("a token's use was not noted", error)
        finally:
            self._waiting -= 1

    async def locate(self, actor: Actor, reference: Reference) -> Located | None:
        """Which version a reference is, without a thread; None if a thread has to find out (`locate.locate`).

        Raises:
            NotFoundError, NotAuthorisedError, UnavailableError: As `locate.locate`.
        """
        if self._pipeline is None:
            return locate(self.registry, actor, reference)
        require(actor, "read", reference.name, str(reference))
        try:
            return live(await self._pipeline.first(*question(reference)))
        except NotAnsweredError:
            return None

    async def quick(self, function: Callable[..., T], *arguments: object) -> T:
        """A verb that only looks up a few rows: on SQLite at once, which is faster than handing it to a thread."""
        if self.registry.database.is_sqlite:
            return function(*arguments)
        return await self.in_thread(function, *arguments)
