"""The incident's tables: what the pages show is what was measured, and what was measured is what the product claims."""

from __future__ import annotations

import os

import incident
import pytest
import results

FOUND = results.load().get("incident", {})
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
PAGES = [("README.md", "8 layers"), ("docs/incident.md", "8 layers")]
PAGES += [(page, name) for page in ("docs/incident.md", "examples/README.md") for name in FOUND if name != "8 layers"]


@pytest.mark.parametrize(("page", "name"), PAGES)
def test_a_pages_table_is_what_was_measured(page, name):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        assert incident.table(FOUND[name]) in file.read()


@pytest.mark.parametrize("name", FOUND)
def test_the_layout_as_trained_is_the_best_on_the_engine_and_was_predicted_to_be(name):
    rows = FOUND[name].values()
    for key in ("first", "predicted", "engine"):
        assert max(rows, key=lambda row: row[key])["name"].startswith("as trained")


def test_the_engine_did_what_was_predicted_and_collapsed_with_the_labels_layers():
    rows = FOUND["8 layers"]
    assert all(abs(row["engine"] - row["predicted"]) < 0.1 * row["engine"] for row in rows.values())
    right, wrong = rows["2,5,7"], rows["0,2,5"]
    assert (right["name"], wrong["name"]) == (incident.TRUE, incident.LABELLED)
    assert right["engine"] - 1 > 1.5 * (wrong["engine"] - 1)
