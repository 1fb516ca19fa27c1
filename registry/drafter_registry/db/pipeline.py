"""Look-ups on PostgreSQL without a thread: one connection, questions sent as they come, answers awaited in turn.

To hand a look-up to a thread and back costs more than the look-up itself. Here the event loop sends it and is told when
the answer is there (libpq's pipeline mode; each question is a transaction of its own). Nothing is mended here: whatever
goes wrong ends the connection, and whoever waits is told to ask elsewhere, where errors are explained.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any

    import psycopg
    from psycopg.pq.abc import PGresult

    from drafter_registry.db.database import Database, LookUp

#: Longest wait for an answer, and the pause after anything went wrong, seconds.
_PATIENCE = 2.0
_REST = 5.0


class NotAnsweredError(Exception):
    """Ask in another way."""


class Pipeline:
    """Asks from within one event loop.

    Args:
        database: A PostgreSQL database.
        keys: All that will be asked. Their columns are texts.
        in_thread: Runs a function beside the event loop.
    """

    def __init__(
        self, database: Database, keys: Iterable[LookUp], in_thread: Callable[..., Awaitable[psycopg.Connection[Any]]]
    ) -> None:
        self._database = database
        self._keys = {key: b"look%d" % i for i, key in enumerate(keys)}
        self._in_thread = in_thread
        self._connection: psycopg.Connection[Any] | None = None
        self._socket = -1
        self._opening = False
        self._rests_until = 0.0
        self._waiting: deque[asyncio.Future[tuple[str, ...] | None]] = deque()
        self._result: PGresult | None = None

    async def first(self, key: LookUp, values: dict[str, str]) -> tuple[str, ...] | None:
        """The row that a look-up finds, or None.

        Raises:
            NotAnsweredError: There is no connection, or none that works.
        """
        if self._connection is None:
            await self._open()
        connection = self._connection
        if connection is None:
            raise NotAnsweredError
        wanted = [values[name].encode() for name in key.numbered[1]]
        answer: asyncio.Future[tuple[str, ...] | None] = asyncio.get_running_loop().create_future()
        try:
            connection.pgconn.send_query_prepared(self._keys[key], wanted)
            connection.pgconn.pipeline_sync()
            self._waiting.append(answer)
            self._flush()
            async with asyncio.timeout(_PATIENCE):
                return await answer
        except (TimeoutError, _errors()):
            if connection is self._connection:
                self.close()
            raise NotAnsweredError from None

    def close(self) -> None:
        """Let go of the connection; it is made again when it is asked for, after a pause."""
        connection, self._connection = self._connection, None
        self._rests_until = time.monotonic() + _REST
        waiting, self._waiting = self._waiting, deque()
        self._result = None
        for answer in waiting:
            if not answer.done():
                answer.set_exception(NotAnsweredError())
        if connection is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
            os.close(self._socket)
            connection.close()

    async def _open(self) -> None:
        """Connect, unless that is being done or failed a moment ago."""
        if self._opening or time.monotonic() < self._rests_until:
            return
        self._opening = True
        try:
            connection = await self._in_thread(self._connect)
        except _errors():
            self._rests_until = time.monotonic() + _REST
            return
        finally:
            self._opening = False
        self._connection = connection
        self._socket = os.dup(connection.pgconn.socket)  # libpq closes its own when the other side is gone
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def _connect(self) -> psycopg.Connection[Any]:
        """A connection with every look-up prepared."""
        import psycopg
        from psycopg.pq import ExecStatus

        connection = self._database.connect_alone()
        connected = connection.pgconn
        prepared = [connected.prepare(name, key.numbered[0].encode()).status for key, name in self._keys.items()]
        if any(status != ExecStatus.COMMAND_OK for status in prepared):
            connection.close()
            raise psycopg.OperationalError("a look-up cannot be prepared")
        connected.enter_pipeline_mode()
        connected.nonblocking = 1
        return connection

    def _flush(self) -> None:
        """Send; what the socket does not take yet, once it does."""
        if self._connection is None:
            return
        loop = asyncio.get_running_loop()
        if self._connection.pgconn.flush():
            loop.add_writer(self._socket, self._write)
        else:
            loop.remove_writer(self._socket)

    def _write(self) -> None:
        try:
            self._flush()
        except _errors():
            self.close()

    def _read(self) -> None:
        """Give out the answers that came."""
        if self._connection is None:
            return
        try:
            self._connection.pgconn.consume_input()
            self._give_out()
        except _errors():
            self.close()

    def _give_out(self) -> None:
        from psycopg.pq import ExecStatus

        while self._connection is not None and not self._connection.pgconn.is_busy():
            result = self._connection.pgconn.get_result()
            if result is None:
                if self._result is None:
                    return
                row, self._result = _first_row(self._result), None
                answer = self._waiting.popleft()
                if not answer.done():  # whoever asked may be gone
                    answer.set_result(row)
            elif result.status == ExecStatus.TUPLES_OK:
                self._result = result
            elif result.status != ExecStatus.PIPELINE_SYNC:
                self.close()


def _first_row(result: PGresult) -> tuple[str, ...] | None:
    if not result.ntuples:
        return None
    return tuple((result.get_value(0, i) or b"").decode() for i in range(result.nfields))


def _errors() -> type[Exception]:
    import psycopg

    return psycopg.Error
