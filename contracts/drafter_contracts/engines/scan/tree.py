"""The source of an engine release, read as text: from a directory or straight out of a wheel.

Nothing is imported, unpacked or installed. Paths are given below `sglang/srt`; the few files beside it that start
the engine (`sglang/cli/*.py`, `sglang/launch_server.py`) are "../cli/serve.py" and so on.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile

from drafter_contracts import limits
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Folder of the engine that is scanned; keys of a profile's `sources` are paths below it.
ROOT = "sglang/srt"
#: Files beside it that are read too.
BESIDE = ("cli/__init__.py", "cli/main.py", "cli/serve.py", "cli/serve_backends.py", "cli/utils.py", "launch_server.py")

_VERSION = re.compile(
    r"""^\s*(?:__version__|version)\s*(?::[^=]+)?=\s*(?:version\s*=\s*)?["']([^"']+)["']""", re.MULTILINE
)
_METADATA_VERSION = re.compile(r"^Version:\s*(\S+)\s*$", re.MULTILINE)
_METADATA_NAME = re.compile(r"^Name:\s*(\S+)\s*$", re.MULTILINE | re.IGNORECASE)


class SourceTree:
    """Python files of one release below `sglang/srt`.

    Args:
        origin: The path it was opened from, for messages.
        release: Version as published.
        files: Path below `sglang/srt` to the file's bytes or, for a directory, its place on disk.
    """

    def __init__(self, origin: str, release: str, files: dict[str, str | bytes]) -> None:
        self.origin = origin
        self.release = release
        self._files = files
        self._text: dict[str, str] = {}

    def files(self) -> tuple[str, ...]:
        """Paths of all Python files below `sglang/srt`, sorted."""
        return tuple(sorted(self._files))

    def __contains__(self, rel: object) -> bool:
        return rel in self._files

    def read_bytes(self, rel: str) -> bytes:
        """Content of one file.

        Raises:
            ScanError: No such file, or one above the size limit.
        """
        held = self._files.get(rel)
        if held is None:
            raise ScanError("no such file in this release", where=f"{self.origin}: {ROOT}/{rel}")
        if isinstance(held, bytes):
            return held
        return _read_capped(held)

    def read(self, rel: str) -> str:
        """Text of one file (UTF-8).

        Raises:
            ScanError: No such file, above the size limit, or not UTF-8.
        """
        if rel not in self._text:
            try:
                self._text[rel] = self.read_bytes(rel).decode("utf-8-sig")
            except UnicodeDecodeError:
                raise ScanError("not UTF-8", where=f"{self.origin}: {ROOT}/{rel}") from None
        return self._text[rel]

    def sha256(self, rel: str) -> str:
        """Hex digest of one file's bytes."""
        return hashlib.sha256(self.read_bytes(rel)).hexdigest()

    def sources(self, prefixes: Iterable[str] = ("",)) -> dict[str, str]:
        """Text of all files whose path starts with one of `prefixes`, for `sandbox.run_probe`."""
        wanted = tuple(prefixes)
        return {rel: self.read(rel) for rel in self.files() if rel.startswith(wanted)}


def open_tree(path: str) -> SourceTree:
    """Open a release for reading.

    Args:
        path: A directory that contains `sglang/`, the `sglang` directory itself, or a wheel.

    Raises:
        ScanError: None of these, or no version can be told.
    """
    if os.path.isfile(path):
        return _open_wheel(path)
    for base in (path, os.path.dirname(os.path.abspath(path))):
        top = os.path.join(base, "sglang")
        right = base == path or os.path.basename(os.path.abspath(path)) == "sglang"
        if right and os.path.isdir(os.path.join(top, "srt")):
            return _open_directory(path, base)
    raise ScanError(
        "not an SGLang release", where=path, expected="a directory holding sglang/srt, or a wheel", actual=_kind(path)
    )


def _kind(path: str) -> str:
    if not os.path.exists(path):
        return "nothing there"
    return "a directory without sglang/srt" if os.path.isdir(path) else "another file"


def _open_directory(path: str, base: str) -> SourceTree:
    top = os.path.join(base, "sglang")
    root = os.path.join(top, "srt")
    files: dict[str, str | bytes] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in names:
            if name.endswith(".py"):
                full = os.path.join(folder, name)
                files[os.path.relpath(full, root).replace(os.sep, "/")] = full
    for rel in BESIDE:
        full = os.path.join(top, *rel.split("/"))
        if os.path.isfile(full):
            files[f"../{rel}"] = full
    metadata = [
        os.path.join(base, name, "METADATA")
        for name in sorted(os.listdir(base))
        if name.startswith("sglang-") and name.endswith(".dist-info")
    ]
    texts = {name: _read_text(os.path.join(top, name)) for name in ("_version.py", "version.py")}
    release = _release([_read_text(name) for name in metadata], texts, path)
    return SourceTree(path, release, files)


def _open_wheel(path: str) -> SourceTree:
    files: dict[str, str | bytes] = {}
    metadata: list[str] = []
    versions: dict[str, str] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                name = info.filename
                short = name.removeprefix(ROOT + "/")
                inside = short != name and name.endswith(".py")
                if name.removeprefix("sglang/") in BESIDE:
                    short, inside = f"../{name.removeprefix('sglang/')}", True
                about = name.endswith(".dist-info/METADATA") or name in ("sglang/version.py", "sglang/_version.py")
                if not inside and not about:
                    continue
                if info.file_size > limits.scan_file_max_bytes:
                    raise _too_large(f"{path}: {name}", info.file_size)
                data = archive.read(info)
                if inside:
                    files[short] = data
                elif name.endswith("METADATA"):
                    metadata.append(data.decode(errors="replace"))
                else:
                    versions[os.path.basename(name)] = data.decode(errors="replace")
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise ScanError("cannot be read as a wheel", where=path, actual=str(error)) from None
    if not files:
        raise ScanError("a wheel without sglang/srt", where=path, expected="an SGLang wheel")
    return SourceTree(path, _release(metadata, versions, path), files)


def _release(metadata: list[str], versions: dict[str, str], origin: str) -> str:
    for text in metadata:
        name = _METADATA_NAME.search(text)
        found = _METADATA_VERSION.search(text)
        if name and name[1].lower() == "sglang" and found:
            return found[1]
    for file in ("_version.py", "version.py"):
        found = _VERSION.search(versions.get(file, ""))
        if found:
            return found[1]
    raise ScanError(
        "the release's version cannot be told",
        where=origin,
        expected="sglang-*.dist-info/METADATA beside it, or a version text in sglang/version.py",
    )


def _too_large(where: str, size: int) -> ScanError:
    return ScanError(
        "file too large to scan", where=where, expected=f"at most {limits.scan_file_max_bytes} bytes", actual=str(size)
    )


def _read_capped(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(limits.scan_file_max_bytes + 1)
    except OSError as error:
        raise ScanError("cannot be read", where=path, actual=str(error)) from None
    if len(data) > limits.scan_file_max_bytes:
        raise _too_large(path, len(data))
    return data


def _read_text(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    return _read_capped(path).decode(errors="replace")
