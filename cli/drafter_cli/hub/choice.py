"""Which files of a commit on the Hub are published: the same choice as from a directory, made before any is fetched."""

from __future__ import annotations

import os
import re
import shutil
import tempfile

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.files import INDEX
from drafter_contracts.manifest import FILE_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.hub.source import HubListing

#: Paths that are safe to make in a directory of ours; the registry's own rule is stricter.
_PATH = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._/+ -]{0,399}")
#: A hole beyond the registry's largest blob says no more, and file systems have limits of their own. Bytes.
_LARGEST_HOLE = 2**36 + 1


def choose(listing: HubListing) -> HubListing:
    """The listing with the files that would be published from a directory like it, and a note on each other one.

    Raises:
        UsageError: No such file, or no access, while the index of the weights is fetched.
        UnreachableError: The Hub does not answer.
    """
    from drafter_cli.publishing.files import choose as choose_files

    named = {file.path: file for file in listing.files}
    good = {path for path in named if _PATH.fullmatch(path) and not {"", ".", ".."} & set(path.split("/"))}
    with tempfile.TemporaryDirectory(prefix="drafters-") as folder:
        for path in good:
            write_hole(folder, path, min(named[path].size, _LARGEST_HOLE))
        if INDEX in good and named[INDEX].size <= limits.index_max_bytes:
            shutil.copyfile(listing.local(INDEX), os.path.join(folder, INDEX))
        try:
            chosen = choose_files(folder)
        except msgspec.MsgspecError:  # of the index: whoever reads the drafter says what is wrong with it
            return listing
    left_out = [*chosen.left_out, *((path, "the registry has no such paths") for path in named.keys() - good)]
    notes = tuple(f"left out {path}: {why}" for path, why in sorted(left_out))
    kept = tuple(file for file in listing.files if file.path in chosen.paths)
    return msgspec.structs.replace(listing, files=kept, notes=(*listing.notes, *notes), has_manifest=FILE_NAME in named)


def write_hole(folder: str, path: str, size: int, head: bytes = b"") -> None:
    """A file of a size that holds no blocks, but for its first bytes."""
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "xb") as file:
        file.write(head)
        file.truncate(size)
