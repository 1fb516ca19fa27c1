"""Capture files: a target's states on some tokens, for whoever cannot run the target (docs/capture.md).

A safetensors file: `token_ids` int64 [T]; `boundary.K` [T, H] for boundaries 0 to N, as many as there are;
`final_norm` [T, H]; `choices` int64 [T], optional. All states have one dtype: float32, bfloat16 or float16. What they
are of stands in the header's metadata.
"""

from __future__ import annotations

import hashlib
import re

import msgspec
import torch

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CaptureError, CheckpointError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, Tap
from drafter_contracts.values.capture_writer import CHOICES, FINAL, FORMAT, TOKENS, CaptureWriter, tensor_name
from drafter_contracts.values.mapped import MappedFile
from drafter_contracts.values.records import Capture

#: Dtypes of states, as safetensors and as the metadata call them.
_STATES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_BOUNDARY = re.compile(r"boundary\.(0|[1-9][0-9]{0,5})")


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The file's metadata: text to text, numbers in decimals."""

    format: str
    layers: int
    hidden_size: int
    vocab_size: int = 0
    dtype: str
    model: str = ""
    revision: str = ""
    made_with: str = ""


def write_capture(path: str, capture: Capture, *, tool: str = "") -> None:
    """Write a capture file; it is there whole or not at all. A file of that name is replaced.

    Args:
        path: The file.
        capture: What to write. The dtype in the metadata is that of its states.
        tool: What made it; "" for this release of drafters.

    Raises:
        CaptureError: No states, states of several shapes or dtypes, or the file cannot be written.
    """
    taps = capture.taps()
    with CaptureWriter(
        path, capture.record, capture.tokens, taps, choices=capture.choices is not None, tool=tool
    ) as file:
        for tap in taps:
            file.put(tap, capture.states[tap])
        if capture.choices is not None:
            file.put_choices(capture.choices)


def read_capture(path: str, *, digest: bool = True) -> Capture:
    """Read a capture file; its states are views of the file, read as they are used.

    Args:
        path: The file.
        digest: Whether to hash the file for `record.sha256`: that reads all of it once. Without, it is "".

    Raises:
        CaptureError: No capture file, or tensors that do not agree with each other or with the metadata: every fault is
            named.
    """
    try:
        file = MappedFile(path)
        metadata = _metadata(file)
        facts = {fact.name: fact for fact in file.header.tensors}
        faults = [fault for fact in facts.values() for fault in _faults(fact, facts.get(TOKENS), metadata)]
        faults += [] if TOKENS in facts else [f"{TOKENS}: expected int64 [T], got none"]
        faults += (
            [] if set(facts) - {TOKENS, CHOICES} else ["boundary.K or final_norm: expected at least one, got none"]
        )
        if faults:
            raise CaptureError("not a consistent capture", where=path, actual="; ".join(faults))
        tensors = {name: file.tensor(name) for name in facts}
    except CheckpointError as error:
        raise CaptureError(error.message, where=error.where, expected=error.expected, actual=error.actual) from None
    for name in (TOKENS, CHOICES):
        if name in tensors:
            _check_ids(tensors[name], metadata.vocab_size, f"{path}: {name}")
    return Capture(
        record=ReferenceRecord(
            kind="capture",
            model=metadata.model,
            revision=metadata.revision,
            sha256=capture_sha256(path) if digest else "",
            layers=metadata.layers,
            hidden_size=metadata.hidden_size,
            vocab_size=metadata.vocab_size,
            dtype=metadata.dtype,
            made_with=metadata.made_with,
        ),
        tokens=tensors[TOKENS],
        states={_tap(name, metadata.layers): tensors[name] for name in facts if name not in (TOKENS, CHOICES)},
        choices=tensors.get(CHOICES),
    )


def capture_sha256(path: str) -> str:
    """Digest of a capture file, read once in pieces.

    Raises:
        CaptureError: It cannot be read.
    """
    try:
        file, _ = open_regular(path)
        with file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    except CheckpointError as error:
        raise CaptureError(error.message, where=error.where, actual=error.actual) from None
    except OSError as error:
        raise CaptureError("cannot be read", where=path, actual=error.strerror or str(error)) from None


def _metadata(file: MappedFile) -> _Metadata:
    if file.header.metadata.get("format") != FORMAT:
        raise CaptureError(
            "not a capture file",
            where=f"{file.path}: __metadata__: format",
            expected=FORMAT,
            actual=file.header.metadata.get("format", "none")[:80],
        )
    try:
        found = msgspec.convert(file.header.metadata, _Metadata, strict=False)
    except msgspec.ValidationError as error:
        raise CaptureError(
            "the metadata cannot be read", where=f"{file.path}: __metadata__", actual=str(error)
        ) from None
    ranges = {
        "layers": (1, limits.target_max_layers),
        "hidden_size": (1, 1 << 24),
        "vocab_size": (0, 1 << 31),
    }
    faults = [
        f"{name}: expected {low} to {high}, got {getattr(found, name)}"
        for name, (low, high) in ranges.items()
        if not low <= getattr(found, name) <= high
    ]
    if found.dtype not in _STATES.values():
        faults.append(f"dtype: expected {', '.join(_STATES.values())}, got {found.dtype[:80]}")
    if faults:
        raise CaptureError("the metadata cannot be", where=f"{file.path}: __metadata__", actual="; ".join(faults))
    return found


def _faults(fact: TensorFact, tokens: TensorFact | None, metadata: _Metadata) -> list[str]:
    """What is wrong with a tensor, one line each."""
    length = tokens.shape[0] if tokens is not None and len(tokens.shape) == 1 else None
    rows = fact.shape[0] if length is None and fact.shape else length  # without tokens any length is right
    shown = "T" if length is None or fact.name == TOKENS else str(length)
    found = f"got {fact.dtype} {list(fact.shape)}"
    if fact.name in (TOKENS, CHOICES):
        possible = 0 < (rows or 0) <= limits.sample_max_tokens
        right = fact.dtype == "I64" and fact.shape == (rows,) and possible
        return [] if right else [f"{fact.name}: expected I64 [{shown}], {found}"]
    matched = _BOUNDARY.fullmatch(fact.name)
    if matched is None and fact.name != FINAL:
        return [f"{fact.name[:80]}: expected {TOKENS}, boundary.K, {FINAL} or {CHOICES}"]
    if matched is not None and int(matched[1]) > metadata.layers:
        return [f"{fact.name}: expected boundaries 0 to {metadata.layers}"]
    if fact.shape == (rows, metadata.hidden_size) and _STATES.get(fact.dtype) == metadata.dtype:
        return []
    return [f"{fact.name}: expected {metadata.dtype} [{shown}, {metadata.hidden_size}], {found}"]


def _check_ids(ids: torch.Tensor, vocab_size: int, where: str) -> None:
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or (vocab_size and high >= vocab_size):
        expected = f"0 to {vocab_size - 1}" if vocab_size else "0 or more"
        raise CaptureError(
            "ids outside the vocabulary", where=where, expected=expected, actual=str(low if low < 0 else high)
        )


def _tap(name: str, layers: int) -> Tap:
    return Tap(layers, FINAL_NORM) if name == FINAL else Tap(int(name.partition(".")[2]), RESIDUAL)


__all__ = ["CaptureWriter", "capture_sha256", "read_capture", "tensor_name", "write_capture"]
