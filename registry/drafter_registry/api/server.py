"""The process: a listening socket, uvicorn on it, and an end in which nothing is cut off."""

from __future__ import annotations

import logging
import signal
import socket
import time
from contextlib import contextmanager
from types import FrameType

import msgspec
import uvicorn

from drafter_registry import limits
from drafter_registry.api.app import create_app
from drafter_registry.api.logs import Log, LogHandler
from drafter_registry.api.protocol import protocol
from drafter_registry.errors import InvalidError
from drafter_registry.service.context import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI

    from drafter_registry.api.state import State

#: Longest wait for running requests at the end, seconds.
_GRACE_SECONDS = 30
#: Connections that may wait to be accepted.
_BACKLOG = 2048


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to listen.

    Attributes:
        host: Address or name.
        port: TCP port; 0 for any free one.
        certfile: Certificate chain for TLS, or "".
        keyfile: Its key; "" if it is in `certfile`.
        trusted_proxies: Addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are believed.
        drain_seconds: How long readiness says no before the socket is closed.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certfile: str = ""
    keyfile: str = ""
    trusted_proxies: tuple[str, ...] = ()
    drain_seconds: float = 0.0


def listen(where: Listening) -> socket.socket:
    """A socket that takes connections from now on; they wait until the server runs.

    Raises:
        InvalidError: The address cannot be had; says why.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, number)
    except OSError as error:
        raise InvalidError(f"{where.host} is no address to listen on", hint=str(error.strerror or error)) from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
        opened.set_inheritable(False)
    except OSError as error:
        opened.close()
        raise InvalidError(f"cannot listen on {where.host}:{where.port}", hint=str(error.strerror)) from None
    return opened


def url_of(opened: socket.socket, where: Listening) -> str:
    """The URL under which the socket is reached."""
    host, port = opened.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if where.certfile else 'http'}://{shown}:{port}"


def run(registry: Registry, opened: socket.socket, where: Listening, started: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; a second SIGINT ends at once.

    Args:
        registry: What to serve; whoever opened it closes it.
        opened: From `listen`.
        where: The same.
        started: Called once, when requests are answered and signals are obeyed.

    Raises:
        InvalidError: The certificate or its key cannot be read.
    """
    lines = Log()
    _take_over_logging(lines)
    app = create_app(registry, lines)
    config = _config(app, where)

    def tell() -> None:
        started()
        lines.line("info", "started", url=url_of(opened, where), version=app.version)

    _Server(config, app.state.shared, where.drain_seconds, tell).run(sockets=[opened])
    lines.line("info", "stopped")


def _config(app: FastAPI, where: Listening) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=protocol(),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(where.trusted_proxies),
        forwarded_allow_ips=list(where.trusted_proxies),
        h11_max_incomplete_event_size=limits.header_max_bytes,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=where.certfile or None,
        ssl_keyfile=where.keyfile or None,
    )
    try:
        config.load()
    except OSError as error:  # SSLError is one
        raise InvalidError("the certificate or its key cannot be read", hint=str(error)) from None
    return config


def _take_over_logging(log: Log) -> None:
    """Warnings of libraries in the log's own form, and nothing of theirs besides."""
    handler = LogHandler(log)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "sqlalchemy"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)


class _Server(uvicorn.Server):
    """Ends in order: readiness says no, then the socket closes, then what runs is finished."""

    def __init__(self, config: uvicorn.Config, state: State, drain_seconds: float, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = tell
        self._shared = state
        self._drain_seconds = drain_seconds
        self._ends_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, then say so."""
        await super().startup(sockets)
        self._tell()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that was obeyed is not raised again: the end is an orderly one, with status 0."""
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        """A signal to end."""
        if self._shared.draining and sig == signal.SIGINT:
            self.force_exit = self.should_exit = True
        elif not self._shared.draining:
            self._shared.draining = True
            self._ends_at = time.monotonic() + self._drain_seconds

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to close the socket; asked ten times a second."""
        if time.monotonic() >= self._ends_at:
            self.should_exit = True
        return await super().on_tick(counter)
