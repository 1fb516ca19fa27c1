"""Names, dtypes and shapes of a safetensors file, from its header alone: no weight is read, nothing is unpickled.

The `safetensors` package judges the header: it is given the header without the data. Its parser then checks
everything (length, UTF-8, JSON, dtypes, shapes, that offsets are contiguous and match dtype x shape) and only at
the very end finds that the data are missing. That one complaint is the sign of a good header. What it cannot see
from there, that the file is exactly as long as the header says, and what it lets pass, two tensors of one name,
are checked here.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import msgspec
from safetensors import SafetensorError, deserialize

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.errors import CheckpointError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The header's length comes first, in this many bytes: unsigned, little-endian.
LENGTH_BYTES = 8


class Header(msgspec.Struct, frozen=True):
    """What one safetensors file says of itself.

    Attributes:
        tensors: In the order of their data.
        metadata: `__metadata__`: text to text, or empty.
        spans: First byte of each tensor and the one after its last, counted from the end of the header.
    """

    tensors: tuple[TensorFact, ...]
    metadata: dict[str, str]
    spans: tuple[tuple[int, int], ...] = ()


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_deserialize: Callable[[bytes], object] = deserialize
_TOP_LEVEL = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRY = msgspec.json.Decoder(_Entry)
_METADATA = msgspec.json.Decoder(dict[str, str] | None)


def read_header(path: str) -> Header:
    """Read and check the header of one safetensors file.

    Args:
        path: The file.

    Raises:
        CheckpointError: No such regular file, a header over the size cap, a header that the safetensors package
            refuses, two tensors of one name, or a file that is longer or shorter than its header says.
    """
    file, size = open_regular(path)
    with file:
        prefix = file.read(LENGTH_BYTES)
        length = header_length(prefix, size, path)
        return parse_header(prefix + file.read(length), size, path)


def parse_header(head: bytes, file_size: int, where: str) -> Header:
    """Check and decode a header.

    Args:
        head: The file's first bytes: the length and the whole header, no data.
        file_size: Size of the whole file, bytes.
        where: The file's name, for messages.

    Raises:
        CheckpointError: As `read_header`.
    """
    length = header_length(head[:LENGTH_BYTES], file_size, where)
    _judge(head, where)
    header = head[LENGTH_BYTES:]
    try:
        top_level = _TOP_LEVEL.decode(header)
        metadata = _METADATA.decode(top_level.pop("__metadata__", msgspec.Raw(b"null"))) or {}
        entries = {name: _ENTRY.decode(raw) for name, raw in top_level.items()}
    except msgspec.MsgspecError as error:
        raise CheckpointError("not a safetensors header", where=where, actual=str(error)) from None
    _check_names(header, len(entries), where)
    expected = LENGTH_BYTES + length + max((entry.data_offsets[1] for entry in entries.values()), default=0)
    if file_size != expected:
        raise CheckpointError(
            "the file is not as long as its header says: cut short, or damaged",
            where=where,
            expected=f"{expected} bytes",
            actual=f"{file_size} bytes",
        )
    ordered = sorted(entries.items(), key=lambda item: item[1].data_offsets)
    tensors = tuple(TensorFact(name, entry.dtype, entry.shape) for name, entry in ordered)
    return Header(tensors, metadata, tuple(entry.data_offsets for _, entry in ordered))


def header_length(prefix: bytes, file_size: int, where: str) -> int:
    """Bytes of a header, checked before anybody reads that many.

    Args:
        prefix: The file's first `LENGTH_BYTES` bytes.
        file_size: Size of the whole file, bytes.
        where: The file's name, for messages.

    Raises:
        CheckpointError: Fewer bytes than that, a header that would end after the file does, or one over the size cap.
    """
    if len(prefix) < LENGTH_BYTES:
        raise CheckpointError(
            "not a safetensors file", where=where, expected="at least 8 bytes", actual=f"{file_size} bytes"
        )
    length = int.from_bytes(prefix, "little")
    if length > file_size - LENGTH_BYTES:
        raise CheckpointError(
            "not a safetensors file, or cut short: its header would end after the file does",
            where=where,
            expected=f"a header of at most {file_size - LENGTH_BYTES} bytes",
            actual=f"{length} bytes",
        )
    if length > limits.header_max_bytes:
        raise CheckpointError(
            "the safetensors header is too large",
            where=where,
            expected=f"at most {limits.header_max_bytes} bytes",
            actual=f"{length} bytes",
        )
    return length


def _judge(head: bytes, where: str) -> None:
    """Let the safetensors package parse a header whose data are not there."""
    try:
        _deserialize(head)
    except SafetensorError as error:
        if str(error) != _missing_data_complaint():
            raise CheckpointError(
                "the safetensors package refuses the header", where=where, actual=str(error)
            ) from None


@cache
def _missing_data_complaint() -> str:
    """How the installed safetensors words that the data are missing (the wording changed with releases)."""
    header = b'{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    try:
        _deserialize(len(header).to_bytes(LENGTH_BYTES, "little") + header)
    except SafetensorError as error:
        return str(error)
    return ""


def _check_names(header: bytes, distinct: int, where: str) -> None:
    """Refuse two tensors of one name: parsers keep one of them, and not all the same one.

    Counting a field that each entry has is enough unless the text holds escapes or a tensor is called like
    the field; only then is the header parsed once more, keeping repeated names.
    """
    if b"\\" not in header and header.count(b'"data_offsets"') == distinct:
        return
    import json

    names = sorted(name for name, _ in json.loads(header, object_pairs_hook=list))
    repeated = sorted({a for a, b in pairwise(names) if a == b})
    if repeated:
        raise CheckpointError("two tensors have one name", where=where, actual=", ".join(repeated[:5]))
