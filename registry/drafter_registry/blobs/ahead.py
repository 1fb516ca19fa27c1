"""A source of bytes read by a thread of its own.

obstore pulls at a put's source from within its event loop, where nothing may ask an object store: a source that does
(the staged parts of an upload) is read here instead, a little ahead.
"""

from __future__ import annotations

from queue import Full, Queue
from threading import Event, Thread
from typing import Self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Chunks that wait, at most.
_WAITING = 2
#: How often a thread that nobody takes chunks from looks whether it is needed still, seconds.
_LOOK = 0.2


class ReadAhead:
    """Context manager and iterable of the source's chunks; what the source raises is raised to whoever iterates.

    Args:
        source: Iterated once, in another thread, which has ended when the context is left.
    """

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source = source
        self._queue: Queue[bytes | BaseException | None] = Queue(_WAITING)
        self._over = Event()
        self._thread = Thread(target=self._run, name="read-ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._over.set()
        self._thread.join()

    def __iter__(self) -> Iterator[bytes]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for chunk in self._source:
                if not self._hand_on(chunk):
                    return
        except BaseException as error:  # noqa: BLE001 - raised in the other thread
            last = error
        self._hand_on(last)

    def _hand_on(self, item: bytes | BaseException | None) -> bool:
        """Whether somebody may still want more."""
        while not self._over.is_set():
            try:
                self._queue.put(item, timeout=_LOOK)
            except Full:
                continue
            return True
        return False
