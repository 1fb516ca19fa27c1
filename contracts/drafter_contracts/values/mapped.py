"""Tensors of a safetensors file as views of its memory map: nothing is read until it is used, and a slice reads itself.

`safe_open` of safetensors copies what it returns (0.8); a drafter's target has an embedding of gigabytes.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from drafter_contracts.checkpoint.header import LENGTH_BYTES, Header, header_length, parse_header
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError

#: safetensors' names of the dtypes that states and tokens have.
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
#: The same, the other way.
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class MappedFile:
    """One safetensors file, its header checked.

    Args:
        path: The file.

    Raises:
        CheckpointError: See `drafter_contracts.checkpoint.header.read_header`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        file, self.size = open_regular(path)
        with file:
            prefix = file.read(LENGTH_BYTES)
            self._data = LENGTH_BYTES + header_length(prefix, self.size, path)
            self.head = prefix + file.read(self._data - LENGTH_BYTES)
        self.header: Header = parse_header(self.head, self.size, path)
        self._storage: torch.UntypedStorage | None = None

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor as a view of the file; writing to it changes memory, never the file.

        Raises:
            CheckpointError: No such tensor, of a dtype that is not in `DTYPES`, or the file cannot be mapped.
        """
        found = [at for at, fact in enumerate(self.header.tensors) if fact.name == name]
        if not found:
            raise CheckpointError("no such tensor", where=f"{self.path}: {name}")
        fact, (start, _) = self.header.tensors[found[0]], self.header.spans[found[0]]
        if fact.dtype not in DTYPES:
            expected = ", ".join(DTYPES)
            raise CheckpointError(
                "not a dtype that is read here", where=f"{self.path}: {name}", expected=expected, actual=fact.dtype
            )
        dtype, count, offset = DTYPES[fact.dtype], math.prod(fact.shape), self._data + start
        if not count:
            return torch.empty(fact.shape, dtype=dtype)
        storage = self._mapped()
        if offset % dtype.itemsize:  # a file whose header is not padded: no view of it is possible
            return _view(storage, torch.uint8, offset, count * dtype.itemsize).clone().view(dtype).view(fact.shape)
        return _view(storage, dtype, offset // dtype.itemsize, count).view(fact.shape)

    def _mapped(self) -> torch.UntypedStorage:
        if self._storage is None:
            try:
                storage: Any = torch.UntypedStorage.from_file(self.path, shared=False, nbytes=self.size)
            except (RuntimeError, OSError) as error:
                raise CheckpointError("cannot be mapped into memory", where=self.path, actual=str(error)) from None
            self._storage = storage
        return self._storage


def _view(storage: torch.UntypedStorage, dtype: torch.dtype, offset: int, count: int) -> torch.Tensor:
    """Part of a storage, offset and count in elements."""
    made: torch.Tensor = torch.empty(0, dtype=dtype)
    return made.set_(storage, offset, (count,))  # type: ignore[call-overload, no-any-return]
