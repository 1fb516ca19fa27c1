from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.errors import ManifestError
from drafter_contracts.layout import CaptureLayout, Tap
from drafter_contracts.manifest import (
    FILE_NAME,
    DraftRecord,
    LayoutRecord,
    Manifest,
    Recommended,
    TargetRecord,
    canonical,
    decode,
    digest,
    json_schema,
    read_manifest,
)

KIMI = {
    "schema": "drafters.manifest.v1",
    "name": "kimi-k2.5-eagle3",
    "method": "EAGLE3",
    "target": {"model": "moonshotai/Kimi-K2.5", "layers": 61, "hidden_size": 7168, "vocab_size": 163840},
    "layout": {
        "boundaries": [3, 31, 59],
        "stated": {
            "key": "eagle_config.eagle_aux_hidden_state_layer_ids",
            "values": [2, 30, 58],
            "numbering": "output",
        },
        "evidence": ["recorded states match layers 2, 30, 58"],
    },
    "recommended": {"speculative_tokens": 3},
}


def encoded(**changes):
    return json.dumps({**KIMI, **changes}).encode()


def test_a_manifest_states_the_layout_and_the_requirements(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(encoded())
    manifest = read_manifest(str(tmp_path))
    stated = manifest.stated_layout()
    assert stated.layout.boundaries == (3, 31, 59)
    assert stated.layout.fc_input_width == 21504
    assert (stated.origin, stated.confidence) == ("manifest", "declared")
    requirements = manifest.requirements()
    assert requirements.target_layers == 61
    assert requirements.speculative_tokens == 3
    assert requirements.norm_output is None


def test_no_file_is_no_manifest(tmp_path):
    assert read_manifest(str(tmp_path)) is None
    assert read_manifest(str(tmp_path / "missing")) is None


@pytest.mark.parametrize(
    ("document", "where", "expected", "actual"),
    [
        (encoded(targt={}), FILE_NAME, "a field of the schema", "targt"),
        (encoded(target={"layer": 3}), "target", "a field of the schema", "layer"),
        (encoded(target={"layers": "61"}), "target.layers", "int", "str"),
        (encoded(target={"layers": 0}), "target.layers", "int >= 1", "0"),
        (encoded(layout={"boundaries": []}), "layout.boundaries", "length >= 1", "[]"),
        (encoded(layout={"boundaries": [3, -1]}), "layout.boundaries[1]", "int >= 0", "-1"),
        (encoded(layout={"boundaries": [3], "norm": "some"}), "layout.norm", "", "some"),
        (encoded(schema="drafters.manifest.v2"), "schema", "drafters.manifest.v1", "drafters.manifest.v2"),
        (b'{"name": "x"}', FILE_NAME, "schema", "nothing"),
        (b'{"schema": "drafters.manifest.v1"', FILE_NAME, "JSON", "truncated"),
        (b"[]", FILE_NAME, "object", "array"),
        (encoded(layout={"boundaries": [3, 62]}), "layout", "0 to 61", "62"),
        (encoded(layout={"boundaries": [3, 31], "states": ["residual"]}), "layout.states", "2 states", "1"),
        (encoded(layout={"boundaries": [3], "states": ["final_norm"]}), "layout", "61", "3"),
    ],
)
def test_a_fault_names_file_field_expected_and_actual(document, where, expected, actual):
    with pytest.raises(ManifestError) as caught:
        decode(document)
    error = caught.value
    assert FILE_NAME in error.where
    assert where in error.where
    assert expected in error.expected
    assert actual in error.actual


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / FILE_NAME).open("wb") as file:
        file.truncate(limits.manifest_max_bytes + 10**9)
    with pytest.raises(ManifestError, match="too large"):
        read_manifest(str(tmp_path))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(str(tmp_path))


def test_no_layout_is_no_statement():
    document = {key: value for key, value in KIMI.items() if key != "layout"}
    assert decode(json.dumps(document).encode()).stated_layout() is None


names = st.text(max_size=8)
manifests = st.builds(
    Manifest,
    schema=st.just("drafters.manifest.v1"),
    name=names,
    version=names,
    target=st.builds(
        TargetRecord, model=names, layers=st.none() | st.integers(40, 128), hidden_size=st.none() | st.integers(1, 9000)
    ),
    layout=st.none()
    | st.builds(LayoutRecord, boundaries=st.lists(st.integers(0, 40), min_size=1, max_size=5).map(tuple)),
    draft=st.builds(DraftRecord, norm_output=st.none() | st.booleans(), rope_theta=st.none() | st.floats(1, 1e9)),
    recommended=st.builds(Recommended, steps=st.none() | st.integers(1, 9)),
)


@given(manifests)
def test_canonical_bytes_read_back_as_the_same_manifest_whatever_the_spelling(manifest):
    again = decode(canonical(manifest))
    assert again == manifest
    spread = json.dumps(json.loads(canonical(manifest)), indent=3, ensure_ascii=True).encode()
    assert canonical(decode(spread)) == canonical(manifest)
    assert digest(decode(spread)) == digest(manifest)


@given(manifests, manifests)
def test_different_manifests_have_different_digests(one, other):
    assert (digest(one) == digest(other)) == (one == other)


def test_the_digest_is_that_of_the_canonical_bytes():
    assert canonical(Manifest(schema="drafters.manifest.v1", name="é")) == (
        '{"name":"é","schema":"drafters.manifest.v1"}'.encode()
    )
    manifest = Manifest(schema="drafters.manifest.v1", name="é")
    assert digest(manifest) == "sha256:" + hashlib.sha256(canonical(manifest)).hexdigest()


def test_states_and_norm_reach_the_layout():
    record = LayoutRecord(boundaries=(3, 61), states=("residual", "final_norm"), widths=(8, 8), norm="per_chunk")
    manifest = Manifest(schema="drafters.manifest.v1", target=TargetRecord(layers=61), layout=record)
    assert manifest.capture_layout() == CaptureLayout((Tap(3), Tap(61, "final_norm")), (8, 8), "per_chunk")


def test_the_schema_refuses_what_the_reader_refuses():
    schema = json_schema()
    parts = schema["$defs"]
    assert {"Manifest", "TargetRecord", "LayoutRecord", "DraftRecord"} <= set(parts)
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert parts["Manifest"]["required"] == ["schema"]
