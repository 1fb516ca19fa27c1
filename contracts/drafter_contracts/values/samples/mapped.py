"""Tensors that are views of a mapped file: nothing is read until somebody looks, and only what is looked at."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from typing import BinaryIO

import torch

from drafter_contracts.checkpoint.header import LENGTH_BYTES, header_length, parse_header
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError, SampleError

#: Safetensors' words for what a sample holds.
DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F64": torch.float64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

# Linux, every architecture that torch runs on; `mmap` names it from Python 3.12 on. Without it the kernel refuses
# a private mapping that is larger than the machine's memory.
_NORESERVE = 0x4000


def open_sample(path: str) -> tuple[BinaryIO, int]:
    """Open a file of a sample.

    Returns:
        The open file and its size in bytes.

    Raises:
        SampleError: No such file, not readable, or not a regular file.
    """
    try:
        return open_regular(path)
    except CheckpointError as error:
        raise as_sample_error(error) from None


def as_sample_error(error: CheckpointError) -> SampleError:
    """What a reader of checkpoints found, said of a sample."""
    return SampleError(error.message, where=error.where, expected=error.expected, actual=error.actual)


class MappedFile:
    """A file in the address space: private, so that nobody's write reaches the file.

    Args:
        file: Open for reading; may be closed afterwards.
        where: The file's name, for messages.
    """

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.where = where
        self.size = os.fstat(file.fileno()).st_size
        if not self.size:
            raise SampleError("the file is empty", where=where)
        try:
            self._map = mmap.mmap(
                file.fileno(),
                self.size,
                flags=mmap.MAP_PRIVATE | _NORESERVE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,
            )
        except (OSError, ValueError) as error:
            raise SampleError("the file cannot be mapped", where=where, actual=str(error)) from None

    def tensor(self, start: int, shape: tuple[int, ...], dtype: torch.dtype, name: str) -> torch.Tensor:
        """A view of a part of the file.

        Args:
            start: Offset of its first byte.
            shape: Row-major.
            dtype: What the bytes are.
            name: What it is called, for messages.

        Raises:
            SampleError: It would begin or end outside the file.
        """
        count = math.prod(shape)
        end = start + count * dtype.itemsize
        if min(start, *shape, 0) < 0 or end > self.size:
            raise SampleError(
                f"{name} does not lie inside the file",
                where=self.where,
                expected=f"at most {self.size} bytes",
                actual=f"bytes {start} to {end}",
            )
        if not count:
            return torch.empty(shape, dtype=dtype)
        raw = torch.frombuffer(self._map, dtype=torch.uint8, count=end - start, offset=start)
        return raw.view(dtype).reshape(shape)


def safetensors(file: BinaryIO, size: int, where: str) -> Mapping[str, torch.Tensor]:
    """Every tensor of a safetensors file, as views of it.

    Args:
        file: Open for reading, at its first byte; may be closed afterwards.
        size: Its size in bytes.
        where: The file's name, for messages.

    Raises:
        SampleError: The header is damaged or too large, the file is cut short, or a tensor is of a kind that no
            sample has.
    """
    try:
        prefix = file.read(LENGTH_BYTES)
        header = parse_header(prefix + file.read(header_length(prefix, size, where)), size, where)
    except CheckpointError as error:
        raise as_sample_error(error) from None
    begin = LENGTH_BYTES + int.from_bytes(prefix, "little")
    mapped = MappedFile(file, where)
    tensors = {}
    for fact, (start, _) in zip(header.tensors, header.spans, strict=True):
        dtype = DTYPES.get(fact.dtype)
        if dtype is None:
            raise SampleError(
                f"{fact.name} is of a dtype that recorded states are not read in",
                where=where,
                expected=", ".join(DTYPES),
                actual=fact.dtype,
            )
        tensors[fact.name] = mapped.tensor(begin + start, tuple(fact.shape), dtype, fact.name)
    return tensors
