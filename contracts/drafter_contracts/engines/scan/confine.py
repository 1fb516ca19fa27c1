"""Locks that a scanning child puts on itself before it executes anything of a release.

Linux: a seccomp filter that lets through only what computing needs (memory, the already open pipes, time,
signals) and kills the process at anything else; resource limits; and an audit hook that names what was tried.
Where the filter cannot be installed, the caller refuses to scan.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Exit status of a child whose audit hook caught a forbidden operation; the name is on its stderr.
FORBIDDEN_STATUS = 86

_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1
_MODE_FILTER = 2
_KILL_PROCESS = 0x80000000
_ALLOW = 0x7FFF0000

# Linux system calls that computing needs, by machine: number of each (include/uapi/asm/unistd). Read and write reach
# only the pipes that are open; there is no call here that opens, connects, starts or signals anything.
_CALLS = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
            "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "mremap": 25, "madvise": 28,
            "sched_yield": 24, "exit": 60, "gettimeofday": 96, "sigaltstack": 131, "futex": 202, "clock_gettime": 228,
            "exit_group": 231, "getrandom": 318, "restart_syscall": 219, "getpid": 39,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93, "exit_group": 94,
            "futex": 98, "clock_gettime": 113, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132,
            "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "gettimeofday": 169, "getpid": 172,
            "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278,
        },
    ),
}  # fmt: skip

# Audit events (docs.python.org/3/library/audit_events.html) that end the child.
_FORBIDDEN = (
    "open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "glob.", "pathlib.", "ctypes.", "mmap.",
    "signal.", "fcntl.", "pty.", "resource.", "ftplib.", "http.", "urllib.", "smtplib.", "sqlite3.", "webbrowser.",
    "winreg.", "syslog.", "code.__new__", "sys.settrace", "sys.setprofile", "sys.addaudithook", "gc.",
    "cpython.run_", "builtins.breakpoint", "builtins.input", "marshal.", "pickle.find_class", "_thread.start_new",
)  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _statement(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def _program(machine: str) -> bytes:
    """The filter as classic BPF: check the architecture, then one comparison per allowed call."""
    architecture, calls = _CALLS[machine]
    numbers = sorted(calls.values())
    load, equal, give = 0x20, 0x15, 0x06
    lines = [_statement(load, 4), _statement(equal, architecture, 1, 0), _statement(give, _KILL_PROCESS)]
    lines.append(_statement(load, 0))
    for position, number in enumerate(numbers):
        lines.append(_statement(equal, number, len(numbers) - position, 0))
    lines.append(_statement(give, _KILL_PROCESS))
    lines.append(_statement(give, _ALLOW))
    return b"".join(lines)


def _install_filter() -> str:
    """Install the seccomp filter; the reason why not, or ""."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _CALLS:
        return f"no system-call filter is known for {sys.platform} on {machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program(machine)
    held = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # nobody waits for the answer any more
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return f"prctl(PR_SET_NO_NEW_PRIVS): {os.strerror(ctypes.get_errno())}"
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(header), 0, 0):
        return f"prctl(PR_SET_SECCOMP): {os.strerror(ctypes.get_errno())}"
    return ""


def _limit(memory: int, seconds: int) -> None:
    wanted = [
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ]
    wanted += [(getattr(resource, name), value) for name, value in (("RLIMIT_AS", memory), ("RLIMIT_NPROC", 0))]
    for which, value in wanted:
        hard = resource.getrlimit(which)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (bound, bound))
        except (ValueError, OSError):  # macOS refuses some of them; the filter is what the caller insists on
            continue


def _install_hook() -> None:
    write, leave, forbidden = os.write, os._exit, _FORBIDDEN

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(forbidden) and event != "os.putenv":
            try:
                first = str(arguments[0])[:200] if arguments else ""
            except Exception:  # noqa: BLE001 - the argument is the release's own object
                first = "?"
            write(2, f"{event} {first}".encode(errors="replace"))
            leave(FORBIDDEN_STATUS)

    sys.addaudithook(hook)


def lock(*, memory: int, seconds: int) -> str:
    """Lock this process for good.

    Args:
        memory: Address space, bytes.
        seconds: CPU time.

    Returns:
        "" or why the system-call filter could not be installed (limits and audit hook hold even then).
    """
    _limit(memory, seconds)
    missing = _install_filter()
    _install_hook()
    return missing
