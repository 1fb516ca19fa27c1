"""Drafter directories made from shapes alone, for tests and the demo: right headers, no weights.

The data part of `model.safetensors` is a hole in the file (zeros that no disk block holds), so that a head of
full size (Kimi-K2.5: `fc.weight` 7168 x 21504) costs a few kB.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import CheckpointError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Bytes of one element, by safetensors' word for the dtype.
DTYPE_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}


def write_skeleton(
    directory: str,
    config: Mapping[str, object],
    tensors: Mapping[str, tuple[str, Sequence[int]]],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write `config.json` and a sparse, all-zero `model.safetensors` into `directory` (made if missing).

    Args:
        directory: Where to write; existing files of these names are replaced.
        config: What config.json shall say.
        tensors: Tensor name to (dtype in safetensors' word, shape), e.g. `{"fc.weight": ("BF16", (4096, 12288))}`.
            With no tensors, no weight file is written.
        metadata: `__metadata__` of the header; `{"format": "pt"}` if not given.

    Raises:
        CheckpointError: A dtype or shape that safetensors does not know.
    """
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(dict(config)), indent=2) + b"\n")
    if tensors:
        write_sparse_weights(os.path.join(directory, "model.safetensors"), tensors, metadata=metadata)


def write_sparse_weights(
    path: str, tensors: Mapping[str, tuple[str, Sequence[int]]], *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write one safetensors file whose data part is a hole. Arguments and errors as in `write_skeleton`."""
    header: dict[str, object] = {"__metadata__": dict({"format": "pt"} if metadata is None else metadata)}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        end = offset + _byte_size(name, dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    encoded = msgspec.json.encode(header)
    encoded += b" " * (-len(encoded) % 8)
    if len(encoded) > limits.header_max_bytes:
        raise CheckpointError("header too large", where=path, expected=f"{limits.header_max_bytes} bytes")
    with open(path, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.truncate(8 + len(encoded) + offset)


def _byte_size(name: str, dtype: str, shape: Sequence[int]) -> int:
    size = DTYPE_BYTES.get(dtype)
    if size is None:
        raise CheckpointError("unknown dtype", where=name, expected="|".join(DTYPE_BYTES), actual=dtype)
    for dimension in shape:
        if dimension < 0:
            raise CheckpointError("negative dimension", where=name, actual=str(tuple(shape)))
        size *= dimension
    return size
