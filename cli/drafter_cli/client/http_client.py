"""Requests to a registry's server: where they may go, how often they are tried, and what their answers mean.

Only what can be repeated without harm is tried again; a wait that the server asks for is kept. The token goes to the
registry's own address and nowhere else, encrypted unless that is this machine or the user said otherwise.
"""

from __future__ import annotations

import ipaddress
import random
import time

import httpx2
import msgspec

from drafter_cli.client.problems import error_of
from drafter_cli.errors import UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    from drafter_registry.errors import RegistryError

    T = TypeVar("T")
    Body = bytes | Callable[[], Iterator[bytes]]

#: Tries of one request, and the longest wait before another, seconds.
TRIES = 4
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 30.0
_RETRIED = frozenset({429, 502, 503, 504})
_CONNECT_SECONDS = 10.0
#: Largest document read from a server, bytes.
_DOCUMENT_MAX_BYTES = 64 * 1024 * 1024


class Answer(msgspec.Struct, frozen=True):
    """What came back: status, headers by lower-case name, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def read_as(self, kind: type[T], server: str) -> T:
        """The body as a document.

        Raises:
            UnreachableError: It is none: whatever answers there is no registry of this kind.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnreachableError(
                f"{server} does not answer as a registry does: {error}", "is that URL a registry's?"
            ) from None


class HttpClient:
    """A connection to one server; may be used by several threads at once.

    Args:
        url: The registry's URL.
        token: Sent with every request; "" for none.
        timeout: Seconds without a byte from the server before giving up.
        plain_http: Whether the token may go unencrypted to another machine.
        agent: `User-Agent`: the name and version of this program.

    Raises:
        UsageError: A URL that cannot be used, or a token that would go out unencrypted.
    """

    def __init__(self, url: str, token: str, *, timeout: float, plain_http: bool, agent: str) -> None:
        self.server = url.rstrip("/")
        local = _check_url(self.server, sends_token=bool(token), plain_http=plain_http)
        headers = {"User-Agent": agent, "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx2.Client(
            headers=headers,
            timeout=httpx2.Timeout(timeout, connect=_CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=not local,  # a proxy has no business between this machine and itself
        )

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: Body = b"",
        repeatable: bool = True,
        timeout: float | None = None,
    ) -> Answer:
        """One request, tried again where that can do no harm.

        Args:
            method: "GET", ...
            path: Below the registry's URL, quoted.
            params: Query.
            headers: More headers.
            body: What to send: bytes, or a function that gives it anew for each try.
            repeatable: Whether a second one does nothing that the first did not.
            timeout: Seconds to wait for an answer that takes the server long; None for the usual.

        Raises:
            UnreachableError: No answer.
            RegistryError: The answer is no success.
        """
        for left in range(TRIES - 1, -1, -1):
            try:
                with self.stream(method, path, params=params, headers=headers, body=body, timeout=timeout) as response:
                    answer = Answer(response.status_code, _headers(response), _whole(response, self.server))
            except httpx2.TransportError as error:
                if not left or not _may_repeat(error, repeatable=repeatable):
                    raise self.unreachable(error) from None
                self.pause(TRIES - left)
                continue
            if answer.status < 300:
                return answer
            error_found, wait = self._error(answer), _retry_after(answer.headers)
            if not left or not repeatable or answer.status not in _RETRIED or wait > _LONGEST_WAIT:
                raise error_found
            self.pause(TRIES - left, wait)
        raise AssertionError  # the last try returns or raises

    def stream(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: Body = b"",
        timeout: float | None = None,
    ) -> AbstractContextManager[httpx2.Response]:
        """One try, as it comes.

        Raises:
            TransportError: No answer (on entering).
        """
        more: dict[str, Any] = {}
        if timeout is not None:
            more["timeout"] = httpx2.Timeout(timeout, connect=_CONNECT_SECONDS)
        content = body if isinstance(body, bytes) else body()
        return self._client.stream(
            method, self.server + path, params=params, headers=headers, content=content or None, **more
        )

    def refused(self, response: httpx2.Response) -> RegistryError | UsageError:
        """The error that a streamed answer stands for."""
        return self._error(Answer(response.status_code, _headers(response), _whole(response, self.server)))

    def unreachable(self, error: httpx2.TransportError) -> UnreachableError:
        """The error for a server that does not answer."""
        if isinstance(error, httpx2.TimeoutException):
            said = "it does not answer in time"
        else:
            said = str(error) or type(error).__name__
        return UnreachableError(
            f"the registry {self.server} cannot be reached: {said}", "see that it runs: drafters config"
        )

    def _error(self, answer: Answer) -> RegistryError | UsageError:
        if answer.status < 400:  # the token goes to no other address than the one that was configured
            place = answer.headers.get("location", "another address")[:200]
            return UsageError(f"{self.server} sends elsewhere: {place}", "if that is the registry, set it as its URL")
        return error_of(
            answer.status,
            answer.headers.get("content-type", ""),
            answer.body,
            retry_after=int(_retry_after(answer.headers)),
            server=self.server,
        )

    @staticmethod
    def pause(tries: int, asked: float = 0.0) -> None:
        """Wait before another try, longer each time, and not for all clients alike.

        Args:
            tries: Tries so far, 1 or more.
            asked: Seconds that the server asked for.
        """
        own = _FIRST_WAIT * 2 ** (tries - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        time.sleep(max(asked, own))


def _check_url(url: str, *, sends_token: bool, plain_http: bool) -> bool:
    """Whether the URL is this machine's.

    Raises:
        UsageError: See `HttpClient`.
    """
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, ValueError):
        raise UsageError("the registry's URL cannot be read", "write https://HOST or http://localhost:PORT") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"{url!r} is no registry's URL", "write https://HOST or http://localhost:PORT")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise UsageError("the registry's URL holds more than an address", "the token goes into DRAFTERS_TOKEN")
    local = _is_loopback(parsed.host)
    if parsed.scheme == "http" and sends_token and not local and not plain_http:
        raise UsageError(
            f"the token would go unencrypted to {parsed.host}",
            "use https, or say --plain-http (DRAFTERS_PLAIN_HTTP=1) if the network between is yours",
        )
    return local


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _may_repeat(error: httpx2.TransportError, *, repeatable: bool) -> bool:
    """Whether another try can help and can do no harm. A certificate that is not trusted will not be the next time."""
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)):
        return "CERTIFICATE_VERIFY_FAILED" not in str(error)
    return repeatable and not isinstance(error, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError))


def _headers(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _retry_after(headers: dict[str, str]) -> float:
    """Seconds that the server asks to wait; a date is not read, and taken for none."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


def _whole(response: httpx2.Response, server: str) -> bytes:
    parts, size = [], 0
    for part in response.iter_raw():
        size += len(part)
        if size > _DOCUMENT_MAX_BYTES:
            raise UnreachableError(f"{server} answers with more than {_DOCUMENT_MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
