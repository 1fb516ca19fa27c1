"""What the store of shipped profiles costs: bytes, and time to load one release or to ask all others.

    python benchmarks/profiles.py [--rounds 100] [--json]

Times are CPU milliseconds of this process (a busy machine disturbs them least) and ratios to decoding the release's
plain document, which no store can beat. The first load is measured in fresh interpreters that have imported what the
gate imports.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import zlib

from drafter_contracts.engines import store
from drafter_contracts.engines.elsewhere import Asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ENGINE = "sglang"
TARGET_LOAD_MS = 5.0
TARGET_BYTES = 1_500_000
ASKED = Asked("LlamaForCausalLM", "EAGLE3", ("LlamaForCausalLMEagle3",))
FIRST = """
import sys, time
from drafter_cli import gate
from drafter_contracts.engines.store import load_profile
start = time.process_time()
load_profile("sglang", sys.argv[1])
print((time.process_time() - start) * 1e3)
"""


def sizes() -> dict[str, int]:
    """Bytes of all documents, of the store, and of the store's files deflated one by one, as in a wheel."""
    folder = os.path.join(store.DATA, ENGINE)
    packed = deflated = 0
    for path in (store.LINES, *(f"{store.RECIPES}/{name}" for name in os.listdir(os.path.join(folder, store.RECIPES)))):
        with open(os.path.join(folder, path), "rb") as file:
            data = file.read()
        packed += len(data)
        deflated += len(zlib.compress(data))
    documents = sum(len(store.document(ENGINE, release)) for release in store.releases(ENGINE))
    return {"documents": documents, "store": packed, "in the wheel": deflated}


def median(function: Callable[[], object], rounds: int) -> float:
    """Median CPU milliseconds of a call."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        taken.append((time.process_time() - start) * 1e3)
    return statistics.median(taken)


def first_load(release: str, rounds: int) -> float:
    """Median CPU milliseconds of the first load in a fresh interpreter."""
    command = [sys.executable, "-c", FIRST, release]
    done = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(rounds)]
    return statistics.median(float(one.stdout) for one in done)


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Case to its numbers, for the largest profile."""
    releases = store.releases(ENGINE)
    release = max(releases, key=lambda name: len(store.document(ENGINE, name)))
    document = store.document(ENGINE, release)
    plain = median(lambda: store.decode(document, release), rounds)
    others = len(releases) - 1
    times = {
        f"decode the plain document of {release}": plain,
        f"load {release}": median(lambda: store.load_profile(ENGINE, release), rounds),
        f"load {release} first, in a fresh process": first_load(release, max(rounds // 10, 3)),
        f"load all {others} others": median(
            lambda: [store.load_profile(ENGINE, other) for other in releases if other != release], max(rounds // 20, 3)
        ),
        f"ask all {others} others for a remedy": median(
            lambda: store.elsewhere(ENGINE, release, ASKED), max(rounds // 10, 3)
        ),
    }
    return {name: {"ms": value, "ratio": value / plain} for name, value in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size, times = sizes(), measure(options.rounds)
    if options.json:
        print(json.dumps({"bytes": size, "times": times}, indent=2))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {len(store.releases(ENGINE))} releases\n")
    for name, value in size.items():
        print(f"{name:<46}{value:>10} bytes{value / size['documents']:>8.2f}x")
    print()
    for name, value in times.items():
        print(f"{name:<46}{value['ms']:>10.2f} ms{value['ratio']:>11.2f}x")
    slowest = max(value["ms"] for name, value in times.items() if name.startswith("load 0"))
    print(f"\nslowest load of one release: {slowest:.2f} ms (target {TARGET_LOAD_MS:.0f} ms)")
    print(f"in the wheel: {size['in the wheel'] / 1e6:.2f} MB (target {TARGET_BYTES / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
