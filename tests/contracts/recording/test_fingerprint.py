"""The fingerprint: what of a manifest decides compatibility changes it, and nothing else does."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.manifest import SCHEMA, Manifest, canonical, decode, digest
from drafter_contracts.recording.fingerprint import CONTRACT_FIELDS, contract_fields, fingerprint

#: Every field of a manifest that no launch depends on.
FREE = {
    "schema",
    "name",
    "version",
    "target.model",
    "target.revision",
    "layout.output_ids",
    "layout.fc_input_width",
    "layout.stated",
    "layout.known_by",
    "layout.evidence",
    "layout.identified",
    "layout.evaluated",
    "state_fingerprint",
    "recommended",
    "acceptance",
    "render",
    "files",
    "provenance",
}

words = st.text("abc", min_size=1, max_size=6)
counts = st.integers(1, 10**6)
hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
names = {"embeddings": ["", "own", "target"], "lm_head": ["", "own", "target"], "vocab_mapping": ["", "none", "offset"]}
scalings = st.none() | st.fixed_dictionaries(
    {"rope_type": st.sampled_from(["yarn", "linear"]), "factor": st.floats(1, 9)}
)


def values(name, kind):
    """A strategy for the values of one field, by its type in the schema."""
    if name in names:
        return st.sampled_from(names[name])
    if name == "tokenizer_sha256":
        return hexes
    if name == "rope_scaling":
        return scalings
    text = str(kind)
    for part, strategy in (("bool", st.booleans()), ("float", st.floats(1, 1e7)), ("int", counts)):
        if part in text:
            return st.none() | strategy
    return words


def record_of(kind):
    fields = {field.name: values(field.name, field.type) for field in msgspec.structs.fields(kind)}
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


@st.composite
def layouts(draw):
    boundaries = draw(st.lists(st.integers(0, 60), min_size=1, max_size=5).map(tuple))
    state = st.sampled_from(["residual", "stream_mean"])
    taps = len(boundaries)
    return {
        "boundaries": boundaries,
        "states": draw(st.lists(state, min_size=taps, max_size=taps)),
        "widths": draw(st.lists(counts, min_size=taps, max_size=taps)),
        "norm": draw(st.sampled_from(["none", "concatenation", "per_chunk"])),
    }


@st.composite
def manifests(draw):
    shell = Manifest(schema=SCHEMA)
    document = {
        "schema": SCHEMA,
        "method": draw(words),
        "target": msgspec.to_builtins(draw(record_of(type(shell.target)))) | {"layers": 61},
        "layout": draw(layouts()),
        "draft": msgspec.to_builtins(draw(record_of(type(shell.draft)))),
    }
    return msgspec.convert(document, Manifest)


def leaves(struct, head=""):
    for field in msgspec.structs.fields(type(struct)):
        value, name = getattr(struct, field.name), head + field.name
        if isinstance(value, msgspec.Struct) and name not in FREE:
            yield from leaves(value, f"{name}.")
        else:
            yield name


def put(manifest, field, value):
    """The manifest with another value at a dotted field."""
    head, _, rest = field.partition(".")
    if rest:
        value = put(getattr(manifest, head), rest, value)
    return msgspec.structs.replace(manifest, **{head: value})


FULL = decode(
    json.dumps(
        {
            "schema": SCHEMA,
            "method": "EAGLE3",
            "target": {
                "architecture": "A",
                "layers": 61,
                "hidden_size": 8,
                "vocab_size": 9,
                "tokenizer_sha256": "a" * 64,
            },
            "layout": {"boundaries": [3, 31, 59]},
            "draft": {"vocab_size": 5, "rope_theta": 1e6, "norm_output": True, "dtype": "bfloat16"},
        }
    ).encode()
)
CHANGES = {
    "method": "DFLASH",
    "target.architecture": "B",
    "target.layers": 60,
    "target.hidden_size": 16,
    "target.vocab_size": 10,
    "target.tokenizer_sha256": "b" * 64,
    "target.context_length": 4096,
    "target.model_type": "llama",
    "target.text_model_type": "llama",
    "layout.boundaries": (59, 31, 3),
    "layout.states": ("residual", "residual", "stream_mean"),
    "layout.widths": (8, 8, 16),
    "layout.norm": "concatenation",
    "draft.vocab_size": 6,
    "draft.embeddings": "own",
    "draft.lm_head": "target",
    "draft.trained_context": 2048,
    "draft.rope_theta": 1e5,
    "draft.dtype": "float16",
    "draft.block_size": 16,
    "draft.norm_output": False,
    "draft.norm_before_residual": True,
    "draft.thinking_mode": "on",
    "draft.rotated": True,
    "draft.architecture": "C",
    "draft.hidden_size": 4,
    "draft.layers": 2,
    "draft.target_vocab_size": 9,
    "draft.vocab_mapping": "offset",
    "draft.has_embedding": False,
    "draft.has_lm_head": True,
    "draft.context_length": 4096,
    "draft.rope_scaling": {"rope_type": "yarn"},
    "draft.weights_dtype": "F16",
    "draft.quantization": "fp8",
    "draft.attention": "mla",
    "draft.mask_token_id": 7,
}
UNTOUCHED = {
    "name": "x",
    "version": "9",
    "target.model": "org/other",
    "target.revision": "abc",
    "layout.output_ids": (2, 30, 58),
    "layout.fc_input_width": 24,
    "layout.stated": {"key": "k", "values": [2, 30, 58]},
    "layout.known_by": "producer rule",
    "layout.evidence": ("said so",),
    "recommended": {"steps": 3},
    "acceptance": [{"length": 2.5}],
    "files": [{"path": "a", "size": 1, "sha256": "0" * 64}],
    "provenance": {"producer": "p==1"},
    "render": {"of": "sha256:" + "0" * 64, "engine": "sglang 0.5.9"},
    "layout.identified": {"taps": [{"boundary": 3, "error": 0.1}], "tokens": 9, "sample_sha256": "0" * 64},
    "layout.evaluated": {
        "stated": {"boundaries": [3, 31, 59], "length": 2.0},
        "tried": 2,
        "rows": 9,
        "weights_sha256": "0" * 64,
    },
    "state_fingerprint": {
        "spec": "drafters.fingerprint.v1",
        "tokens": [1],
        "taps": [{"boundary": 3, "norms": [1.0], "first": [[1.0]], "projection": ""}],
        "layers": 61,
        "width": 8,
    },
}


def test_every_field_is_either_part_of_the_contract_or_named_as_free():
    assert set(leaves(FULL)) == set(CONTRACT_FIELDS) | FREE
    assert not set(CONTRACT_FIELDS) & FREE
    assert set(CHANGES) == set(CONTRACT_FIELDS)
    assert set(UNTOUCHED) == FREE - {"schema"}


@pytest.mark.parametrize("field", CONTRACT_FIELDS)
def test_a_field_of_the_contract_changes_the_fingerprint(field):
    assert fingerprint(put(FULL, field, CHANGES[field])) != fingerprint(FULL)


@pytest.mark.parametrize("field", sorted(UNTOUCHED))
def test_a_field_outside_the_contract_does_not(field):
    kinds = {"layout": FULL.layout, "target": FULL.target}
    head, _, rest = field.partition(".")
    kind = {entry.name: entry.type for entry in msgspec.structs.fields(type(kinds[head] if rest else FULL))}[
        rest or head
    ]
    changed = put(FULL, field, msgspec.convert(UNTOUCHED[field], kind))
    assert changed != FULL
    assert digest(changed) != digest(FULL)
    assert fingerprint(changed) == fingerprint(FULL)


@settings(max_examples=60, deadline=None)
@given(one=manifests(), free=words)
def test_no_word_outside_the_contract_matters(one, free):
    target = msgspec.structs.replace(one.target, model=free, revision=free)
    layout = msgspec.structs.replace(one.layout, evidence=(free,), known_by="declared")
    other = msgspec.structs.replace(one, name=free, version=free, target=target, layout=layout)
    assert fingerprint(other) == fingerprint(one)


@settings(max_examples=60, deadline=None)
@given(one=manifests(), other=manifests())
def test_fingerprints_are_equal_exactly_where_the_contracts_are(one, other):
    assert (fingerprint(one) == fingerprint(other)) == (contract_fields(one) == contract_fields(other))
    assert fingerprint(decode(canonical(one))) == fingerprint(one)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layout.states", ("residual",) * 3),
        ("layout.widths", (8, 8, 8)),
        ("draft.rope_theta", 1000000),
        ("draft.dtype", "BF16"),
        ("draft.dtype", "torch.bfloat16"),
        ("draft.rope_scaling", {}),
        ("draft.rope_scaling", {"rope_type": "default"}),
    ],
)
def test_another_spelling_of_the_same_is_the_same(field, value):
    assert fingerprint(put(FULL, field, value)) == fingerprint(FULL)


def test_numbers_inside_rope_scaling_are_compared_as_numbers():
    whole, broken = ({"rope_type": "yarn", "factor": factor, "list": [factor]} for factor in (8, 8.0))
    one, other = (fingerprint(put(FULL, "draft.rope_scaling", value)) for value in (whole, broken))
    assert one == other
    assert one != fingerprint(put(FULL, "draft.rope_scaling", {**whole, "factor": 9}))


def test_no_layout_is_another_contract_than_one():
    bare = msgspec.structs.replace(FULL, layout=None)
    assert fingerprint(bare) != fingerprint(FULL)
    assert not [field for field in contract_fields(bare) if field.startswith("layout")]


def test_it_is_the_same_in_every_process():
    """Registries keep fingerprints: where this one changes, the contract needs a new version."""
    assert fingerprint(FULL) == "sha256:6663bb547655379d8c3c4e76174058605133d88546f12520fa0b380006738c2f"
