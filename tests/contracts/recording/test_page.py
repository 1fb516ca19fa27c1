"""The manifest's page and schema say what the code is."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from drafter_contracts.manifest import Manifest, canonical, decode, json_schema
from drafter_contracts.recording.build import record
from drafter_contracts.recording.derive import DERIVED_FIELDS
from drafter_contracts.recording.field_words import NAMES
from drafter_contracts.recording.page import markdown, schema
from drafter_contracts.recording.statement import Statement

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("page", "render"), [("manifest.md", markdown), ("manifest.schema.json", schema)])
def test_the_stored_page_is_the_generated_one(page, render):
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == render(), "run: make docs"


def test_every_field_has_a_row_with_its_meaning():
    rows = [line.split(" | ") for line in markdown().splitlines() if line.startswith("| `")]
    described = {row[0].strip("| `") for row in rows if len(row) == 5}
    assert all(row[-1].strip(" |") for row in rows)
    assert described >= {field.rpartition(".")[2] for field in NAMES}


def test_fields_that_are_said_to_be_read_exist():
    assert set(DERIVED_FIELDS) <= set(NAMES)


def test_recorded_manifests_follow_the_published_schema(drafters, fitting_target, listed):
    validator = jsonschema_rs.validator_for(json_schema())
    for name, facts in drafters.items():
        manifest = record(facts, Statement(name="a", version="1"), fitting_target(facts), listed).manifest
        if manifest is not None:
            assert validator.is_valid(json.loads(canonical(manifest))), name
    validator.validate(json.loads((ROOT / "examples/drafters-manifest.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "change",
    [
        {"targt": {}},
        {"schema": "drafters.manifest.v2"},
        {"target": {"layers": 0}},
        {"layout": {"boundaries": []}},
        {"layout": {"boundaries": [3], "norm": "some"}},
        {"files": [{"path": "a", "size": 1}]},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change):
    document = {"schema": "drafters.manifest.v1", **change}
    assert not jsonschema_rs.validator_for(json_schema()).is_valid(document)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, Manifest)


def test_the_schema_takes_the_smallest_document():
    document = {"schema": "drafters.manifest.v1"}
    assert jsonschema_rs.validator_for(json_schema()).is_valid(document)
    assert decode(json.dumps(document).encode()) == Manifest(schema="drafters.manifest.v1")
