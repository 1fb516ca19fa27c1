"""A stored drafter, built again as a skeleton: small files copied, each weight file as its header and a hole.

Every weight file's header is read and checked here, also of those that the drafter's reader would pass over. Only
ranges are read: no file's weights, and no more of a header than `drafter_contracts.limits` allows.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.files import INDEX
from drafter_contracts.checkpoint.header import LENGTH_BYTES, header_length, parse_header
from drafter_contracts.errors import CheckpointError, ContractsError
from drafter_registry.errors import BlobsMissingError, ContradictionError, Fault, IncompleteError, NotFoundError
from drafter_registry.service import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.manifest import FileRecord, Manifest
    from drafter_registry.blobs.store import BlobStore

CONFIG = "config.json"
WEIGHTS = ".safetensors"
#: Files that the reader opens beside the weights, and the most bytes that each may have.
_COPIED = {
    CONFIG: limits.config_max_bytes,
    "hf_quant_config.json": limits.config_max_bytes,
    INDEX: limits.index_max_bytes,
}
#: Most faults that a message repeats; `faults` holds them all.
_SHOWN = 20


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def digest_of(file: FileRecord) -> str:
    """The blob that stands for a file here: its own, or its header's if the file is kept elsewhere."""
    return "sha256:" + (file.header_sha256 if file.elsewhere else file.sha256)


def listed_faults(manifest: Manifest) -> tuple[Fault, ...]:
    """What a list of paths tells: pickles by name, and that nothing can be read without a config and weights."""
    faults = [
        Fault(f"/files/{i}/path", f"{file.path} is not stored: {why}", expected="safetensors", actual=file.path)
        for i, file in enumerate(manifest.files)
        if (why := kinds.told_by_name(file.path))
    ]
    paths = {file.path for file in manifest.files}
    if CONFIG not in paths:
        faults.append(Fault("/files", f"{CONFIG} is not listed", expected=CONFIG, actual="no such file"))
    if not any(path.endswith(WEIGHTS) and "/" not in path for path in paths):
        faults.append(Fault("/files", "no weights are listed", expected=f"*{WEIGHTS}", actual="no such file"))
    return tuple(faults)


def build(blobs: BlobStore, manifest: Manifest, directory: str) -> None:
    """Build the skeleton of a manifest's files.

    Args:
        blobs: Where the files are. Of a file that is kept elsewhere, the blob of its header is read.
        manifest: Which files; their paths must have passed `names.check_path`.
        directory: An empty directory.

    Raises:
        IncompleteError: Files that are pickles by their first bytes.
        BlobsMissingError: Blobs that are not stored.
        ContradictionError: A file that is not of the size stated, a weight file that is none, a config over its cap.
            Both list everything that is wrong with any file.
        UnavailableError: The blob store does not answer.
    """
    wrong: list[Fault] = []
    refused: list[Fault] = []
    absent: list[Fault] = []
    for i, file in enumerate(manifest.files):
        pointer = f"/files/{i}"
        try:
            refused += _put(blobs, file, pointer, directory)
        except ContractsError as error:
            wrong.append(fault(pointer, error, directory))
        except _SizeError as error:
            text = f"{file.path} is not of the size stated"
            wrong.append(Fault(f"{pointer}/size", text, f"{error.stored} bytes", f"{file.size} bytes", file.path))
        except NotFoundError:
            text = f"the bytes of {file.path} are not stored"
            absent.append(Fault(pointer, text, expected=digest_of(file), actual="no such blob"))
    if refused:
        raise IncompleteError(in_words(refused), faults=(*refused, *absent, *wrong))
    if absent and not wrong:
        raise BlobsMissingError(in_words(absent), faults=tuple(absent), hint="upload them, then publish again")
    if wrong:
        raise ContradictionError(in_words(wrong), faults=(*wrong, *absent))


class _SizeError(Exception):
    """A blob has another size than the manifest says."""

    def __init__(self, stored: int) -> None:
        super().__init__()
        self.stored = stored


def _put(blobs: BlobStore, file: FileRecord, pointer: str, directory: str) -> list[Fault]:
    """One file's part of the skeleton; returns why it is not stored."""
    digest = digest_of(file)
    stored = blobs.size(digest)
    if stored is None:
        raise NotFoundError(digest)
    if not file.elsewhere and stored != file.size:
        raise _SizeError(stored)
    if file.path.endswith(WEIGHTS):
        _copy_header(blobs, file, stored, directory)
        return []
    if why := kinds.told_by_bytes(blobs.read(digest, 0, kinds.LOOKED_AT)):
        text = f"{file.path} is not stored: by its first bytes it is {why}"
        return [Fault(pointer, text, expected="safetensors, JSON or text", actual=why)]
    if file.path in _COPIED:
        _copy_small(blobs, file, directory)
    return []


def _copy_header(blobs: BlobStore, file: FileRecord, stored: int, directory: str) -> None:
    """The header of a weight file, checked, and a hole as long as the rest of it."""
    digest = digest_of(file)
    prefix = blobs.read(digest, 0, LENGTH_BYTES)
    length = header_length(prefix, file.size, file.path)
    if file.elsewhere and stored != LENGTH_BYTES + length:
        raise CheckpointError(
            "the stored header is not the file's first bytes up to the header's end",
            where=file.path,
            expected=f"{LENGTH_BYTES + length} bytes",
            actual=f"{stored} bytes",
        )
    head = prefix + blobs.read(digest, LENGTH_BYTES, length)
    parse_header(head, file.size, file.path)
    with _create(directory, file.path) as target:
        target.write(head)
        target.truncate(file.size)


def _copy_small(blobs: BlobStore, file: FileRecord, directory: str) -> None:
    limit = _COPIED[file.path]
    if file.size > limit:
        raise CheckpointError(
            "too large", where=file.path, expected=f"at most {limit} bytes", actual=f"{file.size} bytes"
        )
    with _create(directory, file.path) as target:
        target.write(blobs.read(digest_of(file), 0, file.size))


def refuse_missing_shards(manifest: Manifest, directory: str) -> None:
    """Name every shard that the index needs and the manifest lacks; the drafter's reader would name the first.

    Raises:
        IncompleteError: There are some.
    """
    path = os.path.join(directory, INDEX)
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        content = file.read()
    try:
        named = set(msgspec.json.decode(content, type=_Index).weight_map.values())
    except (msgspec.MsgspecError, RecursionError):
        return  # the drafter's reader says what is wrong with it
    absent = sorted(named - {file.path for file in manifest.files})
    faults = [
        Fault("/files", f"{name[:80]!r} is not listed", expected=name[:80], actual="no such file", source=INDEX)
        for name in absent[:_SHOWN]
    ]
    if faults:
        raise IncompleteError(
            f"{INDEX} names {len(absent)} shards that are not listed: {in_words(faults)}",
            faults=tuple(faults),
            hint="publish every shard that the index names",
        )


def in_words(faults: list[Fault]) -> str:
    """The messages of the first faults, as one text."""
    text = "; ".join(fault.message for fault in faults[:_SHOWN])
    return text if len(faults) <= _SHOWN else f"{text}; and {len(faults) - _SHOWN} more"


def fault(pointer: str, error: ContractsError, directory: str) -> Fault:
    """A reader's error as a fault. Paths in it are the version's own: nobody is told of the temporary directory."""

    def own(text: str) -> str:
        return text.replace(directory + os.sep, "").replace(directory, "the drafter")

    where = own(error.where)
    message = own(f"{where}: {error.message}" if where else error.message)
    return Fault(pointer, message, own(error.expected), own(error.actual), where)


def _create(directory: str, path: str) -> BinaryIO:
    full = os.path.join(directory, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return open(full, "xb")
