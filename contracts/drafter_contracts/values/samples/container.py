"""What holds a sample: told by the first bytes, unpacked where it has to be, read without running anything."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

from drafter_contracts import limits
from drafter_contracts.errors import SampleError
from drafter_contracts.values.samples import legacy, saved
from drafter_contracts.values.samples.mapped import open_sample, safetensors

ZIP = "zip"
GZIP = "gzip"
LEGACY = "legacy"
SAFETENSORS = "safetensors"

_CHUNK = 1 << 20
# The length of a safetensors header, and the brace that begins it.
_HEAD = 9


def kind(head: bytes) -> str:
    """Which container begins with these bytes; "" if none that samples come in."""
    if head.startswith(b"PK\x03\x04"):
        return ZIP
    if head.startswith(b"\x1f\x8b"):
        return GZIP
    if head.startswith(legacy.MAGIC):
        return LEGACY
    return SAFETENSORS if head[8:9] == b"{" else ""


def read_container(path: str) -> tuple[str, Any] | None:
    """What a file holds.

    Args:
        path: The file.

    Returns:
        The innermost container ("safetensors" or "zip"), and for safetensors a mapping of names to tensors, for the
        others whatever was saved. None where the first bytes are those of no container that samples come in.

    Raises:
        SampleError: Not a regular file, empty, damaged, cut short, over a limit, or it would have to run code.
    """
    file, size = open_sample(path)
    with file:
        if not size:
            raise SampleError("the file is empty", where=path)
        found = kind(_head(file))
        if found == GZIP:
            with _unpacked(file, path) as inner:
                return _read(inner, kind(_head(inner)), f"{path} (unpacked)")
        return _read(file, found, path) if found else None


def _read(file: BinaryIO, found: str, where: str) -> tuple[str, Any]:
    if found == LEGACY:
        with tempfile.TemporaryFile() as renewed:
            legacy.rewrite(file, renewed, where)
            return ZIP, saved.load(renewed, where)
    if found == ZIP:
        return ZIP, saved.load(file, where)
    if found == SAFETENSORS:
        size = file.seek(0, 2)
        file.seek(0)
        tensors: Mapping[str, Any] = safetensors(file, size, where)
        return SAFETENSORS, tensors
    raise SampleError(
        "what was unpacked is no container of recorded states",
        where=where,
        expected="a file of torch.save or safetensors",
        actual=found or "neither",
    )


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    head = file.read(max(_HEAD, len(legacy.MAGIC)))
    file.seek(0)
    return head


def _unpacked(file: BinaryIO, where: str) -> BinaryIO:
    """The content of a gzip file in a file that has no name: it is gone with its last reader."""
    target = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        _inflate(file, target, where)
    except (OSError, EOFError, zlib.error) as error:
        target.close()
        raise SampleError(
            "cannot be unpacked: damaged, cut short, or no space", where=where, actual=str(error)
        ) from None
    except SampleError:
        target.close()
        raise
    return target


def _inflate(file: BinaryIO, target: BinaryIO, where: str) -> None:
    with gzip.GzipFile(fileobj=file, mode="rb") as stream:
        while chunk := stream.read(_CHUNK):
            if target.tell() + len(chunk) > limits.sample_unpacked_max_bytes:
                raise SampleError(
                    "unpacks to too much", where=where, expected=f"at most {limits.sample_unpacked_max_bytes} bytes"
                )
            target.write(chunk)
    target.flush()
