"""Run a probe on a release's source in a child process that can do nothing but compute.

The child gets the source as text on its standard input. It has no files, no network, no processes (`confine`),
an empty environment, and limits on time, memory and output. What it answers is data and is treated as such.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import subprocess
import sys
import time

import msgspec

from drafter_contracts import limits
from drafter_contracts.engines.scan import confine
from drafter_contracts.engines.scan.module import PACKAGE
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

#: Where SGLang's probes are.
PROBES = "drafter_contracts.engines.scan.probes"
_STDERR_MAX = 64 * 1024
_CHUNK = 1 << 16
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from drafter_contracts.engines.scan.child import main; main()"


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """What a child may say.

    Attributes:
        result: The probe's result.
        files: Files of the release of which a statement was executed.
        problems: In-place changes at module level that failed.
        error: Why there is no result.
        trace: Innermost places of that error.
        unconfined: Why the child could not lock itself.
    """

    result: dict[str, object] | None = None
    files: list[str] = []
    problems: list[str] = []
    error: str = ""
    trace: list[str] = []
    unconfined: str = ""


def run_probe(
    probe: str,
    sources: Mapping[str, str],
    payload: dict[str, object],
    *,
    allow_unconfined: bool = False,
    seconds: int = limits.scan_cpu_max_seconds,
    package: str = PACKAGE,
    probes: str = PROBES,
) -> dict[str, object]:
    """Run `<probes>.<probe>.probe(release, payload)` in a locked child.

    Args:
        probe: Module name below `probes`.
        sources: Path below the package's folder to text; all that the probe can see.
        payload: JSON values for the probe.
        allow_unconfined: Go on where the platform has no system-call filter: only for a release that is trusted.
        seconds: CPU time of the child; wall time is limited to twice that.
        package: The release's package, dotted.
        probes: The package of this project that holds the probe.

    Returns:
        The probe's dict, plus "files": the sorted paths of which something was executed.

    Raises:
        ScanError: The release tried something forbidden, used too much, died, or the answer is not one.
    """
    seal = secrets.token_hex(16)
    request = {
        "seal": seal,
        "probe": f"{probes}.{probe}",
        "package": package,
        "sources": dict(sources),
        "payload": payload,
        "memory": limits.scan_memory_max_bytes,
        "seconds": seconds,
        "allow_unconfined": allow_unconfined,
    }
    child = _start()
    try:
        output, complaint, status = _converse(child, msgspec.json.encode(request), 2.0 * seconds)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    _check_status(probe, status, complaint, seconds)
    return _read_answer(probe, output, seal)


def _start() -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise ScanError("no Python interpreter to scan with", expected="sys.executable to name one")
    here = os.path.abspath(__file__)
    contracts = here.removesuffix(os.path.join("", "drafter_contracts", "engines", "scan", "sandbox.py"))
    # -s -S -P with an environment of our own is -I, except that the hash seed can be fixed: sets keep their order.
    command = [sys.executable, "-s", "-S", "-P", "-B", "-X", "utf8", "-c", _BOOT, contracts]
    return subprocess.Popen(  # noqa: S603 - our own interpreter and code
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
        cwd=os.sep,
        close_fds=True,
        start_new_session=True,
    )


def _converse(child: subprocess.Popen[bytes], request: bytes, wall: float) -> tuple[bytes, str, int]:
    """Send the request and collect what comes back, within the limits.

    Raises:
        ScanError: Too much output, or too long.
    """
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None  # noqa: S101, PT018
    try:
        child.stdin.write(request)
        child.stdin.close()
    except BrokenPipeError:
        pass
    deadline = time.monotonic() + wall
    parts: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
    caps = {child.stdout.fileno(): limits.scan_answer_max_bytes, child.stderr.fileno(): _STDERR_MAX}
    with selectors.DefaultSelector() as selector:
        for stream in (child.stdout, child.stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ScanError("the scan took too long", expected=f"at most {wall:.0f} s")
            for key, _ in selector.select(left):
                _collect(selector, key.fileobj, parts, caps)  # type: ignore[arg-type]
    try:
        status = child.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ScanError("the scan took too long", expected=f"at most {wall:.0f} s") from None
    complaint = b"".join(parts[child.stderr.fileno()]).decode(errors="replace")
    return b"".join(parts[child.stdout.fileno()]), complaint, status


def _collect(
    selector: selectors.BaseSelector, stream: IO[bytes], parts: dict[int, list[bytes]], caps: dict[int, int]
) -> None:
    number = stream.fileno()
    data = os.read(number, _CHUNK)
    if not data:
        selector.unregister(stream)
        return
    parts[number].append(data)
    caps[number] -= len(data)
    if caps[number] < 0:
        raise ScanError("the release wrote more than an answer can be", actual="output above the limit")


def _check_status(probe: str, status: int, complaint: str, seconds: int) -> None:
    if status == 0:
        return
    if status == confine.FORBIDDEN_STATUS:
        raise ScanError("the release tried something forbidden", where=f"probe {probe}", actual=complaint)
    if status < 0:
        name = signal.Signals(-status).name
        reason = {
            "SIGSYS": "the release made a forbidden system call",
            "SIGXCPU": f"the release ran for more than {seconds} s",
            "SIGKILL": "the scan was killed: too much time or memory",
        }.get(name, "the scan died")
        raise ScanError(reason, where=f"probe {probe}", actual=name)
    raise ScanError("the scan failed", where=f"probe {probe}", actual=complaint[-2000:] or f"exit status {status}")


def _read_answer(probe: str, output: bytes, seal: str) -> dict[str, object]:
    start, _, document = output.partition(b"\n")
    if start != seal.encode():
        raise ScanError("the scan did not answer", where=f"probe {probe}", actual=repr(output[:80]))
    try:
        answer = msgspec.json.decode(document, type=Answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ScanError("the scan's answer cannot be read", where=f"probe {probe}", actual=str(error)) from None
    if answer.unconfined:
        raise ScanError(
            "this platform cannot lock a scan in, and release code will not run without",
            where=f"probe {probe}",
            expected="Linux with seccomp (or allow_unconfined=True for a release you trust)",
            actual=answer.unconfined,
        )
    if answer.error or answer.result is None:
        where = f"probe {probe}" + (f" at {answer.trace[-1]}" if answer.trace else "")
        raise ScanError("the scan failed", where=where, actual=answer.error or "no result")
    return {**answer.result, "files": answer.files}
