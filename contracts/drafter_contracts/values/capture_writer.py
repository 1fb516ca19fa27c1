"""Writing a capture file state by state, so that a large target's states are never all in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from types import TracebackType
from typing import BinaryIO, Self

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, Tap
from drafter_contracts.values.mapped import NAMES

FORMAT = "drafters.capture.v1"
TOKENS = "token_ids"
CHOICES = "choices"
FINAL = "final_norm"

_STATES = (torch.float32, torch.bfloat16, torch.float16)
#: The header's end is a multiple of this, so that every tensor can be viewed where it lies.
_ALIGNMENT = 8


def tensor_name(tap: Tap) -> str:
    """Name of a state in a capture file."""
    return FINAL if tap.state == FINAL_NORM else f"boundary.{tap.boundary}"


class CaptureWriter:
    """A capture file that is being written, as a context: at its end the file is there whole, or after an error not.

    The header is written with the first state, whose dtype every other must have; each state goes to its place in the
    file at once. The bytes lie in a temporary file of the same folder until then.

    Args:
        path: The file; one of that name is replaced at the end.
        record: The target.
        tokens: int64 [T].
        taps: The states that will be put, each once.
        choices: Whether choices will be put.
        tool: What makes it; "" for this release of drafters.

    Raises:
        CaptureError: No states, a state that no capture file holds, wrong shapes or dtypes, a state that was not put,
            or the file cannot be written.
    """

    def __init__(
        self,
        path: str,
        record: ReferenceRecord,
        tokens: torch.Tensor,
        taps: Sequence[Tap],
        *,
        choices: bool = True,
        tool: str = "",
    ) -> None:
        self.path = path
        self.record = record
        self.tokens = tokens
        self.taps = tuple(taps)
        self.choices = choices
        self.tool = tool or _tool()
        self._dtype: torch.dtype | None = None
        self._places: dict[str, int] = {}
        self._open: set[str] = set()
        self._part = ""
        self._check()

    def __enter__(self) -> Self:
        try:
            folder, name = os.path.split(os.path.abspath(self.path))
            part = os.path.join(folder, f".{name}.{os.getpid()}.part")
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            self._part = part
        except OSError as error:
            raise self._fault("cannot be written", actual=error.strerror or str(error)) from None
        self._file: BinaryIO = open(descriptor, "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._file:
                if kind is None:
                    self._finish()
            if kind is None:
                os.replace(self._part, self.path)
        except OSError as fault:
            raise self._fault("cannot be written", actual=fault.strerror or str(fault)) from None
        finally:
            if os.path.exists(self._part):
                os.unlink(self._part)

    def put(self, tap: Tap, state: torch.Tensor) -> None:
        """Write one state, [T, H]."""
        shape = [len(self.tokens), self.record.hidden_size]
        name = tensor_name(tap)
        if list(state.shape) != shape or state.dtype not in _STATES:
            expected = f"{shape} in float32, bfloat16 or float16"
            raise self._fault("not a state", name, expected, f"{list(state.shape)} {state.dtype}")
        if self._dtype is None:
            self._begin(state.dtype)
        if state.dtype != self._dtype:
            raise self._fault("states of two dtypes", name, str(self._dtype), str(state.dtype))
        self._write(name, state)

    def put_choices(self, choices: torch.Tensor) -> None:
        """Write the target's choices, int64 [T]."""
        if choices.shape != self.tokens.shape or choices.dtype != torch.int64:
            expected = f"int64 {list(self.tokens.shape)}"
            raise self._fault("not choices", CHOICES, expected, f"{choices.dtype} {list(choices.shape)}")
        self._write(CHOICES, choices)

    def _check(self) -> None:
        if self.tokens.dtype != torch.int64 or self.tokens.dim() != 1 or not len(self.tokens):
            actual = f"{self.tokens.dtype} {list(self.tokens.shape)}"
            raise self._fault("not a text in token ids", TOKENS, "int64 [T], T > 0", actual)
        layers = self.record.layers
        known = {Tap(boundary) for boundary in range(layers + 1)} | {Tap(layers, FINAL_NORM)}
        wrong = [tap for tap in self.taps if tap not in known]
        if wrong or not self.taps or len(set(self.taps)) != len(self.taps):
            actual = ", ".join(f"{tap.boundary} {tap.state}" for tap in wrong or self.taps) or "none"
            expected = f"{RESIDUAL} 0 to {layers} and {FINAL_NORM} {layers}, each at most once"
            raise self._fault("not the states of a capture", "", expected, actual)

    def _begin(self, dtype: torch.dtype) -> None:
        """Write the header and the tokens. Integers come first: every tensor is aligned then."""
        self._dtype = dtype
        rows, width = len(self.tokens), self.record.hidden_size
        tensors = [(name, torch.int64, [rows]) for name in (TOKENS, *((CHOICES,) if self.choices else ()))]
        tensors += [(tensor_name(tap), dtype, [rows, width]) for tap in self.taps]
        header: dict[str, object] = {"__metadata__": self._metadata(dtype)}
        at = 0
        for name, kind, shape in tensors:
            end = at + kind.itemsize * rows * (width if len(shape) == 2 else 1)
            header[name] = {"dtype": NAMES[kind], "shape": shape, "data_offsets": [at, end]}
            self._places[name] = at
            at = end
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        start = 8 + len(text)
        self._places = {name: start + place for name, place in self._places.items()}
        self._open = set(self._places)
        self._put_bytes(0, len(text).to_bytes(8, "little") + text)
        self._write(TOKENS, self.tokens)

    def _metadata(self, dtype: torch.dtype) -> dict[str, str]:
        record = self.record
        return {
            "format": FORMAT,
            "model": record.model,
            "revision": record.revision,
            "layers": str(record.layers),
            "hidden_size": str(record.hidden_size),
            "vocab_size": str(record.vocab_size),
            "dtype": str(dtype).removeprefix("torch."),
            "made_with": record.made_with,
            "reference_sha256": record.sha256,
            "tool": self.tool,
        }

    def _write(self, name: str, tensor: torch.Tensor) -> None:
        if name not in self._open:
            raise self._fault("was put twice, before any state, or is not in the list", name)
        self._open.remove(name)
        # Some bytes have no numpy dtype (bfloat16): they are written as what they are.
        self._put_bytes(self._places[name], tensor.detach().cpu().contiguous().view(torch.uint8).numpy())

    def _put_bytes(self, place: int, content: object) -> None:
        try:
            self._file.seek(place)
            self._file.write(memoryview(content))  # type: ignore[arg-type]
        except OSError as error:
            raise self._fault("cannot be written", actual=error.strerror or str(error)) from None

    def _finish(self) -> None:
        if self._open or self._dtype is None:
            missing = ", ".join(sorted(self._open)) or "no state was put"
            raise self._fault("the capture is not complete", actual=missing)
        self._file.flush()
        os.fsync(self._file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(self._file.fileno(), 0o666 & ~mask)  # as any other file, not as a temporary one

    def _fault(self, message: str, name: str = "", expected: str = "", actual: str = "") -> CaptureError:
        where = f"{self.path}: {name}" if name else self.path
        return CaptureError(message, where=where, expected=expected, actual=actual)


def _tool() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"drafters {version('drafter-registry')}"
    except PackageNotFoundError:
        return "drafters"
