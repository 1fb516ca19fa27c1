"""The weight files that a render must have of its own, written into a folder; of shards, their index too."""

from __future__ import annotations

import hashlib
import os

import msgspec

from drafter_cli.cache.blobs import VERIFIED_NS
from drafter_cli.rendering.weights_file import read_weights_head, write_weights
from drafter_contracts.checkpoint.files import INDEX
from drafter_contracts.manifest import FileRecord
from drafter_contracts.rendering.weights import renamed_index, rewritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.rendering.records import WeightChange

_WEIGHTS = ".safetensors"
_READ_ONLY = 0o444


class Changed(msgspec.Struct, frozen=True):
    """A file that was written.

    Attributes:
        record: As a manifest lists it.
        path: Where it lies.
    """

    record: FileRecord
    path: str


def changed_weights(
    source: str, paths: Sequence[str], change: WeightChange, widths: Sequence[int], folder: str
) -> tuple[Changed, ...]:
    """Write what changes; every file that is not named stays as it is.

    Args:
        source: The drafter's directory.
        paths: Its files.
        change: What to change.
        widths: Width of each tap in the drafter's own order, elements; empty for taps of one width.
        folder: Where to write; it lies on the cache's file system.

    Raises:
        RenderError: The weights cannot be changed like that.
        CheckpointError: A file that cannot be read.
        UsageError: A file cannot be written.
        OSError: As before, of the index.
    """
    if not change.any:
        return ()
    places = {path: os.path.join(source, *path.split("/")) for path in paths if path.endswith(_WEIGHTS)}
    heads = [read_weights_head(places[path], path) for path in sorted(places)]
    made = []
    for number, plan in enumerate(rewritten(heads, change, widths)):
        written = write_weights(plan, places, os.path.join(folder, f"{number}{_WEIGHTS}"))
        os.chmod(written.path, _READ_ONLY)
        os.utime(written.path, ns=(VERIFIED_NS, VERIFIED_NS))  # it was hashed just now
        made.append(Changed(FileRecord(path=plan.name, size=written.size, sha256=written.sha256), written.path))
    return (*made, *_index(source, paths, change, os.path.join(folder, "index.json")))


def _index(source: str, paths: Sequence[str], change: WeightChange, place: str) -> tuple[Changed, ...]:
    """The index of shards under the new names, where it changes."""
    if INDEX not in paths:
        return ()
    with open(os.path.join(source, INDEX), "rb") as file:
        data = file.read()
    changed = renamed_index(data, change.renames, INDEX)
    if changed == data:
        return ()
    with open(place, "xb") as file:
        file.write(changed)
    record = FileRecord(path=INDEX, size=len(changed), sha256=hashlib.sha256(changed).hexdigest())
    return (Changed(record, place),)
