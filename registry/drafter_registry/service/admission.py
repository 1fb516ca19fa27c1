"""What a manifest must be before anybody looks at a blob: everything that the document alone tells."""

from __future__ import annotations

import re

import msgspec

from drafter_contracts.checkpoint.facts import METHODS
from drafter_contracts.errors import ManifestError
from drafter_contracts.manifest import FILE_NAME, Manifest, canonical, decode
from drafter_registry import limits
from drafter_registry.errors import Fault, InvalidError, RenderedError, TooLargeError
from drafter_registry.names import check_path, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.manifest import FileRecord
    from drafter_registry.settings import Settings

#: Longest text of the columns that lists and searches use (`db.models.VersionRow`), characters.
_COLUMN = 255
_ELSEWHERE = re.compile(r"hf://(?:[A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+@[0-9a-f]{40}/[!-~]+")
_ELSEWHERE_LONGEST = 1024


def admit(settings: Settings, name: str, version: str, manifest: Manifest) -> bytes:
    """A manifest's canonical bytes, if it may become that version as far as the document alone tells.

    Args:
        settings: What the registry takes.
        name: The name that it is published under.
        version: The version.
        manifest: The manifest, from wherever: it is checked against the schema again.

    Raises:
        RenderedError: It says of itself that its files are a render of a version.
        InvalidError: Another name or version inside, values that the schema does not allow, or files that cannot be
            kept; `faults` lists all.
        TooLargeError: More bytes of JSON than the registry takes.
    """
    if manifest.render is not None:
        raise rendered(manifest)
    try:
        data = canonical(manifest)
    except (ValueError, TypeError, RecursionError) as error:  # NaN, half of a surrogate pair, what JSON does not have
        raise InvalidError(f"the manifest cannot be written as JSON: {error}") from error
    if len(data) > limits.manifest_max_bytes:
        raise TooLargeError(f"the manifest has {len(data)} bytes; at most {limits.manifest_max_bytes} are taken")
    try:
        decode(data)
    except ManifestError as error:
        field = error.where.partition(": ")[2] or error.where
        pointer = "/" + field.replace("[", "/").replace("]", "").replace(".", "/")
        fault = Fault(pointer, error.message, error.expected, error.actual)
        raise InvalidError(error.diagnostics(), faults=(fault,)) from error
    faults = (*_texts(name, version, manifest), *_list(manifest), *_files(settings, manifest))
    if faults:
        raise InvalidError("; ".join(fault.message for fault in faults[:20]), faults=faults)
    return data


def rendered(manifest: Manifest) -> RenderedError:
    """Why the files of a manifest that is a render's are not published, naming the version that they are of."""
    record = manifest.render
    of, engine = f"{manifest.name}@{manifest.version}", record.engine if record is not None else ""
    told = record.of if record is not None else ""
    return RenderedError(
        f"these files are a render of {shown(of)} for {shown(engine)}, and a render is never published",
        hint=f"publish the drafter's own files: drafters pull {shown(of)} has them",
        faults=(Fault("/render", "it names the version that these files were made from", "nothing", told),),
    )


def _texts(name: str, version: str, manifest: Manifest) -> Iterator[Fault]:
    for field, told, inside in (("name", name, manifest.name), ("version", version, manifest.version)):
        if told != inside:
            text = f"it is published as {field} {shown(told)}, and the manifest says {shown(inside)}"
            yield Fault(f"/{field}", text, expected=told, actual=inside[:_COLUMN])
    if manifest.method and manifest.method not in METHODS:
        text = f"{shown(manifest.method)} is no method"
        yield Fault("/method", text, expected=", ".join(METHODS), actual=manifest.method[:_COLUMN])
    for field in ("model", "architecture"):
        text = getattr(manifest.target, field)
        if len(text) > _COLUMN or not text.isprintable():
            message = f"target.{field} is longer than a line or holds characters that cannot be shown"
            yield Fault(f"/target/{field}", message, f"at most {_COLUMN} printable characters", shown(text))


def _list(manifest: Manifest) -> Iterator[Fault]:
    """What is wrong with the files as a list."""
    paths = [file.path for file in manifest.files]
    if len(paths) > limits.version_max_files:
        text = f"{len(paths)} files are more than a version may have"
        yield Fault("/files", text, f"at most {limits.version_max_files}", str(len(paths)))
    if paths != sorted(paths):
        # One order, so that the same files are the same bytes.
        yield Fault("/files", "the files are not sorted by path", expected="sorted by path")
    folded: dict[str, str] = {}
    folders = {folder.lower() for path in paths for folder in _folders(path)}
    for i, path in enumerate(paths):
        other = folded.setdefault(path.lower(), path)
        if other is not path:
            text = f"{shown(path)} and {shown(other)} are one file where case does not matter"
            yield Fault(f"/files/{i}/path", text, expected="distinct paths", actual=shown(path))
        if path.lower() in folders:
            text = f"{shown(path)} is a file and also a folder of another file"
            yield Fault(f"/files/{i}/path", text, expected="distinct paths", actual=shown(path))


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _files(settings: Settings, manifest: Manifest) -> Iterator[Fault]:
    """What is wrong with single files."""
    for i, file in enumerate(manifest.files):
        try:
            check_path(file.path)
        except InvalidError as error:
            yield Fault(f"/files/{i}/path", error.message, expected=error.hint, actual=shown(file.path))
        if file.path.lower() == FILE_NAME:
            text = f"{FILE_NAME} is the manifest itself and never one of its files"
            yield Fault(f"/files/{i}/path", text, actual=file.path)
        longest = limits.blob_max_bytes if file.elsewhere else settings.blob_max_bytes
        if file.size > longest:
            text = f"{shown(file.path)} is larger than the registry takes"
            yield Fault(f"/files/{i}/size", text, f"at most {longest} bytes", f"{file.size} bytes")
        if (fault := _kept_elsewhere(file)) is not None:
            yield msgspec.structs.replace(fault, pointer=f"/files/{i}{fault.pointer}")


def _kept_elsewhere(file: FileRecord) -> Fault | None:
    if not file.elsewhere:
        if not file.header_sha256:
            return None
        text = f"{shown(file.path)} is kept here, so its header is not kept apart"
        return Fault("/header_sha256", text, expected="nothing", actual=file.header_sha256)
    if not file.path.endswith(".safetensors"):
        text = f"only weights may stay elsewhere; {shown(file.path)} must be stored here"
        return Fault("/elsewhere", text, expected="*.safetensors", actual=shown(file.elsewhere))
    if not file.header_sha256:
        text = f"{shown(file.path)} stays elsewhere, so its header must be stored here"
        return Fault("/header_sha256", text, expected="sha256 of the file's first bytes, to the header's end")
    if len(file.elsewhere) > _ELSEWHERE_LONGEST or not _ELSEWHERE.fullmatch(file.elsewhere):
        text = f"{shown(file.path)} is said to lie at no place that stays the same"
        return Fault("/elsewhere", text, "hf://ORG/REPO@COMMIT/PATH, COMMIT 40 hex digits", shown(file.elsewhere))
    return None
