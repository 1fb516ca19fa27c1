"""What reading a sample costs beside `cat`: every row of a file of about 1 GB is looked at, from a warm cache.

    python benchmarks/samples.py [--gigabytes 1] [--rounds 5] [--gzip] [--folder DIR] [--json]

The unit is the processor time of `cat FILE > /dev/null` (user and system), so that what else the machine does counts
for little. "bytes" reads every byte as an integer, "sum" adds all rows up, "checked" is `check_states`: rows that are
zero, not finite, constant or repeated, columns that are constant. With `--gzip` a compressed file beside `zcat`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from drafter_contracts.values.samples import check_states, read_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH, TAPS = 4096, 3
#: Rows of a block: 2048 x 12288 bf16 are 48 MiB.
BLOCK = 2048


def median(action: Callable[[], object], rounds: int) -> float:
    """Median processor seconds of a call and its children; the first, which warms the cache, is not counted."""
    taken = []
    for _ in range(rounds + 1):
        start = processor_seconds()
        action()
        taken.append(processor_seconds() - start)
    return statistics.median(taken[1:])


def processor_seconds() -> float:
    """What this process and those it waited for have used, user and system."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def write_files(folder: str, gigabytes: float, *, compressed: bool) -> dict[str, str]:
    """The same states as SpecForge's EAGLE-3 file and as a stacked safetensors file, bf16."""
    rows = int(gigabytes * 1e9 / ((TAPS + 1) * WIDTH * 2))
    tokens = torch.arange(rows)
    states = torch.randn(rows, TAPS + 1, WIDTH).bfloat16()
    stacked = os.path.join(folder, "stacked.safetensors")
    save_file({"hidden_states": states, "token_ids": tokens}, stacked)
    aux, last = states[:, :-1].reshape(1, rows, -1).clone(), states[:, -1].reshape(1, rows, -1).clone()
    saved = os.path.join(folder, "specforge.ckpt")
    torch.save({"input_ids": tokens, "loss_mask": tokens, "hidden_state": last, "aux_hidden_state": aux}, saved)
    files = {"SpecForge .ckpt": saved, "stacked safetensors": stacked}
    if compressed:
        files["SpecForge .ckpt.gz"] = f"{saved}.gz"
        with open(files["SpecForge .ckpt.gz"], "wb") as file:
            subprocess.run(["gzip", "-1", "-c", saved], check=True, stdout=file)
    return files


def blocks_of(path: str) -> Iterator[torch.Tensor]:
    """Every block of rows of every state, one after another."""
    for sample in read_samples(path):
        blocks = sample.blocks if sample.last is None else (*sample.blocks, sample.last)
        for start in range(0, len(sample.tokens), BLOCK):
            for block in blocks:
                yield block[start : start + BLOCK]


def bytes_of(path: str) -> int:
    """Every byte, eight at a time."""
    return sum(int(block.view(torch.int64).sum()) & 1 for block in blocks_of(path))


def summed(path: str) -> float:
    """All rows added up, in float32."""
    return sum(float(block.sum(dtype=torch.float32)) for block in blocks_of(path))


def checked(path: str) -> None:
    """Every state of a file checked."""
    for sample in read_samples(path):
        states = sample.split(WIDTH)
        check_states(states if sample.last is None else (*states, sample.last), path, tokens=sample.tokens)


def cat(path: str) -> None:
    """The unit."""
    program = "zcat" if path.endswith(".gz") else "cat"
    subprocess.run([program, path], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--folder", help="where the files are made and removed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, path in write_files(folder, options.gigabytes, compressed=options.gzip).items():
            unit = median(lambda path=path: cat(path), options.rounds)
            times = {
                "bytes": median(lambda path=path: bytes_of(path), options.rounds),
                "sum": median(lambda path=path: summed(path), options.rounds),
                "checked": median(lambda path=path: checked(path), options.rounds),
            }
            ratios = {what: round(seconds / unit, 1) for what, seconds in times.items()}
            ratios["cat, s"] = round(unit, 3)
            found.append({"format": name, "gigabytes": round(os.path.getsize(path) / 1e9, 2), "ratio": ratios})
    if options.json:
        print(json.dumps(found))
        return
    for row in found:
        print(f"{row['format']:<22} {row['gigabytes']:.2f} GB  times `cat`: {row['ratio']}")


if __name__ == "__main__":
    main()
