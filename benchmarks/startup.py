"""How long the gate takes to answer, beside a bare interpreter and beside SGLang's own argument parser.

    python benchmarks/startup.py [--rounds 30] [--sglang-python PYTHON] [--installed PYTHON ...] [--json]

Every case is a process of its own, started in turn (interleaved, so that a noisy machine disturbs all alike), output
discarded, wall time from spawn to exit. One uncounted round first, which also lets the interpreter write its bytecode.
Environments given with --installed are asked about as they lie there, beside the same question about the release that
they say they are: what lies between is the comparison of the engine's files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from drafter_cli.demo_files import DEEPSEEK, EVERY_OPTION, write_drafter, write_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

RELEASE = "0.5.12.post1"
BARE = "python -c pass"
TARGET_RATIO = 5.0
TARGET_VERDICT_MS = 1.0
TARGET_SGLANG = 40.0


def run_once(argv: Sequence[str], environment: dict[str, str]) -> tuple[float, int]:
    """Wall milliseconds and exit code of one process with its output discarded."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    elapsed = (time.perf_counter() - start) * 1e3
    os.close(null)
    return elapsed, os.waitstatus_to_exitcode(status)


def cases(folder: str) -> dict[str, tuple[list[str], int]]:
    """Name to (command, expected exit code)."""
    python = sys.executable
    drafters = os.path.join(os.path.dirname(python), "drafters")
    target, right, wrong = (os.path.join(folder, name) for name in ("target", "right", "wrong"))
    write_target(target)
    write_drafter(right, ids=[2, 30, 58])
    write_drafter(wrong, ids=[-1, 2, 30])
    os.symlink("/bin/true", os.path.join(folder, "sglang"))

    def launch(drafter: str) -> list[str]:
        return ["sglang", "serve", "--model-path", target, "--speculative-draft-model-path", drafter, *EVERY_OPTION]

    gate = ["--engine", f"sglang=={RELEASE}", "--output-ids", "2,30,58", "--"]
    return {
        BARE: ([python, "-c", "pass"], 0),
        "import argparse, json": ([python, "-c", "import argparse, json"], 0),
        "import msgspec": ([python, "-c", "import msgspec"], 0),
        "drafters check (allow)": ([drafters, "check", *gate, *launch(right)], 0),
        "drafters check (refuse)": ([drafters, "check", *gate, *launch(wrong)], 3),
        "drafters guard (starts /bin/true)": ([drafters, "guard", *gate, *launch(right)], 0),
        "drafters guard (refuses)": ([drafters, "guard", *gate, *launch(wrong)], 3),
        "drafters guard (no speculation)": ([drafters, "guard", "--", "sglang", "serve", "--model-path", target], 0),
        "the plugin, loaded (no speculation)": ([python, "-c", "import drafter_cli.plugin.hooks"], 0),
    }


def installed_cases(folder: str, pythons: Sequence[str]) -> dict[str, tuple[list[str], int]]:
    """The same question about each environment, as it lies there and as its release was published."""
    drafters = os.path.join(os.path.dirname(sys.executable), "drafters")
    target = write_target(os.path.join(folder, "deepseek"), DEEPSEEK)
    found: dict[str, tuple[list[str], int]] = {}
    for python in pythons:
        launch = [python, "-m", "sglang.launch_server", "--model-path", target, "--disable-cuda-graph"]
        launch += ["--speculative-draft-model-path", os.path.join(folder, "right"), *EVERY_OPTION]
        gate = [drafters, "check", "--output-ids", "2,30,58"]
        first = subprocess.run([*gate, "--json", "--", *launch], capture_output=True, text=True, check=False)
        context = json.loads(first.stdout)["context"]
        release = context["engine"].removeprefix("sglang ")
        kind = context["engine profile"].partition(" ")[0]
        published = [*gate, "--engine", f"sglang=={release}", "--", *launch]
        found[f"check --engine sglang=={release}"] = published, run_once(published, dict(os.environ))[1]
        found[f"check, installed {release} ({kind})"] = [*gate, "--", *launch], first.returncode
    return found


def measure(chosen: dict[str, tuple[list[str], int]], folder: str, rounds: int) -> dict[str, list[float]]:
    """Wall milliseconds of every round, per case."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "DRAFTERS_GUARD")}
    environment["PATH"] = folder + os.pathsep + environment.get("PATH", os.defpath)
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(rounds + 1):
        for name, (argv, expected) in chosen.items():
            elapsed, code = run_once(argv, environment)
            if code != expected:
                sys.exit(f"{name}: exit code {code}, expected {expected}: {' '.join(argv)}")
            if turn:
                times[name].append(elapsed)
    return times


def measure_sglang(python: str, rounds: int) -> list[float]:
    """Wall milliseconds of importing SGLang's own argument parser."""
    argv = [python, "-c", "from sglang.srt.server_args import ServerArgs, prepare_server_args"]
    times = []
    for turn in range(rounds + 1):
        elapsed, code = run_once(argv, dict(os.environ))
        if code:
            sys.exit(f"{python} cannot import sglang.srt.server_args")
        if turn:
            times.append(elapsed)
    return times


def measure_verdict(folder: str) -> dict[str, float]:
    """Median milliseconds, in this process, of the rules alone and of everything that the gate does."""
    from drafter_cli.gate import judge, read_engine, read_situation
    from drafter_cli.gate_options import Request
    from drafter_contracts import check
    from drafter_contracts.serving.invocation import read_invocation

    argv, _ = cases_launch(folder)
    request = Request(tuple(argv), engine=RELEASE, boundaries=(3, 31, 59), option="--boundaries 3,31,59")
    invocation = read_invocation(request.launch)
    situation = read_situation(request, invocation, read_engine(request, invocation))
    return {
        "the rules alone": _median(lambda: check.run(situation), 300),
        "read and judge, imports done": _median(lambda: judge(request), 100),
    }


def cases_launch(folder: str) -> tuple[list[str], str]:
    """The matching launch, and its drafter."""
    right = os.path.join(folder, "right")
    target = os.path.join(folder, "target")
    argv = ["sglang", "serve", "--model-path", target, "--speculative-draft-model-path", right, *EVERY_OPTION]
    return argv, right


def _median(function: object, times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        function()  # type: ignore[operator]
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def table(times: dict[str, list[float]]) -> str:
    """Medians, minima and ratios as text."""
    bare_median, bare_min = statistics.median(times[BARE]), min(times[BARE])
    lines = [f"{'':<36}{'median ms':>10}{'x bare':>8}{'min ms':>10}{'x bare':>8}"]
    for name, values in times.items():
        median, least = statistics.median(values), min(values)
        lines.append(f"{name:<36}{median:>10.1f}{median / bare_median:>8.2f}{least:>10.1f}{least / bare_min:>8.2f}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sglang-python", default="", help="python of an environment with SGLang installed")
    parser.add_argument("--sglang-rounds", type=int, default=5)
    parser.add_argument("--installed", default=[], nargs="*", help="pythons of environments that hold SGLang's files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases(folder) | installed_cases(folder, options.installed)
        times = measure(chosen, folder, options.rounds)
        verdict = measure_verdict(folder)
    name = "import SGLang's argument parser"
    if options.sglang_python:
        times[name] = measure_sglang(options.sglang_python, options.sglang_rounds)
    medians = {case: statistics.median(values) for case, values in times.items()}
    if options.json:
        print(json.dumps({"median_ms": medians, "verdict_ms": verdict}, indent=2))
        return
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, median of {options.rounds} interleaved rounds\n"
    )
    print(table(times))
    print()
    for what, milliseconds in verdict.items():
        print(f"{what:<36}{milliseconds:>10.3f}")
    worst = max(medians[case] for case in medians if case.startswith("drafters"))
    ratio = worst / medians[BARE]
    print(f"\nwhole gate, slowest case: {ratio:.2f}x a bare interpreter (target {TARGET_RATIO:.0f}x)")
    print(f"the rules alone: {verdict['the rules alone']:.3f} ms (target {TARGET_VERDICT_MS:.0f} ms)")
    if name in medians:
        print(f"SGLang's parser takes {medians[name] / worst:.0f} times as long (target {TARGET_SGLANG:.0f})")
    else:
        print("SGLang's parser: not measured (--sglang-python PATH)")


if __name__ == "__main__":
    main()
