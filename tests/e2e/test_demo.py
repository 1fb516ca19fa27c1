"""The incident as `make demo` tells it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from drafter_contracts.engines.store import releases

TELL = """
import sys
before = set(sys.modules)
from drafter_cli import demo
code = demo.main()
assert not {"socket", "http.client", "urllib.request"} & (set(sys.modules) - before), "the demo works offline"
sys.exit(code)
"""


@pytest.fixture(scope="module")
def story():
    done = subprocess.run(
        [sys.executable, "-c", TELL], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def chapters(story):
    parts = re.split(r"^(\d)\. ", story, flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def rows(chapter):
    """(release, verdict, note) of every verdict of a chapter."""
    return re.findall(r"^  (\S.*?) +(REFUSE|ALLOW|WARN|UNKNOWN) +(.*)$", chapter, flags=re.MULTILINE)


def test_the_wrong_fix_is_refused_on_every_release_with_its_taps_in_both_numberings(chapters):
    answers = rows(chapters[1])
    known = releases("sglang")
    named = " ".join(label for label, _, _ in answers)
    assert known[0] in named
    assert any(label.endswith((" on", known[-1])) for label, _, _ in answers)
    assert {verdict for _, verdict, _ in answers} == {"REFUSE"}
    asked, refused = re.search(r"(\d+) of (\d+) refused", " ".join(chapters[1].split())).groups()
    assert asked == refused
    assert int(asked) >= len(known)
    assert "boundaries 0, 3, 31 (embedding output, outputs of layers 2, 30)" in chapters[1]


def test_the_right_ids_are_right_on_one_release_only(chapters):
    answers = [(release, verdict in {"ALLOW", "WARN"}) for release, verdict, _ in rows(chapters[2])]
    assert answers == [
        ("0.5.12.post1", True),
        ("0.5.9", False),
        ("0.5.9", True),
        ("0.5.23", False),
        ("0.5.23", True),
        ("0.5.23", True),
    ]
    flat = " ".join(chapters[2].split())
    assert "graph replay boundaries 2, 30, 58 (outputs of layers 1, 29, 57)" in flat
    assert "--disable-cuda-graph" in flat
    assert "[3, 31, 59]" in flat
    assert '--json-model-override-args \'{"eagle_config":{' in flat


def test_two_drafted_tokens_instead_of_sixteen_are_called_out(chapters):
    assert "SPECULATION_ADJUSTED" in chapters[3]


def test_a_mismatched_launch_never_starts_and_a_matching_one_is_the_guard_itself(chapters):
    flat = " ".join(chapters[4].split())
    assert re.search(r"mismatched .* exit code 3; the engine was never started", flat)
    pids = re.search(r"matching drafters guard, pid (\d+): the engine ran as pid (\d+) \(the same process\)", flat)
    assert pids
    assert pids[1] == pids[2]


def test_the_published_drafter_resolves_to_what_each_release_needs_or_is_refused(chapters):
    commands = re.split(r"^  \$ ", chapters[5], flags=re.MULTILINE)[1:]
    published, newer, older, refused, rendered, vllm, locked = commands
    assert "--output-ids 2,30,58" in published
    assert "is published (http://127.0.0.1:" in published
    assert '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[3,31,59]' in newer
    assert "--disable-cuda-graph" in older
    assert "--disable-cuda-graph" not in newer
    assert "CAPTURE_NO_HOOK" in refused
    assert "--speculative-algorithm" not in refused
    assert "/renders/" in rendered
    assert "--json-model-override-args" not in rendered
    assert '--speculative-config \'{"method":"eagle3"' in vllm
    assert "drafters.lock  written" in locked
    assert [re.search(r"exit code (\d)", one)[1] for one in commands] == ["0", "0", "0", "3", "0", "0", "0"]


def test_no_colour_into_a_pipe(story):
    assert "\x1b" not in story
