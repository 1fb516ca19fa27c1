"""Members of a wheel, read in place: nothing is unpacked, and nothing that the archive says of itself is believed."""

from __future__ import annotations

import zipfile
import zlib

from drafter_contracts import limits
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others can only be unpacked at once, however large


def read_members(path: str, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Contents of the members of a wheel that are wanted, by name.

    Args:
        path: The wheel.
        wanted: Whether a member is needed, by its name.

    Raises:
        ScanError: No wheel, damaged, over a limit, or names that say two things: twice the same, or a way out.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found: dict[str, bytes] = {}
            budget = Budget(path)
            for info in archive.infolist():
                if not wanted(info.filename):
                    continue
                _check(f"{path}: {info.filename}", info, twice=info.filename in found)
                with archive.open(info) as member:
                    data = member.read(limits.scan_file_max_bytes + 1)
                budget.spend(info.filename, len(data))
                found[info.filename] = data
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ScanError("cannot be read as a wheel", where=path, actual=str(error)) from None


class Budget:
    """What a release may take: bytes of each file, bytes of all, and how many files.

    Args:
        origin: The release, for messages.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._files = 0
        self._bytes = 0

    def spend(self, name: str, size: int) -> None:
        """Count one file.

        Raises:
            ScanError: It, or all together, is above the limits.
        """
        self._files += 1
        self._bytes += size
        if size > limits.scan_file_max_bytes:
            raise ScanError(
                "file too large to scan",
                where=f"{self._origin}: {name}",
                expected=f"at most {limits.scan_file_max_bytes} bytes",
                actual=f"{size} or more",
            )
        if self._files > limits.scan_max_files or self._bytes > limits.scan_total_max_bytes:
            raise ScanError(
                "release too large to scan",
                where=self._origin,
                expected=f"at most {limits.scan_max_files} files and {limits.scan_total_max_bytes} bytes",
                actual=f"{self._files} files and {self._bytes} bytes, or more",
            )


def _check(where: str, info: zipfile.ZipInfo, *, twice: bool) -> None:
    if twice:
        raise ScanError("twice in this wheel", where=where, expected="one file of each name")
    if "\\" in info.orig_filename or any(part in ("", ".", "..") for part in info.filename.split("/")):
        raise ScanError("no name that a file of a wheel may have", where=where)
    if info.compress_type not in _COMPRESSIONS:
        raise ScanError("compressed in an unusual way", where=where, expected="stored or deflated")
