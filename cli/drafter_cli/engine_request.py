"""Requests to a running inference engine: one at a time, capped, and never further than to the address given."""

from __future__ import annotations

import http.client
import ipaddress
import os
import time
import urllib.parse

from drafter_cli.errors import UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Variable with the engine's own key (`--api-key`), if it has one.
KEY = "DRAFTERS_ENGINE_KEY"
#: Bytes taken at once from an answer whose whole time is limited.
_PART = 64 * 1024


class EngineAddress:
    """One engine's address. Redirects are answers like any other: nothing, and no key, follows them.

    Args:
        url: Its address, with whatever path a proxy adds.
        timeout: Seconds without a byte before giving up.
        patience: Seconds that a whole answer may take, however steadily it drips; None for any.
        now: The clock of `patience`, seconds.

    Raises:
        UsageError: No address of a server, or a key that would go out unencrypted.
    """

    def __init__(
        self, url: str, *, timeout: float, patience: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError(f"{url!r} is no URL", "write --url http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in url:
            raise UsageError(f"{url!r} is no engine's URL", "write --url http://HOST:PORT")
        self.url, self.host = url.rstrip("/"), parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        self._path, self._secure = parts.path.rstrip("/"), parts.scheme == "https"
        self._timeout, self._patience, self._now = timeout, patience, now
        self._key = os.environ.get(KEY, "")
        if self._key and not self._secure and not self.is_loopback:
            raise UsageError(f"{KEY} would go unencrypted to {self.host}", "use https, or run this beside it")

    @property
    def is_loopback(self) -> bool:
        """Whether the engine is on this machine, by its address."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def ask(self, method: str, path: str, body: bytes | None, most: int) -> tuple[int, bytes]:
        """One request.

        Args:
            method: "GET" or "POST".
            path: Below the address.
            body: JSON, or None.
            most: Most bytes of an answer.

        Returns:
            Status and body.

        Raises:
            UnreachableError: No answer, or one that is larger or takes longer than it may.
            UsageError: It wants a key.
        """
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=self._timeout)
        headers = {"Accept": "application/json, text/plain;q=0.9", "Accept-Encoding": "identity"}
        headers |= {"Content-Type": "application/json"} if body else {}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        begun = self._now()
        try:
            connection.request(method, self._path + path, body, headers)
            with connection.getresponse() as response:
                status = response.status
                data = response.read(most + 1) if self._patience is None else self._read(response, most, begun)
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = "it does not answer in time" if isinstance(error, TimeoutError) else str(error) or repr(error)
            raise UnreachableError(f"the engine {self.url} cannot be reached: {said}", "does it run?") from None
        finally:
            connection.close()
        if len(data) > most:
            raise UnreachableError(f"{self.url}{path} answers with more than {most} bytes", "is that URL an engine's?")
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise UsageError(f"{self.url}{path} answers {status}", f"set {KEY} to the engine's key")
        return status, data

    def _read(self, response: http.client.HTTPResponse, most: int, begun: float) -> bytes:
        """The body, up to one byte more than it may have.

        Raises:
            TimeoutError: It takes longer than `patience`.
            IncompleteRead: It ends before it should.
        """
        parts, size = [], 0
        while size <= most and (part := response.read1(min(_PART, most + 1 - size))):
            parts.append(part)
            size += len(part)
            if self._now() - begun > (self._patience or 0):
                raise TimeoutError
        if size <= most and response.length:  # cut off: half of an answer would be taken for another one
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)
