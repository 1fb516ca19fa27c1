"""Decode lines that tests and readers are built on, against what the releases' own code writes.

`DRAFTERS_WRITE_RESULTS=1` keeps the lines of every wheel in the cache.
"""

from __future__ import annotations

import json
import os

import decode_lines
import pytest
from release_wheels import CACHE, cached

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
