"""The environment of the processes behind a port of this machine: what no engine tells of itself."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTENING = "0A"
#: In the command line of an engine's own processes.
_ENGINES = (b"sglang", b"vllm")
#: Most bytes of one table or environment; the kernel's own limit of an environment is smaller.
_LARGEST = 32 * 1024 * 1024


def environments(port: int, *, root: str = "/proc") -> tuple[dict[str, str], ...] | None:
    """The environments that an engine listening on a port of this machine was started with.

    A variable may be set for the process that listens or for a scheduler that it starts; and where a worker listens,
    for the engine's main process, which starts the schedulers. A shell above them is not asked: what it did not hand
    on is not in force.

    Args:
        port: The port.
        root: The process file system.

    Returns:
        One per process that could be read; None where nothing could be: another user's, another container's, no Linux.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(port, root)}
    if not sockets:
        return None
    parents = {pid: _parent(pid, root) for pid in _processes(root)}
    family = {pid for pid in parents if _holds(pid, sockets, root)}
    for pid in tuple(family):
        while (pid := parents.get(pid, 0)) > 0 and _is_engine(pid, root):
            family.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    found = tuple(read for pid in sorted(family) if (read := _environment(pid, root)) is not None)
    return found or None


def _listening(port: int, root: str) -> Iterator[str]:
    """Inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        for line in _read(os.path.join(root, "net", table)).decode("ascii", "replace").splitlines()[1:]:
            words = line.split()
            if len(words) < 10 or words[3] != _LISTENING:
                continue
            if words[1].rpartition(":")[2] == f"{port:04X}":
                yield words[9]


def _processes(root: str) -> Iterator[int]:
    try:
        names = os.listdir(root)
    except OSError:
        return
    yield from (int(name) for name in names if name.isascii() and name.isdigit())


def _parent(pid: int, root: str) -> int:
    """The process that started this one; 0 if that is not told."""
    # The name in parentheses may hold anything; behind the last one stand state and parent.
    words = _read(os.path.join(root, str(pid), "stat")).rpartition(b")")[2].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _holds(pid: int, sockets: set[str], root: str) -> bool:
    folder = os.path.join(root, str(pid), "fd")
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or gone
        return False
    for name in names:
        try:
            if os.readlink(os.path.join(folder, name)) in sockets:
                return True
        except OSError:
            continue
    return False


def _is_engine(pid: int, root: str) -> bool:
    command = _read(os.path.join(root, str(pid), "cmdline"))
    return any(name in command for name in _ENGINES)


def _environment(pid: int, root: str) -> dict[str, str] | None:
    data = _read(os.path.join(root, str(pid), "environ"))
    pairs = (part.partition("=") for part in data.decode(errors="replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals} or None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
