"""The files of an engine as it lies somewhere, told by their contents: a directory, or a wheel.

What an installer wrote about them (RECORD, metadata) is not asked.
"""

from __future__ import annotations

import os
import stat

from drafter_contracts import limits
from drafter_contracts.engines.local.memo import Hashed, Listed, recall, remember, settled, stamp
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from drafter_contracts.engines.local.memo import Memo, Stamp
    from drafter_contracts.engines.scan.tree import SourceTree

#: Hex digits of a sha256 that are kept, as in a profile's `sources`.
DIGITS = 16
#: Folder of the model files; each may register target and drafter classes.
MODELS = "models"
_MARK = b"EntryClass"
#: Ends of names of modules that an interpreter prefers to `NAME.py`.
_COMPILED = (".so", ".pyd")
#: Folders beside `srt` whose own files can matter (the launch command's), as paths below `srt`.
_BESIDE = ("..", "../cli")


def registers(data: bytes) -> bool:
    """Whether a model file binds the name by which its classes are found."""
    if _MARK not in data:
        return False
    lines = (line.strip() for line in data.splitlines() if _MARK in line)
    return any(line.startswith((_MARK, b"from ", b"import ")) for line in lines)


def digest_of_bytes(data: bytes) -> str:
    """A digest of what is kept: 64 hex digits."""
    try:  # what hashlib would give, without loading OpenSSL: a tenth of the gate's start
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=32).hexdigest()


def digest_of(files: dict[str, str]) -> str:
    """One digest over names and contents of files."""
    lines = "".join([f"{name}\0{files[name]}\n" for name in sorted(files)])
    return digest_of_bytes(lines.encode("utf-8", "surrogateescape"))


class DirectoryContents:
    """Python files below a directory, hashed as far as they are not remembered.

    Args:
        root: The directory; paths are given below it.
        cache: Where profiles are kept, or "".
    """

    def __init__(self, root: str, cache: str) -> None:
        self.root = root
        self._cache = cache
        self._memo: Memo = recall(cache, root)
        self._young: set[str] = set()  # read so soon after a change that the next might bear the same stamp
        self._seen: dict[str, Hashed | None] = {}  # one look at each file is enough
        self._grown = False

    def digests(self, wanted: Iterable[str]) -> dict[str, str]:
        """Path to digest, of those files of `wanted` that exist.

        Raises:
            ScanError: One exists and cannot be read.
        """
        found = {}
        files, seen, prefix, stat_of = self._memo.files, self._seen, f"{self.root}/", os.stat
        for name in wanted:
            hashed = files.get(name)
            if hashed is not None and name not in seen:  # the common case, for thousands of files: no call of our own
                try:
                    now = stat_of(prefix + name)
                except (OSError, ValueError):
                    now = None
                if now and hashed.stamp == (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino):
                    seen[name] = hashed
                    found[name] = hashed.digest
                    continue
            hashed = self._hashed(name)
            if hashed is not None:
                found[name] = hashed.digest
        return found

    def model_files(self) -> dict[str, bool]:
        """Path of every model file to whether it registers classes.

        Raises:
            ScanError: A file or folder cannot be read.
        """
        found = {}
        for name in self._below(MODELS):
            hashed = self._hashed(name)
            found[name] = hashed is not None and hashed.registers
        return found

    def shadows(self, wanted: Iterable[str]) -> list[str]:
        """What is imported in place of a file of `wanted`: a package or a compiled module of the same name.

        Raises:
            ScanError: A folder cannot be read.
        """
        named: dict[str, set[str]] = {}
        for path in wanted:
            folder, _, file = path.rpartition("/")
            named.setdefault(folder, set()).add(file.removesuffix(".py"))
        found = []
        for folder, names in named.items():
            listed = self._listed(folder)
            packages = names.intersection(listed.folders)
            inside = {package: self._listed(f"{folder}/{package}" if folder else package) for package in packages}
            prefix = f"{folder}/" if folder else ""
            found += [f"{prefix}{package}/" for package, below in inside.items() if "__init__.py" in below.files]
            found += [prefix + one for one in listed.compiled if one.partition(".")[0] in names]
        return sorted(found)

    def everything(self, *, beside: bool = True) -> dict[str, str]:
        """Path to digest of all Python files.

        Args:
            beside: With those beside the directory that belong to an engine's launch command.

        Raises:
            ScanError: A file or folder cannot be read.
        """
        names = list(self._below(""))
        for folder in _BESIDE if beside else ():
            if os.path.isdir(os.path.join(self.root, folder)):
                names += [f"{folder}/{name}" for name in self._listed(folder).files]
        return self.digests(names)

    def remember(self) -> str:
        """Keep what was read for the next process; returns why that failed, or ""."""
        if not self._grown or not self._cache:
            return ""
        self._grown = False
        memo = self._memo
        for name in self._young:
            memo.files.pop(name, None)
            memo.folders.pop(name, None)
        return remember(self._cache, memo)

    def _below(self, folder: str) -> list[str]:
        listed = self._listed(folder)
        prefix = f"{folder}/" if folder else ""
        found = [prefix + name for name in listed.files]
        for name in listed.folders:
            found += self._below(prefix + name)
        return found

    def _listed(self, folder: str) -> Listed:
        full = os.path.join(self.root, folder) if folder else self.root
        try:
            seen = stamp(os.stat(full))
            known = self._memo.folders.get(folder)
            if known is not None and known.stamp == seen:
                return known
            files, folders, compiled = _entries(full)
        except FileNotFoundError:
            return Listed((0, 0, 0, 0), [], [], [])
        except OSError as error:
            raise ScanError("cannot be read", where=full, actual=error.strerror or str(error)) from None
        self._grown = True
        listed = self._memo.folders[folder] = Listed(seen, files, folders, compiled)
        self._age(folder, seen)
        return listed

    def _hashed(self, name: str) -> Hashed | None:
        """A file, read if its stamp is not known; None if there is no such file."""
        if name not in self._seen:
            self._seen[name] = self._look(name)
        return self._seen[name]

    def _look(self, name: str) -> Hashed | None:
        full = f"{self.root}/{name}"
        try:
            seen = stamp(os.stat(full))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise ScanError("cannot be read", where=full, actual=str(error)) from None
        known = self._memo.files.get(name)
        if known is not None and known.stamp == seen:
            return known
        self._grown = True
        hashed = self._memo.files[name] = _hash(full)
        self._age(name, hashed.stamp)
        return hashed

    def _age(self, name: str, seen: Stamp) -> None:
        self._young.discard(name)
        if not settled(seen):
            self._young.add(name)


def _entries(folder: str) -> tuple[list[str], list[str], list[str]]:
    """Python files, subfolders and compiled modules of a folder, sorted.

    Raises:
        OSError: It cannot be listed.
        ScanError: A link in place of a subfolder: what it leads to may belong to somebody else.
    """
    files, folders, compiled = [], [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                files.append(entry.name)
            elif entry.name.endswith(_COMPILED):
                compiled.append(entry.name)
            elif entry.name != "__pycache__" and entry.is_dir():
                if entry.is_symlink():
                    raise ScanError("a link in place of a folder", where=entry.path, expected="the folder itself")
                folders.append(entry.name)
    return sorted(files), sorted(folders), sorted(compiled)


def _hash(path: str) -> Hashed:
    """Read and hash a file.

    Raises:
        ScanError: It cannot be read, is no regular file, or is above the size limit.
    """
    import hashlib

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ScanError("not a regular file", where=path)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limits.scan_file_max_bytes + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ScanError("cannot be read", where=path, actual=error.strerror or str(error)) from None
    if len(data) > limits.scan_file_max_bytes:
        raise ScanError("too large", where=path, expected=f"at most {limits.scan_file_max_bytes} bytes")
    return Hashed(stamp(status), hashlib.sha256(data).hexdigest()[:DIGITS], registers(data))


class WheelContents:
    """Python files of a wheel, read out of it.

    Args:
        tree: The wheel, opened.
    """

    def __init__(self, tree: SourceTree) -> None:
        self.root = tree.origin
        self._tree = tree

    def digests(self, wanted: Iterable[str]) -> dict[str, str]:
        """Path to digest, of those files of `wanted` that it has."""
        return {name: self._tree.sha256(name)[:DIGITS] for name in wanted if name in self._tree}

    def model_files(self) -> dict[str, bool]:
        """Path of every model file to whether it registers classes."""
        names = (name for name in self._tree.files() if name.startswith(f"{MODELS}/"))
        return {name: registers(self._tree.read_bytes(name)) for name in names}

    def shadows(self, wanted: Iterable[str]) -> list[str]:
        """As of a directory; a wheel's compiled modules are not looked at, since nothing starts a wheel."""
        files = self._tree.files()
        packages = {name.removesuffix("/__init__.py") for name in files if name.endswith("/__init__.py")}
        return sorted(f"{path.removesuffix('.py')}/" for path in wanted if path.removesuffix(".py") in packages)

    def everything(self) -> dict[str, str]:
        """Path to digest of all its Python files."""
        return self.digests(self._tree.files())

    def remember(self) -> str:
        """Nothing: a wheel is read anew each time."""
        return ""
