"""Publishing a large drafter, beside `sha256sum` and `cp` of the same file to the same disk, one after the other.

    python benchmarks/publish.py [--gigabytes 1] [--rounds 3] [--folder DIR]

Every round runs each in turn: sha256sum, cp, sync of what cp wrote, `drafters publish` into a registry of this machine,
and `drafters publish` to a `drafters serve` process on the loopback interface, each time into an empty registry and
without a remembered digest. Written pages are brought to the disk between them, uncounted. The file holds random
bytes; it and all copies are gone afterwards. Peak memory is that of each process as the kernel counted it.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import processes

from drafter_cli.demo_files import (
    MLP_WIDTH,
    TRAINED_OUTPUT_IDS,
    VOCABULARY,
    WIDTH,
    drafter_config,
    drafter_tensors,
    write_target,
)
from drafter_contracts.checkpoint.skeleton import write_skeleton

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GB = 1_000_000_000
TARGET = 0.8
_PIECE = 1024 * 1024
#: The drafter's feed-forward layer is narrow, so that a small file has a head, too.
_NARROW = 1024
#: Room on the disk for the file, its copy and one registry.
_TIMES = 3
HASH, COPY, SYNC, FAST = "sha256sum", "cp", "sync of the copy", "openssl dgst -sha256"
EMBEDDED, HTTP = "drafters publish, embedded", "drafters publish, over HTTP"
CLIENT, SERVER = "client", "server"


class Bench:
    """One file, and what is done with it.

    Args:
        folder: Where everything is kept.
        size: Of the weight file, about, in bytes.
    """

    def __init__(self, folder: str, size: int) -> None:
        self.folder = folder
        self.target = write_target(os.path.join(folder, "target"))
        self.drafter = os.path.join(folder, "drafter")
        self.weights = _write_drafter(self.drafter, size)
        self.size = os.path.getsize(self.weights)
        self.peaks: dict[str, int] = {}

    def hash(self) -> float:
        """Seconds of sha256sum."""
        return self._run(HASH, ["sha256sum", self.weights])

    def fast_hash(self) -> float:
        """Seconds of openssl's, which uses what the processor has for it, as Python does."""
        return self._run(FAST, ["openssl", "dgst", "-sha256", self.weights])

    def copy(self) -> tuple[float, float]:
        """Seconds of cp, and of bringing the copy to the disk."""
        copy = os.path.join(self.folder, "copy")
        taken = self._run(COPY, ["cp", self.weights, copy]), self._run(SYNC, ["sync", copy], clean=False)
        os.unlink(copy)
        return taken

    def embedded(self) -> float:
        """Seconds of publishing into a registry of this machine."""
        with tempfile.TemporaryDirectory(dir=self.folder) as data:
            variables = processes.surroundings(data)
            return self._run(EMBEDDED, self._publish("--data", os.path.join(data, "registry")), variables)

    def over_http(self) -> float:
        """Seconds of publishing to a server."""
        with tempfile.TemporaryDirectory(dir=self.folder) as data, processes.registry(data) as server:
            variables = processes.surroundings(data) | {"DRAFTERS_TOKEN": server.token}
            taken = self._run(HTTP, self._publish("--url", server.url), variables)
            self._peak(f"{HTTP}: {SERVER}", server.peak())
            return taken

    def _publish(self, *where: str) -> list[str]:
        said = ["--name", "large-eagle3", "--version", "1.0.0", "--target", self.target]
        said += ["--output-ids", ",".join(map(str, TRAINED_OUTPUT_IDS)), "--producer", "specforge==0.2.0"]
        return processes.drafters("publish", self.drafter, *said, *where)

    def _run(
        self, name: str, command: Sequence[str], variables: dict[str, str] | None = None, *, clean: bool = True
    ) -> float:
        if clean:
            subprocess.run(["sync", "-f", self.folder], check=True)
        began = time.perf_counter()
        with subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            said = process.stdout.read() if process.stdout is not None else b""
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - began
        if process.returncode:
            sys.exit(f"{' '.join(command)}: {said.decode()[-2000:]}")
        self._peak(f"{name}: {CLIENT}", used.ru_maxrss * 1024)
        return taken

    def _peak(self, name: str, size: int) -> None:
        self.peaks[name] = max(self.peaks.get(name, 0), size)


def _write_drafter(directory: str, size: int) -> str:
    """A drafter whose head is as large as it takes; returns its weight file, full of random bytes."""
    tensors = {
        name: (dtype, tuple(_NARROW if one == MLP_WIDTH else one for one in shape))
        for name, (dtype, shape) in drafter_tensors().items()
    }
    rest = sum(2 * math.prod(shape) for name, (_, shape) in tensors.items() if name != "lm_head.weight")
    drafted = max((size - rest) // (2 * WIDTH), 1024)
    tensors["lm_head.weight"] = ("BF16", (drafted, WIDTH))
    tensors["d2t"] = ("I64", (drafted,))
    more = {"vocab_size": max(drafted + 1, VOCABULARY), "draft_vocab_size": drafted, "intermediate_size": _NARROW}
    write_skeleton(directory, drafter_config(TRAINED_OUTPUT_IDS) | more, tensors)
    weights = os.path.join(directory, "model.safetensors")
    with open(weights, "r+b") as file, open("/dev/urandom", "rb") as noise:
        header = int.from_bytes(file.read(8), "little")
        left = os.path.getsize(weights) - file.seek(8 + header)
        while left:
            left -= file.write(noise.read(min(_PIECE, left)))
    return weights


def measure(bench: Bench, rounds: int) -> dict[str, float]:
    """Median seconds of each."""
    taken: dict[str, list[float]] = {}

    def note(name: str, run: Callable[[], float]) -> None:
        taken.setdefault(name, []).append(run())

    for _ in range(rounds):
        note(HASH, bench.hash)
        if shutil.which("openssl"):
            note(FAST, bench.fast_hash)
        copied, synced = bench.copy()
        note(COPY, lambda seconds=copied: seconds)  # type: ignore[misc]
        note(SYNC, lambda seconds=synced: seconds)  # type: ignore[misc]
        note(EMBEDDED, bench.embedded)
        note(HTTP, bench.over_http)
    return {name: statistics.median(values) for name, values in taken.items()}


def report(bench: Bench, seconds: dict[str, float]) -> None:
    """Print everything, and the ratios."""
    for name, value in seconds.items():
        print(f"  {name:<34}{value:>8.2f} s{bench.size / value / GB:>8.2f} GB/s")
    serial = seconds[HASH] + seconds[COPY]
    beside = {"sha256sum + cp": serial, "sha256sum + cp + sync": serial + seconds[SYNC]}
    if FAST in seconds:
        beside["openssl + cp + sync"] = seconds[FAST] + seconds[COPY] + seconds[SYNC]
    for name in (EMBEDDED, HTTP):
        ratios = ", ".join(f"{value / seconds[name]:.2f} of {what}" for what, value in beside.items())
        print(f"{name}: {ratios} (target: {TARGET} of the first)")
    for name, peak in bench.peaks.items():
        if name.startswith("drafters"):
            print(f"  peak memory, {name:<44}{peak / 1e6:>8.0f} MB")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None, help="on the disk to measure; default: the temporary directory")
    options = parser.parse_args()
    size = int(options.gigabytes * GB)
    with tempfile.TemporaryDirectory(prefix="drafters-bench-", dir=options.folder) as folder:
        if shutil.disk_usage(folder).free < (_TIMES + 1) * size:
            sys.exit(f"{_TIMES + 1} times {options.gigabytes} GB of free disk are needed in {folder}")
        bench = Bench(folder, size)
        print(
            f"{bench.size / GB:.2f} GB, Python {platform.python_version()}, {os.cpu_count()} cores,"
            f" load {os.getloadavg()[0]:.1f}"
        )
        report(bench, measure(bench, options.rounds))
        print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
