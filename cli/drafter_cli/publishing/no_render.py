"""What a manifest beside the files states; files that are a render of a stored version are not published."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError
from drafter_contracts.manifest import Manifest, read_manifest
from drafter_contracts.rendering.notes import is_notes
from drafter_contracts.rendering.record import NOTES_NAME

_MOST_BYTES = 1024


def stated_beside(directory: str) -> Manifest | None:
    """The manifest of a directory that is to be published, or None if there is none.

    Raises:
        ManifestError: It cannot be read.
        UsageError: The directory is a render, by its manifest or, where that is gone, by its notes.
    """
    manifest = read_manifest(directory)
    if manifest is not None and manifest.render is not None:
        of = f"{manifest.name}@{manifest.version}"
        raise UsageError(
            f"{directory} is a render of {of} ({manifest.render.of}) for {manifest.render.engine}: a render is never"
            " published",
            f"publish the drafter's own files; `drafters pull {of}` has them",
        )
    first = _first_line(os.path.join(directory, NOTES_NAME))
    if is_notes(first):
        raise UsageError(
            f"{directory} is a render, by its {NOTES_NAME} ({first.lstrip('# ').strip()}): a render is never published",
            "publish the drafter's own files; that version has them",
        )
    return manifest


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(_MOST_BYTES)
    except OSError:
        return ""
