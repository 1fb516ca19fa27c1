"""Whether the drafter's files on disk still are those of its record."""

from __future__ import annotations

import os

from drafter_contracts.acceptance.causes import SEEN, Cause, Open
from drafter_contracts.errors import CheckpointError
from drafter_contracts.manifest import FILE_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.doctor.checking import Contract
    from drafter_contracts.manifest_records import FileRecord

WHAT = "bytes of the drafter's files"


def compare(contract: Contract, folder: str) -> Cause | Open | str:
    """The files that the engine loads against the digests in the drafter's record.

    Args:
        contract: The record.
        folder: Where digests of files are remembered.

    Returns:
        The cause, what is open, or what was found right.
    """
    place = contract.served
    if not place:
        return Open(
            what=WHAT, why="the engine's draft path is not on this machine", settle="run this beside the engine"
        )
    manifest = contract.manifest
    if manifest is None or not manifest.files:
        return Open(
            what=WHAT,
            why="no record of their digests was found",
            settle="name the stored version: drafters doctor NAME@VERSION --url URL",
        )
    if _is_render(place):
        return Open(
            what=WHAT,
            why=f"{place} is a render, with files of its own",
            settle="drafters lock records its digests, and drafters guard --locked holds it against them",
        )
    differs = [text for file in manifest.files if (text := _difference(place, file, folder))]
    if not differs:
        return f"all {len(manifest.files)} files of the drafter by their digests"
    told = contract.reference or manifest.name or "its record"
    return Cause(
        code="DRAFTER_CHANGED",
        message=f"the drafter's files in {place} are not those of {told}: {differs[0]}",
        confidence=SEEN,
        evidence=tuple(differs),
        next=f"drafters pull {told}, and start the engine again on what it prints",
        catalogue=("R06", "R28"),
    )


def _difference(place: str, file: FileRecord, folder: str) -> str:
    from drafter_cli.errors import UsageError
    from drafter_cli.publishing.file_digests import digest_of

    path = os.path.join(place, *file.path.split("/"))
    try:
        size = os.path.getsize(path)
        if size != file.size:
            return f"{file.path}: {size} bytes, recorded {file.size}"
        found, _ = digest_of(path, folder, lambda _: None)
    except FileNotFoundError:
        return f"{file.path}: not there"
    except (OSError, CheckpointError, UsageError) as error:
        return f"{file.path}: cannot be read ({error})"
    return "" if found == file.sha256 else f"{file.path}: sha256 {found[:12]}..., recorded {file.sha256[:12]}..."


def _is_render(place: str) -> bool:
    from drafter_contracts.errors import ManifestError
    from drafter_contracts.manifest import read_manifest

    if not os.path.lexists(os.path.join(place, FILE_NAME)):
        return False
    try:
        beside = read_manifest(place)
    except (ManifestError, CheckpointError):
        return False
    return beside is not None and beside.render is not None
