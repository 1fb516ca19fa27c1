"""What the gate imports: nothing heavy, whatever it decides."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pydantic", "fastapi", "sqlalchemy", "torch", "numpy", "httpx", "rich", "click", "typer"}
#: Modules of the standard library and others that are no taboo, but have no business on this path.
SLOW = {"argparse", "dataclasses", "inspect", "logging", "subprocess", "tempfile", "urllib.request", "json", "yaml"}

CHILD = """
import os, sys
os.execvp = lambda *_: finish(0)  # instead of becoming the launch
def finish(code):
    print(*sys.modules, file=sys.__stdout__, flush=True)
    os._exit(code)
sys.stdout = sys.stderr
from drafter_cli.main import main
finish(main(sys.argv[1:]))
"""


def modules_after(*argv, code):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *argv], capture_output=True, text=True, check=False, timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["check", "guard"])
@pytest.mark.parametrize(("drafter", "code"), [("right", 0), ("wrong", 3)])
def test_a_gate_imports_nothing_heavy(bench, command, drafter, code):
    launch = bench.launch(getattr(bench, drafter))
    loaded = modules_after(command, "--output-ids", "2,30,58", "--", *launch, code=code)
    assert "drafter_contracts.check" in loaded, "the gate did run"
    assert not loaded & HEAVY
    measured = {name for name in loaded if name.partition(".")[0] == "coverage"}
    assert measured or not loaded & SLOW


def test_a_launch_without_speculation_loads_no_profile_and_no_rule(bench):
    loaded = modules_after("guard", "--", *bench.plain(), code=0)
    assert not loaded & HEAVY
    for part in ("drafter_contracts.check", "drafter_contracts.rules", "drafter_contracts.engines.store"):
        assert part not in loaded


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["check", "--help"], ["nonsense"]])
def test_help_needs_no_part_of_the_gate(argv):
    loaded = modules_after(*argv, code=2 if argv == ["nonsense"] else 0)
    assert not {name for name in loaded if name.startswith("drafter_contracts.")}
