"""What a guard without a lock imports: nothing of locking; with one, nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys

CHILD = """
import os, sys
def finish(code):
    print(*sys.modules, file=sys.__stdout__, flush=True)
    os._exit(code)
os.execvp = lambda *_: finish(0)  # instead of becoming the launch
sys.stdout = sys.stderr
from drafter_cli.main import main
finish(main(sys.argv[1:]))
"""
HEAVY = {"pydantic", "fastapi", "sqlalchemy", "torch", "numpy", "httpx2", "rich", "huggingface_hub"}


def modules_of(site, *argv):
    variables = {**site.shop.variables, "DRAFTERS_DATA": "/nowhere"}
    environment = {k: v for k, v in os.environ.items() if variables.get(k, "") is not None}
    environment |= {k: v for k, v in variables.items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *argv], cwd=site.shop.folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_guard_without_a_lock_imports_nothing_of_locking(site, flags):
    loaded = modules_of(site, "guard", "--", *site.launch(flags))
    assert "drafter_contracts.check" in loaded, "the gate did run"
    assert not [name for name in loaded if "locking" in name or name.startswith("drafter_registry")]


def test_a_locked_guard_opens_no_registry(site, flags):
    loaded = modules_of(site, "guard", "--locked", "--", *site.launch(flags))
    assert "drafter_cli.locking.start" in loaded
    assert not loaded & HEAVY
    for part in ("drafter_cli.client.connect", "drafter_registry.service", "drafter_registry.db"):
        assert part not in loaded
