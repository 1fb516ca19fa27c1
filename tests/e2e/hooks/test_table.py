"""Every row of the tables in docs/hooks.md, in every shell."""

from __future__ import annotations

import os
import re

import pytest

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "hooks.md")
CHILD = 'python -m sglang.launch_server "$@"\n: >"$MARKER"\n'
LAUNCHER = """
import subprocess, sys
sys.exit(subprocess.run(["python", "-m", "sglang.launch_server", *sys.argv[1:]]).returncode)
"""
COLUMNS = ("bash", "zsh", "dash")


def rows():
    """(script, what the page says of each shell)."""
    with open(PAGE, encoding="utf-8") as file:
        found = re.findall(
            r"^\| `(.*)` \| (yes|no|later) \| (yes|no|later) \| (yes|no|later) \|$", file.read(), flags=re.MULTILINE
        )
    return [(row.replace("\\|", "|"), dict(zip(COLUMNS, told, strict=True))) for row, *told in found]


@pytest.fixture
def scripts(yard):
    for name, text in (("child.sh", CHILD), ("launcher.py", LAUNCHER)):
        with open(os.path.join(yard.bench.folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def test_there_are_tables():
    assert len(rows()) > 30
    assert {told["dash"] for _, told in rows()} == {"yes", "no", "later"}


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize(("row", "told"), rows(), ids=[row for row, _ in rows()])
def test_a_refused_launch(yard, shell, row, told):
    done = yard.run(shell, f'{row}\n: >"$MARKER"', yard.bench.wrong)
    if told[shell] != "no":
        assert (done.returncode, yard.bench.started) == (3, False), done.stderr[-1500:]
        assert not yard.went_on or told[shell] == "later"
        assert "the launch was not started" in done.stderr or os.path.exists(os.path.join(yard.bench.folder, "log"))
    else:
        assert yard.bench.told(), "if this is caught now, the page should say so"


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("row", [row for row, _ in rows() if "while" not in row])
def test_a_launch_that_may_start(yard, row):
    """In bash, where all of the hook is at work."""
    more = () if "xargs" in row else ("--served-model-name", "a  b")
    done = yard.run("bash", row, yard.bench.right, *more)
    assert done.returncode == 0, done.stderr[-1500:]
    assert yard.bench.told()["argv"] == ["serve"] * row.startswith("sglang") + yard.arguments(yard.bench.right, *more)
