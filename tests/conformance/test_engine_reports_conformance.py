"""Decode lines, names of metrics and the switch of simulation that readers are built on, against the releases' code.

`DRAFTERS_WRITE_RESULTS=1` keeps the lines of every wheel in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import decode_lines
import pytest
from release_wheels import CACHE, cached

from drafter_contracts.acceptance import sglang_metrics
from drafter_contracts.acceptance.simulation import simulated_in

KEPT = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance", "decode_lines.json"
)
with open(KEPT, encoding="utf-8") as _file:
    LINES = json.load(_file)

#: One of each wording, unless all are asked for.
SOME = ("0.4.5", "0.5.3.post3", "0.5.4", "0.5.9", "0.5.16", "0.5.23")

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("release", LINES if os.environ.get("DRAFTERS_ALL_RELEASES") else SOME)
def test_the_kept_lines_are_what_the_release_writes(release):
    wheel = cached(CACHE, "sglang", release)
    if not wheel:
        pytest.skip(f"the wheel of sglang {release} is not in {CACHE}")
    made = decode_lines.produced(wheel)
    if os.environ.get("DRAFTERS_WRITE_RESULTS"):
        LINES[release] = made
        with open(KEPT, "w", encoding="utf-8") as file:
            json.dump(LINES, file, indent=1)
            file.write("\n")
    assert made == LINES[release]


#: Names and values of the switch that makes acceptance up.
SWITCHES = [
    {name: value}
    for name in ("SGLANG_SIMULATE_ACC_LEN", "SGL_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN")
    for value in ("2.5", "1", "1e-3", "0", "-1", "nan", "inf", "two", "", " 2 ")
]
#: Reads the switch with a release's own `environ.py`, or as its `eagle_utils.py` does where there is none.
READER = """
import json, os, runpy, sys, types
for name in ("sglang", "sglang.srt", "sglang.srt.debug_utils", "sglang.srt.debug_utils.cuda_coredump"):
    sys.modules[name] = types.ModuleType(name)  # 0.5.9 imports it for what it does, which is another thing
found = []
for variables in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(variables)
    own = runpy.run_path(sys.argv[1], {"os": os})
    own.get("_handle_deprecated_envs", lambda: None)()
    found.append(bool(own["envs"].SGLANG_SIMULATE_ACC_LEN.get() > 0 if "envs" in own else own["SIMULATE_ACC_LEN"]))
print(json.dumps(found))
"""


@pytest.mark.parametrize("release", ["0.4.5", "0.5.2", "0.5.3", "0.5.9", "0.5.23"])
def test_the_switch_that_makes_acceptance_up_is_read_as_the_release_reads_it(release, tmp_path):
    wheel = cached(CACHE, "sglang", release)
    if not wheel:
        pytest.skip(f"the wheel of sglang {release} is not in {CACHE}")
    path = tmp_path / "own.py"
    with zipfile.ZipFile(wheel) as archive:
        if "sglang/srt/environ.py" in archive.namelist():
            path.write_bytes(archive.read("sglang/srt/environ.py"))
        else:
            text = archive.read("sglang/srt/speculative/eagle_utils.py").decode()
            assert "if SIMULATE_ACC_LEN:" in text
            path.write_text(next(line for line in text.splitlines() if line.startswith("SIMULATE_ACC_LEN = ")))
    done = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", READER, str(path)],
        input=json.dumps(SWITCHES),
        capture_output=True,
        text=True,
        check=True,
    )
    told = [bool(simulated_in(variables, release)) for variables in SWITCHES]
    assert dict(zip(map(str, SWITCHES), told, strict=True)) == dict(
        zip(map(str, SWITCHES), json.loads(done.stdout), strict=True)
    )


@pytest.mark.parametrize("release", SOME)
def test_the_names_of_metrics_are_the_release_s(release):
    wheel = cached(CACHE, "sglang", release)
    if not wheel:
        pytest.skip(f"the wheel of sglang {release} is not in {CACHE}")
    with zipfile.ZipFile(wheel) as archive:
        places = [name for name in archive.namelist() if name.endswith("/collector.py") or "metrics_collector" in name]
        text = "".join(archive.read(name).decode() for name in places if name.startswith("sglang/srt/"))
    told = {name for name in sglang_metrics.NAMES if f'"{name}"' in text}
    counted = {sglang_metrics.VERIFIED, sglang_metrics.STEPS, sglang_metrics.DRAFT_TOKENS}
    assert told == sglang_metrics.NAMES - (set() if release in ("0.5.16", "0.5.23") else counted)
