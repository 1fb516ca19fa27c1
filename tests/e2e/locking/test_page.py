"""docs/lock.md: its commands run as they are written, and every code is on it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from drafter_contracts.locking.codes import CODES
from drafter_contracts.locking.document import Lock

PAGE = (Path(__file__).parents[3] / "docs" / "lock.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def shell(site, command):
    """Runs text in a shell on that machine, with the page's names replaced by those of here."""

    def run(text, **more):
        here = {
            "kimi-eagle3@prod": "tiny@prod",
            "sglang==0.5.23": "sglang==0.5.12.post1",
            "/models/Kimi-K2.5": site.target,
            "git add": "true",
            "python -m": f"{site.bench.python} -m",
        }
        for name, own in here.items():
            text = text.replace(name, own)
        variables = {**site.shop.variables, **site.bench.variables(), **more}
        environment = {k: v for k, v in os.environ.items() if variables.get(k, "") is not None}
        environment |= {k: v for k, v in variables.items() if v is not None}
        environment["PATH"] = os.path.dirname(command) + os.pathsep + environment["PATH"]
        return subprocess.run(
            ["sh", "-e", "-c", text, os.path.join(site.shop.folder, "launch.sh")], cwd=site.shop.folder,
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    return run


def test_the_page_s_session_locks_and_its_script_starts_the_engine(site, shell):
    lock, with_launch, again = blocks("sh")
    (script,) = blocks("bash")
    done = shell(lock)
    assert done.returncode == 0, done.stderr
    started = shell(script, DRAFTERS_DATA="/nowhere")
    assert started.returncode == 0, started.stderr
    assert "--speculative-algorithm" in site.bench.told()["argv"]
    done = shell(with_launch)
    assert done.returncode == 0, done.stderr
    assert site.document()["options"][-2:] == ["--tp", "8"]
    done = shell(again)
    assert done.returncode == 0, done.stderr


def test_every_code_and_every_field_has_a_row():
    rows = re.findall(r"^\| `([A-Za-z_]+)` \|", PAGE, flags=re.MULTILINE)
    assert {row for row in rows if row.isupper()} == set(CODES)
    assert {row for row in rows if not row.isupper()} == set(Lock.__struct_fields__) - {"schema"}


def test_codes_are_explained(drafters):
    for code, (title, without) in CODES.items():
        told = drafters("explain", code).stdout
        assert title in told
        assert without in told
