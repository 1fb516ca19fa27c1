"""What the registry reads off its own blobs, and what it refuses to store."""

import errno
import json
import tempfile
import tracemalloc
from collections import OrderedDict

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drafter_contracts import limits as contract_limits
from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.manifest import FileRecord
from drafter_contracts.recording.audit import contradictions
from drafter_registry.errors import (
    ContradictionError,
    IncompleteError,
    IntegrityError,
    NotFoundError,
    StorageFullError,
    UnavailableError,
)
from drafter_registry.names import Reference
from drafter_registry.service import reread as module
from drafter_registry.service.reread import decode_facts, encode_facts, facts_of, reader, reread
from drafter_registry.service.versions import find

#: Where nothing depends on the back end.
one_kind = pytest.mark.parametrize("kind", ["sqlite-local"])


@pytest.fixture
def stored(registry, admin, listed):
    """Stores files and returns a manifest that lists them."""
    from drafter_contracts.manifest import SCHEMA, Manifest, TargetRecord

    def run(files, changes=None, without=()):
        from drafter_registry.service.uploads import store_bytes

        records = []
        for record in listed(files):
            if record.path not in without:
                store_bytes(registry, admin, files[record.path], "sha256:" + record.sha256)
            records.append(msgspec.structs.replace(record, **(changes or {}).get(record.path, {})))
        return Manifest(
            schema=SCHEMA,
            name="tiny",
            version="1.0.0",
            target=TargetRecord(layers=32, hidden_size=8),
            files=tuple(records),
        )

    return run


@one_kind
@pytest.mark.parametrize(
    ("types", "reading"),
    [
        ({}, "dspark-v4"),
        ({"model_type": "deepseek_v4"}, "dspark-v4"),
        ({"model_type": "deepseek_v41"}, "dspark-v41"),
        ({"model_type": "wrapper", "text_model_type": "deepseek_v41"}, "dspark-v41"),
    ],
)
def test_what_ids_mean_for_the_recorded_targets_type_is_read_as_the_publisher_read_it(
    registry, skeleton, stored, types, reading
):
    config = {"eagle_config": None, "architectures": ["DSparkDraftModel"], "dspark_target_layer_ids": [3, 17, 30]}
    manifest = stored(skeleton(config={**config, "block_size": 4}))
    typed = msgspec.structs.replace(manifest, target=msgspec.structs.replace(manifest.target, **types))
    assert reread(registry.blobs, typed).layout.numbering == reading


class Reads:
    """A blob store that remembers which ranges were asked of it."""

    def __init__(self, blobs):
        self.blobs = blobs
        self.lengths = []

    def size(self, digest):
        return self.blobs.size(digest)

    def read(self, digest, start, length):
        self.lengths.append(length)
        return self.blobs.read(digest, start, length)


@pytest.mark.parametrize("shards", [False, True])
def test_facts_are_those_of_the_directory_itself(registry, stored, skeleton, tmp_path, shards):
    files = {**skeleton(shards=shards), "README.md": b"words", "tokenizer.json": b"{}"}
    directory = tmp_path / "whole"
    directory.mkdir()
    for path, data in files.items():
        (directory / path).write_bytes(data)
    whole = read_drafter(str(directory), target_layers=32, target_hidden_size=8)
    read = reread(registry.blobs, stored(files))
    assert read == msgspec.structs.replace(whole, path="tiny@1.0.0")
    assert read.tensors
    assert tempfile.gettempdir() not in repr(read)


def test_only_headers_and_configs_are_read(registry, stored, skeleton):
    files = skeleton(tensors={"fc.weight": ("BF16", (2000, 3000))})
    manifest = stored(files)
    blobs = Reads(registry.blobs)
    tracemalloc.start()
    reread(blobs, manifest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(files["model.safetensors"]) > 12_000_000
    assert sum(blobs.lengths) < 10_000
    assert peak < 3_000_000


@one_kind
def test_quantisation_of_a_file_beside_the_config_is_read(registry, stored, skeleton):
    quantised = {"hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8"}}'}
    plain = reread(registry.blobs, stored(skeleton()))
    assert reread(registry.blobs, stored({**skeleton(), **quantised})).quantization != plain.quantization


@one_kind
def test_a_claim_of_a_large_header_is_refused_unread(registry, stored, skeleton):
    head = (2**30).to_bytes(8, "little") + b"{}"
    manifest = stored({**skeleton(), "model.safetensors": head + bytes(100_000)})
    blobs = Reads(registry.blobs)
    with pytest.raises(ContradictionError, match=r"model\.safetensors") as refused:
        reread(blobs, manifest)
    assert max(blobs.lengths) < 1000
    (fault,) = refused.value.faults
    assert fault.pointer == "/files/1"


@one_kind
@pytest.mark.parametrize("grown", [1, -1, -20])
def test_weights_longer_or_shorter_than_their_header_says_are_refused(registry, stored, skeleton, grown):
    files = skeleton()
    weights = files["model.safetensors"]
    files["model.safetensors"] = weights + b"x" * grown if grown > 0 else weights[:grown]
    with pytest.raises(ContradictionError, match=r"model\.safetensors: the file is not as long"):
        reread(registry.blobs, stored(files))


@one_kind
def test_every_wrong_file_is_named_at_once(registry, stored, skeleton):
    gap = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    gapped = len(gap).to_bytes(8, "little") + gap + b"12"
    files = {**skeleton(), "a.safetensors": b"no", "deep/b.safetensors": gapped}
    manifest = stored(files, {"config.json": {"size": 5}})
    with pytest.raises(ContradictionError) as refused:
        reread(registry.blobs, manifest)
    assert [(one.pointer, one.actual) for one in refused.value.faults][1] == ("/files/1/size", "5 bytes")
    assert [one.pointer for one in refused.value.faults] == ["/files/0", "/files/1/size", "/files/2"]
    assert "deep/b.safetensors" in refused.value.message
    assert "drafters-" not in repr(refused.value.faults) + refused.value.message


@one_kind
def test_messages_of_the_reader_name_the_versions_own_paths(registry, stored, skeleton):
    for broken in (b"not json", b"[]", b'{"a":' * 100_000):
        with pytest.raises(ContradictionError, match=r"config\.json") as refused:
            reread(registry.blobs, stored({**skeleton(), "config.json": broken}))
        assert "/" not in refused.value.message.split("config.json")[0]
        assert refused.value.faults[0].source in ("config.json", "")


def test_a_config_over_its_cap_is_refused_unread(registry, stored, skeleton):
    large = b'{"a":"' + b"x" * contract_limits.config_max_bytes + b'"}'
    blobs = Reads(registry.blobs)
    with pytest.raises(ContradictionError, match=r"config\.json: too large"):
        reread(blobs, stored({**skeleton(), "config.json": large}))
    assert max(blobs.lengths) < contract_limits.config_max_bytes


@one_kind
@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_drafter_needs_a_config_and_weights(registry, stored, skeleton, missing):
    files = skeleton()
    del files[missing]
    with pytest.raises(IncompleteError, match="listed"):
        reread(registry.blobs, stored(files))


@one_kind
def test_all_pickles_are_named(registry, stored, skeleton):
    extra = dict.fromkeys(["pytorch_model.bin", "training_args.bin", "x/optimizer.PT", "a.npy", "b.pkl"], b"text")
    with pytest.raises(IncompleteError) as refused:
        reread(registry.blobs, stored({**skeleton(), **extra}))
    assert {one.actual for one in refused.value.faults} == set(extra)


@one_kind
@pytest.mark.parametrize(
    "data", [b"\x80\x02}q\x00.", b"\x80\x05\x95", b"PK\x03\x04archive/data.pkl", b"\x93NUMPY\x01\x00"]
)
def test_a_pickle_under_another_name_is_known_by_its_first_bytes(registry, stored, skeleton, data):
    with pytest.raises(IncompleteError, match=r"notes\.txt is not stored: by its first bytes"):
        reread(registry.blobs, stored({**skeleton(), "notes.txt": data}))


@one_kind
def test_text_and_empty_files_are_no_pickles(registry, stored, skeleton):
    extra = {"LICENSE": b"", "a.txt": b"PK", "b.md": "ÄÖ".encode(), "c.gguf": b"GGUF\x03\x00\x00\x00"}
    assert reread(registry.blobs, stored({**skeleton(), **extra})).tensors


@one_kind
def test_every_shard_that_is_not_listed_is_named(registry, stored, skeleton):
    files = skeleton(shards=True)
    index = json.loads(files["model.safetensors.index.json"])
    index["weight_map"] |= {"a": "gone-1.safetensors", "b": "gone-2.safetensors", "c": "../x.safetensors"}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    with pytest.raises(IncompleteError, match="3 shards that are not listed") as refused:
        reread(registry.blobs, stored(files))
    assert {one.expected for one in refused.value.faults} == {
        "gone-1.safetensors",
        "gone-2.safetensors",
        "../x.safetensors",
    }


def test_every_blob_that_is_not_stored_is_named(registry, stored, skeleton):
    files = {**skeleton(), "README.md": b"words"}
    manifest = stored(files, without=("README.md", "model.safetensors"))
    with pytest.raises(IncompleteError) as refused:
        reread(registry.blobs, manifest)
    expected = {f"sha256:{one.sha256}" for one in manifest.files if one.path != "config.json"}
    assert {one.expected for one in refused.value.faults} == expected


def elsewhere(files, stored, *, header=None, size=None):
    """A manifest whose weights stay elsewhere: only their header is stored, as a file of another name."""
    weights = files["model.safetensors"]
    length = 8 + int.from_bytes(weights[:8], "little")
    kept = stored({**files, "model.safetensors": weights[:length] if header is None else header(weights, length)})
    (i,) = [i for i, one in enumerate(kept.files) if one.path == "model.safetensors"]
    record = FileRecord(
        path="model.safetensors",
        size=len(weights) if size is None else size,
        sha256="1" * 64,
        elsewhere="hf://org/repo@" + "2" * 40 + "/model.safetensors",
        header_sha256=kept.files[i].sha256,
    )
    return msgspec.structs.replace(kept, files=(*kept.files[:i], record, *kept.files[i + 1 :]))


def test_of_weights_elsewhere_the_stored_header_is_read(registry, stored, skeleton):
    files = skeleton()
    assert reread(registry.blobs, elsewhere(files, stored)) == reread(registry.blobs, stored(files))


@one_kind
@pytest.mark.parametrize(
    ("header", "size"),
    [
        (lambda weights, length: weights[: length + 1], None),
        (lambda weights, length: weights[: length - 1], None),
        (lambda weights, length: weights[:4], None),
        (None, 10_000),
        (None, 9),
    ],
)
def test_a_header_that_cannot_be_of_that_file_is_refused(registry, stored, skeleton, header, size):
    with pytest.raises(ContradictionError, match=r"model\.safetensors"):
        reread(registry.blobs, elsewhere(skeleton(), stored, header=header, size=size))


@one_kind
def test_a_full_or_missing_temporary_directory_is_not_the_drafters_fault(registry, stored, skeleton, monkeypatch):
    manifest = stored(skeleton())
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", "/nonexistent")
        with pytest.raises(UnavailableError, match="temporary files"):
            reread(registry.blobs, manifest)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.skeleton, "build", full)
    with pytest.raises(StorageFullError, match="temporary files"):
        reread(registry.blobs, manifest)


# What configs hold that JSON does not -------------------------------------------------------------------------------


@one_kind
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "[0.0, -Infinity]", "123456789012345678901234567890", '"\\u0000"', '"ÄÖ"', "1e308"]
)
def test_facts_survive_being_stored(registry, stored, skeleton, value):
    files = skeleton()
    files["config.json"] = files["config.json"].rstrip()[:-1] + f', "odd": {value}}}'.encode()
    facts = reread(registry.blobs, stored(files))
    again = decode_facts(encode_facts(facts))
    assert repr(again) == repr(facts)
    assert repr(again.config["odd"]) == repr(json.loads(value))


@one_kind
def test_half_a_surrogate_pair_is_refused(registry, stored, skeleton):
    files = skeleton()
    files["config.json"] = files["config.json"].rstrip()[:-1] + b', "odd": "\\ud800"}'
    with pytest.raises((IncompleteError, ContradictionError), match=r"config\.json"):
        encode_facts(reread(registry.blobs, stored(files)))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "EAGLE3", "LlamaForCausalLMEagle3", "yarn", "bfloat16", "midlayer", "\0", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "layers", "0"]), inner),
    max_leaves=6,
)
KEYS = [
    *("architectures", "model_type", "hidden_size", "target_hidden_size", "vocab_size", "draft_vocab_size"),
    *("num_hidden_layers", "num_target_layers", "eagle_config", "dflash_config", "rope_scaling", "rope_parameters"),
    *("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids", "block_size"),
    *("quantization_config", "transformer_layer_config", "speculators_config", "torch_dtype", "mask_token_id"),
    *("norm_before_fc", "fc_norm", "tie_word_embeddings", "max_position_embeddings", "draft_model_config"),
    *("text_config", "medusa_num_heads", "num_nextn_predict_layers", "speculators_model_type", "aux_layer_ids"),
]


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
@one_kind
def test_no_config_raises_anything_but_a_refusal(registry, stored, skeleton_bytes, recorded, config):
    files = {**skeleton_bytes, "config.json": json.dumps(config).encode()}
    try:
        facts = reread(registry.blobs, stored(files))
    except (ContradictionError, IncompleteError):
        return
    assert repr(decode_facts(encode_facts(facts))) == repr(facts)
    contradictions(recorded, facts)


@pytest.fixture
def recorded(drafter):
    return drafter().manifest


@pytest.fixture
def skeleton_bytes(skeleton):
    return skeleton()


# Facts that another reader stored -----------------------------------------------------------------------------------


def test_facts_of_this_reader_are_not_read_again(registry, publish, drafter, monkeypatch):
    publish(drafter())
    monkeypatch.setattr(module, "reread", None)
    with registry.database.read() as connection:
        row = find(connection, Reference("tiny-eagle3", version="1.0.0"))
        facts = facts_of(registry, connection, row)
    assert isinstance(facts, DrafterFacts)
    assert row.facts_by == reader()
    assert facts.path == "tiny-eagle3@1.0.0"


def test_facts_of_another_reader_are_read_again_once(registry, publish, drafter, monkeypatch):
    publish(drafter())
    with registry.database.read() as connection:
        row = find(connection, Reference("tiny-eagle3", version="1.0.0"))
        stored_facts = facts_of(registry, connection, row)
        blobs = Reads(registry.blobs)
        other = msgspec.structs.replace(registry, blobs=blobs)
        monkeypatch.setattr(module, "reader", lambda: "another")
        monkeypatch.setattr(module, "_again", OrderedDict())
        assert facts_of(other, connection, row) == stored_facts
        asked = len(blobs.lengths)
        assert asked
        assert facts_of(other, connection, row) == stored_facts
        assert len(blobs.lengths) == asked


def test_facts_that_cannot_be_read_again_are_a_fault_of_the_store(registry, publish, drafter, monkeypatch):
    made = drafter(steps=7)
    publish(made)
    for record in made.manifest.files:
        registry.blobs.delete("sha256:" + record.sha256)
    with registry.database.read() as connection:
        row = find(connection, Reference("tiny-eagle3", version="1.0.0"))
        monkeypatch.setattr(module, "reader", lambda: "another")
        monkeypatch.setattr(module, "_again", OrderedDict())
        with pytest.raises(IntegrityError, match="cannot be read again"):
            facts_of(registry, connection, row)
    with pytest.raises(NotFoundError):
        registry.blobs.read("sha256:" + made.manifest.files[0].sha256, 0, 1)
