"""Renders in the local cache: a pulled version as one engine release must see it.

`renders/NAME/KEY/` holds weights (hard links to the cache's blobs, which are read-only, or rewritten ones), the
release's `config.json`, the other files as copies, `RENDER.md` and `drafters-manifest.json`. KEY is a digest of
everything that the render is made from, so that the same question finds the same directory; its identity is the digest
of its own manifest, which lists every file. A directory is there whole or not at all, and one that was touched since is
made again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile

import msgspec

from drafter_cli.cache.blobs import Blobs
from drafter_cli.cache.drafters import assemble, cache_root, held, is_complete
from drafter_cli.rendering.changed_weights import changed_weights
from drafter_contracts.errors import ManifestError
from drafter_contracts.manifest import FILE_NAME, FileRecord, Manifest, canonical, digest, read_manifest
from drafter_contracts.rendering.notes import notes
from drafter_contracts.rendering.record import NOTES_NAME, Wanted, rendered_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.cache.fetched import Fetched

_CONFIG = "config.json"
_WEIGHTS = ".safetensors"


class Render(msgspec.Struct, frozen=True):
    """A render that is there.

    Attributes:
        directory: Where.
        digest: Its identity: "sha256:" of its manifest, which lists every file with its own digest.
        manifest: That manifest.
    """

    directory: str
    digest: str
    manifest: Manifest


def ensure(pulled: Fetched, wanted: Wanted) -> Render:
    """The render of a version, made if it is not here.

    Args:
        pulled: The version's files.
        wanted: What is to be made of them; something (`Wanted.any`).

    Raises:
        UsageError: The cache cannot be written.
        ContractsError: The weights cannot be changed like that.
    """
    root = cache_root()
    directory = os.path.join(root, "renders", pulled.manifest.name, _key(pulled, wanted))
    found = _whole(directory, pulled, wanted)
    if found is not None:
        return found
    with held(directory, Blobs(root)):
        found = _whole(directory, pulled, wanted)  # somebody else may have made it meanwhile
        return found or _make(directory, pulled, wanted)


def _key(pulled: Fetched, wanted: Wanted) -> str:
    """Digest of everything that a render is made from."""
    told = (pulled.digest, wanted)
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:32]


def _whole(directory: str, pulled: Fetched, wanted: Wanted) -> Render | None:
    """The render that is in a directory, if it is the wanted one, whole and undamaged."""
    try:
        there = read_manifest(directory)
    except ManifestError:
        return None
    if there is None or canonical(there) != canonical(rendered_manifest(pulled.manifest, wanted, there.files)):
        return None
    return Render(directory, digest(there), there) if is_complete(directory, there.files, there) else None


def _make(directory: str, pulled: Fetched, wanted: Wanted) -> Render:
    source, layout = pulled.directory, pulled.manifest.capture_layout()
    records = {file.path: file for file in pulled.manifest.files if file.path != NOTES_NAME}
    places = {path: os.path.join(source, *path.split("/")) for path in records}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(directory), prefix=".weights-") as folder:
        widths = layout.widths if layout is not None else ()
        for changed in changed_weights(source, sorted(records), wanted.weights, widths, folder):
            records[changed.record.path], places[changed.record.path] = changed.record, changed.path
        texts = {} if wanted.config is None else {_CONFIG: _json(wanted.config)}
        records |= {path: _record(path, data) for path, data in texts.items()}
        told = notes(pulled.manifest, wanted, tuple(records.values())).encode()
        texts[NOTES_NAME], records[NOTES_NAME] = told, _record(NOTES_NAME, told)
        manifest = rendered_manifest(pulled.manifest, wanted, tuple(records.values()))
        texts[FILE_NAME] = canonical(manifest)
        links = {path: name for path, name in places.items() if path.endswith(_WEIGHTS)}
        copies = {path: name for path, name in places.items() if path not in links and path not in texts}
        assemble(directory, links, texts, copies)
    return Render(directory, digest(manifest), manifest)


def _json(config: dict[str, object]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(config, order="sorted"), indent=2) + b"\n"


def _record(path: str, data: bytes) -> FileRecord:
    return FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
