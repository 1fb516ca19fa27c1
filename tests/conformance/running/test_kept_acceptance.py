"""The acceptance of real servers: the page shows what was measured, and wrong layers were never `as promised`."""

from __future__ import annotations

import os

import accepting
import incident
import pytest
import results

FOUND = results.load()["acceptance"]
INCIDENT = results.load()["incident"]["8 layers"]
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "acceptance.md")


def test_the_pages_table_is_what_was_measured():
    with open(PAGE, encoding="utf-8") as file:
        assert accepting.table(FOUND) in file.read()


def test_the_right_layers_were_as_promised_and_nothing_was_wrong():
    right = FOUND["right"]
    assert (right["name"], right["estimate"], right["measured"]) == (incident.TRUE, "as promised", "as promised")
    assert right["doctor"] == []


@pytest.mark.parametrize("name", [name for name in FOUND if name != "right"])
def test_other_layers_were_seen_and_named(name):
    row = FOUND[name]
    assert row["measured"] in ("degraded", "collapsed")
    assert row["doctor"][0] == "CAPTURE_LAYERS"
    assert row["log"] < FOUND["right"]["log"] - 0.1


@pytest.mark.parametrize("name", FOUND)
def test_log_counters_and_the_engine_without_a_server_say_the_same(name):
    row = FOUND[name]
    assert row["counters"] == pytest.approx(row["log"], abs=0.15)
    assert row["log"] == pytest.approx(INCIDENT[",".join(map(str, row["boundaries"]))]["engine"], abs=0.15)
