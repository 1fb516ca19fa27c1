"""The source of an engine release, read as text: from a directory or straight out of a wheel.

Nothing is imported, unpacked or installed. Paths are given below `sglang/srt`; the few files beside it that start
the engine (`sglang/cli/*.py`, `sglang/launch_server.py`) are "../cli/serve.py" and so on.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat

from drafter_contracts import limits
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.engines.scan.wheel import Budget, read_members
from drafter_contracts.errors import CheckpointError, ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Folder of the engine that is scanned; keys of a profile's `sources` are paths below it.
ROOT = "sglang/srt"
#: Files beside it that are read too.
BESIDE = ("cli/__init__.py", "cli/main.py", "cli/serve.py", "cli/serve_backends.py", "cli/utils.py", "launch_server.py")


class Shape:
    """Where an engine's files lie in its distribution.

    Args:
        package: Name of the distribution and of its package.
        inner: Folder below the package that is scanned, "" for the whole package.
        beside: Files of the package outside that folder that are read too, by their path below the package.
        left_out: Folders below the scanned one that are not read.
    """

    def __init__(
        self, package: str, inner: str = "", beside: tuple[str, ...] = (), left_out: tuple[str, ...] = ()
    ) -> None:
        self.package = package
        self.inner = inner
        self.root = f"{package}/{inner}".rstrip("/")
        self.beside = beside
        self.left_out = left_out
        self.version_files = (f"{package}/version.py", f"{package}/_version.py")

    def place(self, member: str) -> str:
        """Path below the scanned folder of a distribution's file; "" if it is none of those that are read."""
        inside = member.removeprefix(self.root + "/")
        if inside != member and member.endswith(".py") and not inside.startswith(self.left_out):
            return inside
        rel = member.removeprefix(f"{self.package}/")
        return f"../{rel}" if rel != member and rel in self.beside else ""


SGLANG = Shape("sglang", "srt", BESIDE)

_VERSION = re.compile(
    r"""^\s*(?:__version__|version)\s*(?::[^=]+)?=\s*(?:version\s*=\s*)?["']([^"']+)["']""", re.MULTILINE
)
_METADATA_VERSION = re.compile(r"^Version:\s*(\S+)\s*$", re.MULTILINE)
# packaging.python.org/en/latest/specifications/version-specifiers, loosely: no space, no control character, no path.
_A_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,99}")
_ABOUT = ("METADATA", "version.py")
_METADATA_NAME = re.compile(r"^Name:\s*(\S+)\s*$", re.MULTILINE | re.IGNORECASE)


class SourceTree:
    """Python files of one release below one folder.

    Args:
        origin: The path it was opened from, for messages.
        release: Version as published.
        files: Path below the scanned folder to the file's bytes or, for a directory, its place on disk.
        root: The scanned folder, for messages.
    """

    def __init__(self, origin: str, release: str, files: dict[str, str | bytes], root: str = ROOT) -> None:
        self.origin = origin
        self.release = release
        self._root = root
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
            raise ScanError("no such file in this release", where=f"{self.origin}: {self._root}/{rel}")
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
                raise ScanError("not UTF-8", where=f"{self.origin}: {self._root}/{rel}") from None
        return self._text[rel]

    def sha256(self, rel: str) -> str:
        """Hex digest of one file's bytes."""
        return hashlib.sha256(self.read_bytes(rel)).hexdigest()

    def sources(self, prefixes: Iterable[str] = ("",)) -> dict[str, str]:
        """Text of all files whose path starts with one of `prefixes`, for `sandbox.run_probe`."""
        wanted = tuple(prefixes)
        return {rel: self.read(rel) for rel in self.files() if rel.startswith(wanted)}


def open_tree(path: str, *, release: str = "", shape: Shape = SGLANG) -> SourceTree:
    """Open a release for reading.

    Args:
        path: A directory that contains the package, the package's directory itself, or a wheel.
        release: Its version where the caller knows it; "" to read it from metadata or the version file.
        shape: Which engine's.

    Raises:
        ScanError: None of these, or no version can be told.
    """
    if os.path.isfile(path):
        return _open_wheel(path, release, shape)
    for base in (path, os.path.dirname(os.path.abspath(path))):
        top = os.path.join(base, shape.package)
        right = base == path or os.path.basename(os.path.abspath(path)) == shape.package
        if right and os.path.isdir(os.path.join(top, shape.inner)):
            return _open_directory(path, base, release, shape)
    named = "an SGLang" if shape is SGLANG else f"a {shape.package}"
    raise ScanError(
        f"not {named} release", where=path, expected=f"a directory holding {shape.root}, or a wheel",
        actual=_kind(path, shape),
    )  # fmt: skip


def _kind(path: str, shape: Shape) -> str:
    if not os.path.exists(path):
        return "nothing there"
    return f"a directory without {shape.root}" if os.path.isdir(path) else "another file"


def _open_directory(path: str, base: str, release: str, shape: Shape) -> SourceTree:
    top = os.path.join(base, shape.package)
    root = os.path.join(top, shape.inner) if shape.inner else top
    files: dict[str, str | bytes] = {}
    budget = Budget(path)
    for full in _python_files(root):
        rel = os.path.relpath(full, root).replace(os.sep, "/")
        if rel.startswith(shape.left_out):
            continue
        budget.spend(f"{shape.root}/{rel}", _size_inside(full, top))
        files[rel] = full
    for rel in shape.beside:
        full = os.path.join(top, *rel.split("/"))
        if os.path.lexists(full):
            budget.spend(f"{shape.package}/{rel}", _size_inside(full, top))
            files[f"../{rel}"] = full
    try:
        beside = sorted(os.listdir(base))
    except OSError as error:
        raise ScanError("cannot be read", where=base, actual=error.strerror or str(error)) from None
    about = [name for name in beside if name.startswith(f"{shape.package}-") and name.endswith(".dist-info")]
    metadata = [_read_text(os.path.join(base, name, "METADATA"), base) for name in about]
    texts = {name: _read_text(os.path.join(top, name), top) for name in ("_version.py", "version.py")}
    return SourceTree(path, release or _release(metadata, texts, path, shape), files, shape.root)


def _python_files(root: str) -> Iterator[str]:
    """Python files below a folder.

    Raises:
        ScanError: A part that cannot be seen (a profile of the rest would be wrong), or a name that is no text.
    """

    def fail(error: OSError) -> None:
        raise ScanError("cannot be read", where=str(error.filename), actual=error.strerror or str(error))

    for folder, folders, names in os.walk(root, onerror=fail):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for full in (os.path.join(folder, name) for name in folders):
            if os.path.islink(full):
                raise ScanError("a link in place of a folder", where=full, expected="the folder itself")
        for full in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            if not _is_text(os.path.relpath(full, root)):
                raise ScanError("a file name that is not UTF-8", where=ascii(full))
            yield full


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_wheel(path: str, release: str, shape: Shape) -> SourceTree:
    members = read_members(
        path, lambda name: bool(shape.place(name)) or name in shape.version_files or _is_metadata(name)
    )
    files: dict[str, str | bytes] = {shape.place(name): data for name, data in members.items() if shape.place(name)}
    if not files:
        engine = "SGLang" if shape is SGLANG else shape.package
        raise ScanError(f"a wheel without {shape.root}", where=path, expected=f"an {engine} wheel")
    texts = {name: data.decode(errors="replace") for name, data in members.items() if name.endswith(_ABOUT)}
    metadata = [text for name, text in texts.items() if _is_metadata(name)]
    versions = {os.path.basename(name): text for name, text in texts.items() if name in shape.version_files}
    return SourceTree(path, release or _release(metadata, versions, path, shape), files, shape.root)


def _is_metadata(member: str) -> bool:
    folder, _, name = member.partition("/")
    return name == "METADATA" and folder.endswith(".dist-info")


def _release(metadata: list[str], versions: dict[str, str], origin: str, shape: Shape) -> str:
    for text in metadata:
        name = _METADATA_NAME.search(text)
        found = _METADATA_VERSION.search(text)
        if name and name[1].lower() == shape.package and found and _A_VERSION.fullmatch(found[1]):
            return found[1]
    for file in ("_version.py", "version.py"):
        found = _VERSION.search(versions.get(file, ""))
        if found and _A_VERSION.fullmatch(found[1]):
            return found[1]
    raise ScanError(
        "the release's version cannot be told",
        where=origin,
        expected=f"{shape.package}-*.dist-info/METADATA beside it, or a version text in {shape.package}/version.py",
    )


def _size_inside(path: str, top: str) -> int:
    """Size of a file of the release, bytes.

    Raises:
        ScanError: It is missing, no regular file, or a link out of the release: what is read of it would reach code
            of the release, and that may write it into the profile.
    """
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(top), "")):
        raise ScanError(
            "a link that leads out of the release", where=path, expected="files of the release's own, or its wheel"
        )
    try:
        status = os.stat(path)
    except OSError as error:
        raise ScanError("cannot be read", where=path, actual=error.strerror or str(error)) from None
    if not stat.S_ISREG(status.st_mode):
        raise ScanError("not a regular file", where=path)
    return status.st_size


def _read_capped(path: str) -> bytes:
    try:
        return read_capped(path, limits.scan_file_max_bytes)
    except CheckpointError as error:
        raise ScanError(error.message, where=path, expected=error.expected, actual=error.actual) from None


def _read_text(path: str, top: str) -> str:
    if not os.path.lexists(path):
        return ""
    _size_inside(path, top)
    return _read_capped(path).decode(errors="replace")
