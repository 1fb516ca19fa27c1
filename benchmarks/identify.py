"""What identification costs: beside the target's own forward pass, and on a capture of a target of 61 layers.

python benchmarks/identify.py [--rounds 7] [--layers 61] [--width 7168] [--tokens 512] [--json]

The second part writes a synthetic bfloat16 capture (half a gigabyte, in a temporary folder that is removed) and
identifies four states with it in a process of its own, file pages warm; memory is that process's. Anonymous memory is
what it allocates; the resident set also counts pages of the mapped file, which the system takes back when it needs
them. Seconds are of the wall clock, and of one core for what other programs do not disturb.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch

from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.capture_writer import CaptureWriter
from drafter_contracts.values.captures import read_capture
from drafter_contracts.values.matching import match_states
from drafter_contracts.values.targets import open_target

TARGET_RATIO = 1.3
#: The taps of the incident.
BOUNDARIES = (3, 31, 59)


def small_target(folder: str) -> None:
    """A Llama of 12 layers, width 512, random weights."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=12,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=8192,
        max_position_embeddings=2048,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def beside_forward(rounds: int) -> dict[str, object]:
    """Run and match, beside a plain forward pass, in alternation."""
    with tempfile.TemporaryDirectory() as folder:
        small_target(folder)
        target = open_target(folder)
        tokens = torch.randint(0, 8192, (512,))
        capture = target.run(tokens)
        states = [capture.states[tap] for tap in (Tap(2), Tap(6), Tap(9), Tap(12, FINAL_NORM))]
        states = [state.to(torch.bfloat16) for state in states]
        forward, identify, matching = [], [], []
        for _ in range(rounds):
            begin = time.process_time()
            with torch.no_grad():
                target.parts.head(target.parts.decoder(input_ids=tokens[None], use_cache=False)[0])
            middle = time.process_time()
            capture = target.run(tokens)
            ran = time.process_time()
            match_states(states, tokens, capture)
            end = time.process_time()
            forward.append(middle - begin)
            identify.append(end - middle)
            matching.append(end - ran)
    plain, whole = statistics.median(forward), statistics.median(identify)
    return {
        "forward_cpu_s": round(plain, 3),
        "identify_cpu_s": round(whole, 3),
        "matching_cpu_s": round(statistics.median(matching), 3),
        "ratio": round(statistics.median(i / f for i, f in zip(identify, forward, strict=True)), 2),
        "ratio_target": TARGET_RATIO,
    }


def write_large(folder: str, layers: int, width: int, rows: int) -> None:
    """A synthetic capture, and a sample of four of its states, each with other roundings."""
    generator = torch.Generator().manual_seed(0)
    record = ReferenceRecord(kind="capture", layers=layers, hidden_size=width, dtype="bfloat16")
    tokens = torch.randint(0, 1000, (rows,), generator=generator)
    taps = (*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM))
    state, recorded = torch.randn(rows, width, generator=generator), {}
    with CaptureWriter(os.path.join(folder, "capture"), record, tokens, taps, choices=False) as file:
        for boundary in range(layers + 1):
            if boundary:
                added = torch.randn(rows, width, generator=generator)
                state += added.mul_(0.25 * state.norm() / added.norm())
            file.put(Tap(boundary), state.to(torch.bfloat16))
            if boundary in BOUNDARIES:
                noise = torch.randn(rows, width, generator=generator)
                recorded[boundary] = (state + noise.mul_(0.01 * state.norm() / noise.norm())).to(torch.bfloat16)
        normed = state * state.square().mean(1, keepdim=True).rsqrt()
        file.put(Tap(layers, FINAL_NORM), normed.to(torch.bfloat16))
        recorded[layers] = normed.to(torch.bfloat16)
    sample = torch.cat(list(recorded.values()), dim=1)
    torch.save({"tokens": tokens, "states": sample}, os.path.join(folder, "sample"))


class AnonymousPeak(threading.Thread):
    """Largest anonymous memory of this process, looked at every few milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        """Look until it is done."""
        while not self.done.wait(0.002):
            self.peak = max(self.peak, anonymous())


def anonymous() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def identify_large(folder: str) -> dict[str, object]:
    """Identify the sample's states: in a process of its own."""
    sample = torch.load(os.path.join(folder, "sample"), weights_only=True, mmap=True)
    capture = read_capture(os.path.join(folder, "capture"), digest=False)
    states = torch.split(sample["states"], capture.record.hidden_size, dim=1)
    before, watch = anonymous(), AnonymousPeak()
    watch.start()
    begin, used = time.perf_counter(), time.process_time()
    found = match_states(states, sample["tokens"], capture)
    taken, used = time.perf_counter() - begin, time.process_time() - used
    watch.done.set()
    watch.join()
    return {
        "identify_s": round(taken, 2),
        "identify_cpu_s": round(used, 2),
        "found": [f"{match.found} {match.boundary} {match.state}" for match in found],
        "error": [match.error and round(match.error, 4) for match in found],
        "tolerance": [match.tolerance and round(match.tolerance, 4) for match in found],
        "next_error": [match.next_error and round(match.next_error, 4) for match in found],
        "anonymous_mb": round((watch.peak - before) / 1024),
        "resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "capture_mb": round(os.path.getsize(os.path.join(folder, "capture")) / 1e6),
    }


def large(layers: int, width: int, rows: int) -> dict[str, object]:
    """The 61-layer case."""
    with tempfile.TemporaryDirectory() as folder:
        write_large(folder, layers, width, rows)
        command = [sys.executable, os.path.abspath(__file__), "--inside", folder]
        return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--width", type=int, default=7168)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(identify_large(given.inside)))
        return
    result = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads",
        "small": beside_forward(given.rounds),
        "large": large(given.layers, given.width, given.tokens),
    }
    if given.json:
        print(json.dumps(result, indent=2))
        return
    for part, values in result.items():
        print(f"{part}: {values}")


if __name__ == "__main__":
    main()
