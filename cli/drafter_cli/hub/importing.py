"""A drafter whose weights stay on the Hub: small files and headers fetched, the rest a hole of the right size."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.hub.choice import write_hole
from drafter_cli.hub.headers import read_head
from drafter_cli.publishing import file_digests
from drafter_cli.publishing.carry_out import PlannedFile
from drafter_cli.words import size
from drafter_contracts.manifest import FILE_NAME, FileRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.hub.client import HubFile
    from drafter_cli.hub.source import HubListing

_WEIGHTS = ".safetensors"
_CONFIG = "config.json"
#: Largest file fetched whole, bytes: tokenizers have some ten million.
_SMALL_MAX_BYTES = 64 * 1024 * 1024


class Imported(msgspec.Struct, frozen=True):
    """A drafter's files as a publication needs them.

    Attributes:
        files: Those to publish: weights with their header alone, everything else whole.
        notes: What is taken on the Hub's word.
    """

    files: tuple[PlannedFile, ...]
    notes: tuple[str, ...]


def build(listing: HubListing, folder: str, *, config: str, digests: str) -> Imported:
    """Build a directory that `read_drafter` reads as it would read the drafter's own.

    Args:
        listing: Where the weights are.
        folder: An empty directory.
        config: A local config.json to take instead of the repository's; "" for that one.
        digests: Directory where digests of local files are remembered.

    Raises:
        CheckpointError: A weight file whose header is none.
        UsageError: No weights, a file that is too large to be fetched whole, no access.
        UnreachableError: The Hub does not answer.
    """
    if not any(file.path.endswith(_WEIGHTS) for file in listing.files):
        raise UsageError(
            f"{listing.repository} has no safetensors weights", "give a repository that has, or drafters publish DIR"
        )
    files = [file for file in listing.files if not (config and file.path == _CONFIG)]
    planned = [
        _weights(listing, file, folder) if file.path.endswith(_WEIGHTS) else _whole(listing, file, folder, digests)
        for file in files
    ]
    if config:
        planned.append(_local(config, _CONFIG, folder, digests))
    if listing.has_manifest:
        shutil.copyfile(listing.local(FILE_NAME), os.path.join(folder, FILE_NAME))
    planned.sort(key=lambda file: file.record.path)
    notes = [f"weights are not kept by the registry, their sizes and digests are the Hub's: {listing.elsewhere('')}"]
    if config:
        notes.append(f"{_CONFIG} is not the repository's")
    return Imported(tuple(planned), tuple(notes))


def _weights(listing: HubListing, file: HubFile, folder: str) -> PlannedFile:
    head = read_head(listing, file)
    write_hole(folder, file.path, file.size, head)
    record = FileRecord(
        path=file.path,
        size=file.size,
        sha256=file.sha256 or _fetched_digest(listing, file),
        elsewhere=listing.elsewhere(file.path),
        header_sha256=sha256(head).hexdigest(),
    )
    return PlannedFile(record, data=head)


def _fetched_digest(listing: HubListing, file: HubFile) -> str:
    """The digest of weights in Git itself, of which the Hub states none: they are small, or refused."""
    _refuse_large(file)
    with open(listing.local(file.path), "rb") as opened:
        data = opened.read(_SMALL_MAX_BYTES + 1)
    return sha256(data).hexdigest()


def _whole(listing: HubListing, file: HubFile, folder: str, digests: str) -> PlannedFile:
    _refuse_large(file)
    return _local(listing.local(file.path), file.path, folder, digests)


def _local(source: str, path: str, folder: str, digests: str) -> PlannedFile:
    digest, seen = file_digests.digest_of(source, digests, lambda _: None)
    target = os.path.join(folder, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    return PlannedFile(FileRecord(path=path, size=seen.size, sha256=digest), source, seen)


def _refuse_large(file: HubFile) -> None:
    if file.size > _SMALL_MAX_BYTES:
        raise UsageError(
            f"{file.path} has {size(file.size)}, too much to be fetched for an import",
            "drafters publish hf://ORG/REPO keeps everything",
        )
