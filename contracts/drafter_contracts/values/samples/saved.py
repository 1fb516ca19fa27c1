"""Files of `torch.save`: their structure is looked at first, their tensors are mapped, no code of theirs is run.

`torch.load(weights_only=True)` alone would still inflate a compressed record, build what a few bytes of pickle ask
for at any size, and say little about what it refused. So the container's directory and the opcodes of the pickle are
read before torch sees the file, and what states do not need is refused by its name.
"""

from __future__ import annotations

import io
import os
import pickletools
import warnings
import zipfile
from typing import Any, BinaryIO

import torch

from drafter_contracts import limits
from drafter_contracts.errors import SampleError

#: Opcodes that name something to import; protocol 2, which torch.save writes, has the first alone.
_NAMING = {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}
_REBUILDS = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3")


class _Capped(io.BufferedReader):
    """Refuses one read of more than a zip's directory may have: `zipfile` reads it whole, as long as the file says."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > max(limits.sample_directory_max_bytes, limits.sample_pickle_max_bytes):
            raise zipfile.BadZipFile(f"its directory would have {size} bytes")
        return super().read(size)


def load(file: BinaryIO, where: str) -> Any:
    """What was saved; its tensors are views of the mapped file.

    Args:
        file: Open for reading; a zip file, as torch.save writes since 1.6.
        where: The file's name, for messages.

    Raises:
        SampleError: Not such a file, damaged or cut short, larger than the kernel maps, or it asks for anything
            but tensors in dicts, lists, text and numbers.
    """
    check_pickle(_pickle_of(file, where), where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # By its descriptor: the very file that was looked at, whatever it is called (torch.load goes by suffix).
            return torch.load(f"/proc/self/fd/{file.fileno()}", map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # noqa: BLE001 - a damaged file makes torch raise whatever its parts raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if "unable to mmap" in reason:
            raise SampleError(
                "the kernel does not map the file: it is larger than memory and swap (vm.overcommit_memory=1 lets it)",
                where=where,
                actual=f"{os.fstat(file.fileno()).st_size} bytes",
            ) from None
        raise SampleError("torch cannot load the file", where=where, actual=reason[:300]) from None


def _pickle_of(file: BinaryIO, where: str) -> bytes:
    """The pickle of a zip file, after a look at the directory: plain records alone, all inside the file."""
    size = os.fstat(file.fileno()).st_size
    with _Capped(open(f"/proc/self/fd/{file.fileno()}", "rb", buffering=0)) as again:
        try:
            with zipfile.ZipFile(again) as archive:
                return archive.read(_checked_member(archive.infolist(), size, where))
        except SampleError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged bytes make zipfile raise struct.error and much else
            raise SampleError(
                "the zip container is damaged or cut short", where=where, actual=str(error) or type(error).__name__
            ) from None


def _checked_member(members: list[zipfile.ZipInfo], size: int, where: str) -> zipfile.ZipInfo:
    """The one pickle of torch.save's container, all members of which are as torch.save writes them."""
    for member in members:
        _check_member(member, size, where)
    pickles = [member for member in members if member.filename.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise SampleError(
            "a zip file, but not one of torch.save", where=where, expected="one data.pkl", actual=str(len(pickles))
        )
    if pickles[0].file_size > limits.sample_pickle_max_bytes:
        raise SampleError(
            "the pickle is too large",
            where=where,
            expected=f"at most {limits.sample_pickle_max_bytes} bytes; states lie beside it",
            actual=f"{pickles[0].file_size} bytes",
        )
    return pickles[0]


def _check_member(member: zipfile.ZipInfo, size: int, where: str) -> None:
    plain = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    if not plain or member.flag_bits & 1:
        raise SampleError(
            f"{member.filename[:80]} is compressed or encrypted; torch.save stores records as they are", where=where
        )
    if member.header_offset + member.file_size > size:
        raise SampleError(
            f"{member.filename[:80]} would end after the file does: cut short, or damaged",
            where=where,
            expected=f"at most {size} bytes",
            actual=f"bytes {member.header_offset} to {member.header_offset + member.file_size}",
        )


def check_pickle(pickle: bytes, where: str) -> None:
    """Refuse a pickle that asks for anything but tensors.

    Args:
        pickle: The bytes; nothing of them is run.
        where: The file's name, for messages.

    Raises:
        SampleError: No pickle, or it names a global that states do not need; the message names it.
    """
    try:
        _check_names(pickle, where)
    except SampleError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes make pickletools raise struct.error and much else
        raise SampleError("the pickle is damaged", where=where, actual=str(error)[:200]) from None


def _check_names(pickle: bytes, where: str) -> None:
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name in _NAMING:
            raise SampleError(
                "the pickle names globals in a way that torch.save does not: not loaded",
                where=where,
                actual=opcode.name,
            )
        if opcode.name != "GLOBAL":
            continue
        module, _, name = str(argument).partition(" ")
        if not _harmless(module, name):
            raise SampleError(
                f"the pickle asks for {module}.{name}, which recorded states do not need: not loaded",
                where=where,
                expected="tensors in dicts, lists, text and numbers",
                actual=f"{module}.{name}",
            )


def _harmless(module: str, name: str) -> bool:
    if (module, name) == ("collections", "OrderedDict"):
        return True
    if module == "torch._utils":
        return name in _REBUILDS
    if module in {"torch", "torch.storage"} and name.endswith("Storage"):
        return True
    return module == "torch" and (name == "Size" or isinstance(getattr(torch, name, None), torch.dtype))
