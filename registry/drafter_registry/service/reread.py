"""What a drafter's stored files say of it. The registry believes no claim that it can read off the bytes itself.

In a private temporary directory the drafter is built again as a skeleton, which `drafter_contracts.checkpoint` reads
as it reads any drafter. No weight leaves the blob store, and memory is bounded by the caps on headers and configs.
"""

from __future__ import annotations

import errno
import json
import tempfile
from collections import OrderedDict
from functools import cache
from hashlib import sha256
from threading import Lock

import msgspec

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.errors import ContractsError
from drafter_contracts.manifest import Manifest, decode
from drafter_registry.errors import (
    ContradictionError,
    Fault,
    IncompleteError,
    IntegrityError,
    StorageFullError,
    UnavailableError,
)
from drafter_registry.service import skeleton
from drafter_registry.service.context import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Connection, Row

    from drafter_registry.blobs.store import BlobStore

#: Packages whose code decides what is read off a drafter.
_READERS = ("checkpoint", "conventions", "numberings")
#: Most versions whose facts, once read again, are kept in this process.
_REMEMBERED = 128
_again: OrderedDict[str, DrafterFacts] = OrderedDict()
_again_lock = Lock()


@cache
def reader() -> str:
    """Which reader facts come from: this release and a digest of its reading code, "drafter-registry 0.1.0/1a2b...".

    Facts that another reader stored are read again (`facts_of`), so that an upgrade never judges by old readings.
    """
    from importlib.metadata import PackageNotFoundError, version
    from importlib.resources import files

    code = sha256()
    for package in _READERS:
        folder = files("drafter_contracts").joinpath(package)
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                code.update(file.read_bytes())
    try:
        release = version("drafter-registry")
    except PackageNotFoundError:
        release = "0+unknown"
    return f"drafter-registry {release[:30]}/{code.hexdigest()[:12]}"


def facts_of(registry: Registry, connection: Connection, row: Row[*tuple[Any, ...]]) -> DrafterFacts:  # noqa: ARG001 - a row has one
    """The facts of a stored version: as they were stored, or read again if another reader stored them.

    What is read again is kept in this process, not written: a version's row never changes but for its state.

    Args:
        registry: The registry.
        connection: The transaction that found the row.
        row: As `versions.find` gives it.

    Raises:
        IntegrityError: Blobs that the version needs are gone, or cannot be read any more.
        UnavailableError: The blob store does not answer.
    """
    if row.facts_by == reader():
        return decode_facts(row.facts)
    with _again_lock:
        known = _again.get(row.digest)
    if known is not None:
        return known
    try:
        facts = reread(registry.blobs, decode(row.manifest))
    except (ContractsError, ContradictionError, IncompleteError) as error:
        raise IntegrityError(
            f"{row.name}@{row.version} was stored by {row.facts_by} and cannot be read again: {error}",
            hint="`drafters fsck` says which blobs are damaged",
        ) from error
    with _again_lock:
        _again[row.digest] = facts
        while len(_again) > _REMEMBERED:
            _again.popitem(last=False)
    return facts


def encode_facts(facts: DrafterFacts) -> bytes:
    """Facts as JSON. Configs of some models hold NaN or Infinity; those stay, written as Python writes them.

    Raises:
        IncompleteError: A text in config.json is no Unicode.
    """
    try:
        encoded = msgspec.json.encode(facts)
        if msgspec.json.decode(encoded, type=DrafterFacts) == facts:
            return encoded
        return json.dumps(msgspec.to_builtins(facts), ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise IncompleteError(
            "config.json holds a text that is no Unicode: half of a surrogate pair", hint="write the character itself"
        ) from None


def decode_facts(data: bytes) -> DrafterFacts:
    """Facts from what `encode_facts` wrote."""
    try:
        return msgspec.json.decode(data, type=DrafterFacts)
    except msgspec.MsgspecError:
        return msgspec.convert(json.loads(data), DrafterFacts)


def reread(blobs: BlobStore, manifest: Manifest) -> DrafterFacts:
    """Read the headers and configs of a manifest's files off their blobs.

    Args:
        blobs: Where the files are. Of a file that is kept elsewhere, the blob of its header is read.
        manifest: Which files, and the target's depth and width, which the files often do not say. Its paths must
            have passed `names.check_path`.

    Returns:
        The facts; the path in them is "NAME@VERSION".

    Raises:
        IncompleteError: No config.json, no weights, blobs that are not stored, files of a kind that is not stored,
            shards that are not listed.
        ContradictionError: A file that is not of the size stated, a weight file that is none, or files that cannot be
            read together. Both list everything that is wrong, by the version's own paths.
        UnavailableError: The blob store does not answer, or no temporary file can be written.
        StorageFullError: There is no room for temporary files.
    """
    faults = skeleton.listed_faults(manifest)
    if faults:
        raise IncompleteError(skeleton.in_words(list(faults)), faults=faults)
    try:
        with tempfile.TemporaryDirectory(prefix="drafters-") as directory:
            skeleton.build(blobs, manifest, directory)
            skeleton.refuse_missing_shards(manifest, directory)
            facts = _read(directory, manifest)
    except OSError as error:  # stores raise their own errors: this is the temporary directory
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError("the registry has no room for temporary files") from error
        raise UnavailableError(f"the registry cannot write temporary files: {error.strerror}") from error
    return msgspec.structs.replace(facts, path=f"{manifest.name}@{manifest.version}")


def _read(directory: str, manifest: Manifest) -> DrafterFacts:
    target = manifest.target
    try:
        return read_drafter(
            directory,
            target_layers=target.layers,
            target_hidden_size=target.hidden_size,
            target_model_type=target.text_model_type or target.model_type,
        )
    except ContractsError as error:
        fault = skeleton.fault("/files", error, directory)
        raise ContradictionError(fault.message, faults=(fault,)) from error
    except RecursionError as error:
        fault = Fault("/files", "config.json is nested too deeply", source=skeleton.CONFIG)
        raise ContradictionError(fault.message, faults=(fault,)) from error
