"""RENDER.md: what a render is of, for which engine and target, what was changed and why, how to make it again.

The same render has the same text: no date, no path, nothing of the machine.
"""

from __future__ import annotations

from drafter_contracts.layout import describe_taps
from drafter_contracts.manifest import digest
from drafter_contracts.rendering.reorder import reordered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.manifest import FileRecord, Manifest
    from drafter_contracts.rendering.record import Wanted

_TITLE = "# Render of "


def notes(manifest: Manifest, wanted: Wanted, files: Sequence[FileRecord]) -> str:
    """The text.

    Args:
        manifest: The version's manifest.
        wanted: What was made of it.
        files: The render's files, this one not among them.

    Raises:
        LayoutError: The order does not fit the manifest's layout.
    """
    name = f"{manifest.name}@{manifest.version}"
    lines = [
        f"{_TITLE}{name} for {wanted.engine}",
        "",
        f"The files of a stored drafter as {wanted.engine} must see them. They are no version of their own and are",
        "never published; the version they were made from is unchanged.",
        "",
        f"- version: {name}, `{digest(manifest)}`",
        f"- engine: {wanted.engine}",
        f"- target: {_target(manifest)}",
        *_layout(manifest, wanted),
        "",
        "## What was changed, and why",
        "",
        *(f"- {_plain(change)}" for change in wanted.changes),
        "",
        "## Files",
        "",
        *_files(manifest, files),
        "",
        "## Make it again",
        "",
        "```sh",
        f"drafters pull {name} --for {wanted.engine.replace(' ', '==', 1)} --target TARGET -o DIR",
        "```",
        "",
        "The same version, engine and target give the same bytes. The flags to launch it with: `drafters resolve`.",
    ]
    return "\n".join(lines) + "\n"


def is_notes(text: str) -> bool:
    """Whether a text is one that `notes` wrote."""
    return text.startswith(_TITLE)


def _target(manifest: Manifest) -> str:
    target = manifest.target
    depth = f"{target.layers} layers" if target.layers is not None else ""
    what = ", ".join(part for part in (target.architecture, depth) if part)
    return f"{target.model or 'not recorded'} ({what})" if what else target.model or "not recorded"


def _layout(manifest: Manifest, wanted: Wanted) -> list[str]:
    trained, fed = manifest.capture_layout(), reordered(manifest, wanted.weights.order).capture_layout()
    if trained is None or fed is None:
        return []
    lines = [f"- trained on: {describe_taps(trained.taps)}"]
    if wanted.weights.order:
        lines.append(f"- concatenated here as: {describe_taps(fed.taps)}; the blocks of `fc` are in this order")
    return lines


def _files(manifest: Manifest, files: Sequence[FileRecord]) -> list[str]:
    before = {file.path: file.sha256 for file in manifest.files}
    lines = []
    for file in sorted(files, key=lambda one: one.path):
        was = before.get(file.path)
        word = "as published" if was == file.sha256 else "new" if was is None else f"changed, was `sha256:{was}`"
        lines.append(f"- `{file.path}`, {file.size} bytes, `sha256:{file.sha256}`: {word}")
    return lines


def _plain(text: str) -> str:
    """A sentence on one line, whatever a config holds."""
    return " ".join(text.split())
