"""One version shown, and two compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest
from small_registry import NAME, good, read


def test_a_version_for_people(look):
    shown = good(look("show", f"{NAME}@prod")).stdout
    for expected in (
        f"{NAME}@1.0.0  live",
        "boundaries    3, 31, 59",
        "output ids    2, 30, 58",
        "192 wide, 3 taps in this order",
        "columns 64 to 127: boundary 31 (output of layer 30)",
        "known by      declared",
        "model         org/kimi",
        "aliases       prod",
        "with drafters/",
        "recommended   1 steps",
        "model.safetensors",
    ):
        assert expected in shown
    assert "-1 is the embedding" in good(look("show", f"{NAME}@2.0.0")).stdout


def test_the_manifest_is_printed_byte_for_byte(look):
    digest = read(look("show", f"{NAME}@1.0.0", "--json"))["summary"]["digest"]
    data = good(look("show", f"{NAME}@{digest}", "--manifest")).stdout.encode()
    assert "sha256:" + sha256(data).hexdigest() == digest


def test_references_that_lead_nowhere(look):
    for reference, code in ((f"{NAME}@9.9.9", "NOT_FOUND"), (NAME, "INVALID"), ("Kimi@1", "INVALID")):
        done = look("show", reference, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, code)
    assert look("show", NAME).stderr.splitlines()[1].strip().startswith(f"write {NAME}@VERSION")


def test_differences_in_words(look):
    other = look("diff", NAME, "1.0.0", "2.0.0", "--exit-code")
    assert other.returncode == 3
    assert "another contract" in other.stdout
    assert "layout.boundaries" in other.stdout
    assert "captures boundary 0" in other.stdout
    same = good(look("diff", f"{NAME}@prod", f"{NAME}@1.1.0", "--exit-code"))
    assert "the same contract" in same.stdout
    assert read(look("diff", NAME, "1.0.0", "2.0.0", "--json"))["same_contract"] is False


def test_two_drafters_are_not_compared(inside):
    done = inside("diff", f"{NAME}@1.0.0", "other@1.0.0")
    assert (done.returncode, "two drafters" in done.stderr) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("arguments", [("list", "--json"), ("show", f"{NAME}@1.0.0", "--manifest")])
def test_output_that_cannot_be_written(command, data, tmp_path, arguments):
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path), "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [command, *arguments], stdout=full, stderr=subprocess.PIPE, env=environment, timeout=60, check=False
        )
    assert (done.returncode, b"cannot be written" in done.stderr) == (2, True)
