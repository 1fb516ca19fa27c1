"""What the HTTP parser itself refuses: header sections that never end, and what is no HTTP; as problem documents."""

from __future__ import annotations

from drafter_registry import limits
from drafter_registry.api import problems
from drafter_registry.documents import PROBLEM_TYPE
from drafter_registry.errors import HeadersTooLargeError, InvalidError, RegistryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any


def protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol on the faster parser, if that is installed, else on the portable one."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ModuleNotFoundError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return type("Protocol", (_Refusing, H11Protocol), {})
    return type("Protocol", (_Counting, _Refusing, HttpToolsProtocol), {})


class _Refusing:
    """Answers what cannot be parsed."""

    transport: Any

    def send_400_response(self, msg: str) -> None:
        """Send the answer and hang up."""
        error: RegistryError = InvalidError("this is no HTTP request", hint=msg)
        if getattr(self, "too_large", False):
            error = HeadersTooLargeError(
                "address and headers are too long", hint=f"at most {limits.header_max_bytes} bytes"
            )
        answer = problems.respond(error)
        head = [
            f"HTTP/1.1 {error.status} {problems.title(error.code)}",
            f"content-type: {PROBLEM_TYPE}",
            f"content-length: {len(answer.body)}",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "connection: close",
        ]
        self.transport.write("\r\n".join(head).encode("ascii") + b"\r\n\r\n" + bytes(answer.body))
        self.transport.close()


class _Counting:
    """Counts header bytes as they come: the parser would collect them without end."""

    too_large = False
    counted = 0

    def on_message_begin(self) -> None:
        """Count anew."""
        self.counted = 0
        super().on_message_begin()  # type: ignore[misc]

    def on_url(self, url: bytes) -> None:
        """Count a piece of the address."""
        self._count(len(url))
        super().on_url(url)  # type: ignore[misc]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)  # type: ignore[misc]

    def _count(self, size: int) -> None:
        self.counted += size
        if self.counted > limits.header_max_bytes:
            self.too_large = True
            raise HeadersTooLargeError("address and headers are too long")  # the parser ends, and asks for the answer
