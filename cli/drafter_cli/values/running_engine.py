"""A running SGLang, asked over HTTP for its own states: what it says of itself, and one prefill of some tokens."""

from __future__ import annotations

import http.client
import secrets
from typing import Any

import msgspec

from drafter_cli.engine_request import EngineAddress
from drafter_cli.errors import UnreachableError

#: Largest answer that is no states, bytes.
_DOCUMENT = 16 * 1024 * 1024
#: Most bytes of one number in an answer: the digits of a float64, its sign, exponent and comma.
_NUMBER = 32


class EngineInfo(msgspec.Struct, frozen=True, rename={"mode": "return_hidden_states_mode"}):
    """What SGLang's `/server_info` says that matters here; of a release that does not know a field, it is absent."""

    version: str = ""
    model_path: str = ""
    speculative_algorithm: str | None = None
    aux_hidden_state_capture: str | None = None
    return_aux_hidden_state_layer_ids: tuple[int, ...] | None = None
    mode: str | None = None
    enable_return_hidden_states: bool = False


class _Model(msgspec.Struct, frozen=True):
    architectures: tuple[str, ...] | None = None


class _Meta(msgspec.Struct, frozen=True):
    hidden_states: Any = None
    cached_tokens: int = 0
    prompt_tokens: int = 0


class _Generated(msgspec.Struct, frozen=True):
    meta_info: _Meta


class Prefill(msgspec.Struct, frozen=True):
    """The states of one prefill.

    Attributes:
        rows: One list of numbers per token that was computed; None stands for a number that is not finite.
        cached: Tokens at the beginning that the engine had in its cache and did not compute.
    """

    rows: tuple[tuple[float | None, ...], ...]
    cached: int


class Refusal(msgspec.Struct, frozen=True):
    """An answer that is no success: status and what it says."""

    status: int
    text: str


class RunningEngine:
    """One engine.

    Args:
        url: Its address, with whatever path a proxy adds.
        timeout: Seconds without a byte before giving up; a whole answer may take twice as long.

    Raises:
        UsageError: No address of a server, or a key that would go out unencrypted.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        # A steady drip is no answer either; twice, as the whole of it comes after the first byte.
        self._address = EngineAddress(url, timeout=timeout, patience=2 * timeout)
        self.url, self._ask = self._address.url, self._address.ask

    def info(self) -> EngineInfo | None:
        """What it says of itself; None where whatever answers is no SGLang.

        Raises:
            UnreachableError: No answer.
            UsageError: It wants a key.
        """
        for path in ("/server_info", "/get_server_info"):  # the second until 0.5.x, and deprecated since
            status, body = self._ask("GET", path, None, _DOCUMENT)
            if status == http.client.NOT_FOUND:
                continue
            if status != http.client.OK:
                raise UnreachableError(f"{self.url}{path} answers {status}: {_text(body)}", "is it up yet?")
            try:
                return msgspec.json.decode(body, type=EngineInfo)
            except (msgspec.MsgspecError, RecursionError):
                return None
        return None

    def architecture(self) -> str:
        """The target's class, or "" where it does not say.

        Raises:
            UnreachableError: No answer.
        """
        status, body = self._ask("GET", "/model_info", None, _DOCUMENT)
        try:
            found = msgspec.json.decode(body, type=_Model).architectures if status == http.client.OK else None
        except (msgspec.MsgspecError, RecursionError):
            found = None
        return found[0] if found else ""

    def prefill(self, tokens: tuple[int, ...], most: int) -> Prefill | Refusal:
        """The states of some tokens, as one request; one token is generated, which is of no interest.

        The key of the cache is drawn anew each time, so that nothing is taken from the engine's prefix cache and
        nothing of it is flushed.

        Args:
            tokens: Token ids.
            most: Most numbers per token that are wanted.

        Raises:
            UnreachableError: No answer, or one that is none of this kind, or larger than could be.
            UsageError: It wants a key.
        """
        asked = {
            "input_ids": tokens,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0, "ignore_eos": True},
            "return_hidden_states": True,
            "extra_key": f"drafters-verify-{secrets.token_hex(8)}",
        }
        limit = (len(tokens) + 1) * most * _NUMBER + _DOCUMENT
        status, body = self._ask("POST", "/generate", msgspec.json.encode(asked), limit)
        if status != http.client.OK:
            return Refusal(status, _text(body))
        try:
            found = msgspec.json.decode(body, type=_Generated).meta_info
            # Prefilled chunks are lists of rows; a generated token's state that may follow is one row.
            chunks = [part for part in found.hidden_states or () if part and isinstance(part[0], list)]
            rows = msgspec.convert([row for chunk in chunks for row in chunk], tuple[tuple[float | None, ...], ...])
        except (msgspec.MsgspecError, RecursionError, TypeError) as error:
            raise UnreachableError(f"{self.url}/generate does not answer as SGLang does: {error}") from None
        return Prefill(rows, found.cached_tokens)


def _text(body: bytes) -> str:
    """What an error says, in one line."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        said = body[:400].decode(errors="replace")
    for _ in range(3):
        if isinstance(said, dict):
            said = said.get("error", said.get("message", ""))
    return " ".join(str(said).split())[:300]
