"""Damaged, hostile and odd files: refused with what is wrong, never a traceback, never code that runs."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making.formats import write
from safetensors.torch import save_file

from drafter_contracts import limits
from drafter_contracts.errors import SampleError
from drafter_contracts.values import records
from drafter_contracts.values.samples import check_states, file_sha256, read_samples

TOKENS = list(range(5))
#: A file of each container, and each file of a cache.
CONTAINERS = ("zip", "gz", "legacy", "safetensors", "manifest.json", "samples.idx", "shard-00000.bin")


def states_of(rows=5, taps=3):
    return [torch.randn(rows, 8, generator=torch.Generator().manual_seed(tap)) for tap in range(taps)]


def refused(path, **options):
    with pytest.raises(SampleError) as caught:
        list(read_samples(str(path), **options))
    assert caught.value.diagnostics()
    return caught.value


def saved(tmp_path, content, name="x.pt"):
    path = str(tmp_path / name)
    torch.save(content, path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A path to read and the file of it that is damaged, by container."""
    folder = str(tmp_path_factory.mktemp("whole"))
    last = torch.ones(5, 8)
    made = {
        "zip": write(records.SPECFORGE_EAGLE3, folder, TOKENS, states_of(), last, name="zip"),
        "gz": write(records.SPECFORGE_EAGLE3, folder, TOKENS, states_of(), last, name="gz", gz=True),
        "legacy": write(records.TENSORRT_LLM, folder, TOKENS, states_of(), last, name="legacy", legacy=True),
        "safetensors": write(records.PLAIN, folder, TOKENS, states_of(), last, name="plain"),
    }
    paths = {name: (path, path) for name, path in made.items()}
    cache = write(records.DEEPSPEC, folder, TOKENS, states_of(), last, name="cache")
    for name in CONTAINERS[4:]:
        paths[name] = (cache, os.path.join(cache, name))
    return paths


@pytest.mark.parametrize("container", CONTAINERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_are_refused_or_harmless(files, container, data):
    path, damaged = files[container]
    with open(damaged, "rb") as file:
        whole = file.read()
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        kind = data.draw(st.sampled_from(["change", "cut", "drop", "add", "huge"]))
        if kind == "change":
            content[at : at + 1] = bytes([data.draw(st.integers(0, 255))])
        elif kind == "cut":
            del content[at:]
        elif kind == "drop":
            del content[at : at + data.draw(st.integers(1, 16))]
        elif kind == "add":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            content[at : at + 8] = data.draw(st.sampled_from([b"\xff" * 8, (1 << 40).to_bytes(8, "little")]))
    try:
        with open(damaged, "wb") as file:
            file.write(content)
        with contextlib.suppress(SampleError):
            for sample in read_samples(path):
                check_states(sample.blocks, path, tokens=sample.tokens)
    finally:
        with open(damaged, "wb") as file:
            file.write(whole)


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_cut_is_refused(files, container):
    path, damaged = files[container]
    with open(damaged, "rb") as file:
        whole = file.read()
    try:
        for length in {0, 1, 7, 8, 9, 20, *range(0, len(whole), 41), len(whole) - 1}:
            with open(damaged, "wb") as file:
                file.write(whole[:length])
            refused(path)
    finally:
        with open(damaged, "wb") as file:
            file.write(whole)


class Attack:
    """Would make a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("packing", ["zip", "legacy", "gz"])
def test_a_pickle_that_needs_more_is_refused_by_name_and_not_run(tmp_path, packing):
    content = {"input_ids": torch.arange(3), "hidden_states": torch.randn(3, 8), "x": Attack(str(tmp_path / "ran"))}
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=packing != "legacy")
    data = gzip.compress(buffer.getvalue()) if packing == "gz" else buffer.getvalue()
    (tmp_path / "x.pt").write_bytes(data)
    error = refused(tmp_path / "x.pt")
    assert "io.open" in error.message
    assert "not loaded" in error.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (bytearray(b"x"), "bytearray"),
        (torch.nn.Parameter(torch.ones(2)), "_rebuild_parameter"),
        (torch.ones(2).to_sparse(), "_rebuild_sparse_tensor"),
        ({1, 2}, "set"),
    ],
)
def test_what_states_do_not_need_is_refused_even_if_torch_would_load_it(tmp_path, value, name):
    error = refused(saved(tmp_path, {"input_ids": torch.arange(3), "x": value}))
    assert name in error.actual


def zip_of(tmp_path, parts, **options):
    path = tmp_path / "made.pt"
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def test_zip_files_that_torch_did_not_write(tmp_path):
    assert "not one of torch.save" in refused(zip_of(tmp_path, {"a/b": b"x"})).message
    pickled = pickle.dumps({}, protocol=2)
    assert "not one of torch.save" in refused(zip_of(tmp_path, {"a/data.pkl": pickled, "b/data.pkl": pickled})).message
    bomb = zip_of(tmp_path, {"a/data.pkl": b"\0" * 1_000_000}, compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in refused(bomb).message
    newer = pickle.dumps({"input_ids": OrderedName()}, protocol=4)
    assert refused(zip_of(tmp_path, {"a/data.pkl": newer})).actual == "STACK_GLOBAL"


class OrderedName:
    """Something with a name of its own."""


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path):
    good = saved(tmp_path, {"input_ids": torch.arange(3), "hidden_states": torch.randn(3, 7)})
    with zipfile.ZipFile(good) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    key = next(name for name in parts if name.endswith("data.pkl"))
    assert parts[key].count(b"K\x03K\x07\x86") == 1
    for rows in (b"K\x04", b"J\xff\xff\xff\x7f"):
        changed = {**parts, key: parts[key].replace(b"K\x03K\x07\x86", rows + b"K\x07\x86")}
        refused(zip_of(tmp_path, changed))
    wide = {"input_ids": torch.arange(3), "hidden_states": torch.randn(1, 1).expand(3, 1 << 40)}
    assert "no more elements than the file has" in refused(saved(tmp_path, wide)).expected


def test_limits(tmp_path, monkeypatch):
    path = write(records.MODELOPT, str(tmp_path), TOKENS, states_of())
    packed = write(records.SPECFORGE_DFLASH, str(tmp_path), TOKENS, states_of(), gz=True)
    old = write(records.SPECFORGE_DFLASH, str(tmp_path), TOKENS, states_of(), name="old", legacy=True)
    listed = saved(tmp_path, [{"hidden_state": 1}, {"hidden_state": 1}])
    monkeypatch.setattr(limits, "sample_unpacked_max_bytes", 100)
    assert "unpacks to too much" in refused(packed).message
    assert "too large to be rewritten" in refused(old).message
    monkeypatch.setattr(limits, "sample_unpacked_max_bytes", 1 << 20)
    monkeypatch.setattr(limits, "sample_max_entries", 1)
    assert "too many in one file" in refused(listed).message
    monkeypatch.setattr(limits, "sample_max_tokens", 4)
    assert "1 to 4 tokens" in refused(path).expected
    assert "too many" in refused(write(records.DEEPSPEC, str(tmp_path), TOKENS, states_of(), name="cache")).message
    monkeypatch.setattr(limits, "sample_pickle_max_bytes", 100)
    assert "the pickle is too large" in refused(path).message
    assert "more than 100 bytes" in refused(old).actual
    monkeypatch.setattr(limits, "sample_directory_max_bytes", 100)
    assert "its directory would have" in refused(path).actual


def test_a_storage_of_the_old_container_that_has_another_length_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    content = {"input_ids": torch.arange(3), "hidden_states": torch.randn(3, 77)}
    torch.save(content, str(path), _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    assert whole.count((231).to_bytes(8, "little")) == 1
    path.write_bytes(whole.replace((231).to_bytes(8, "little"), (230).to_bytes(8, "little")))
    error = refused(path)
    assert (error.expected, error.actual) == ("231 elements", "230")


def test_a_huge_header_is_not_read(tmp_path):
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as file:
        file.write((1 << 31).to_bytes(8, "little") + b"{")
        file.truncate(3 << 30)
    assert "header is too large" in refused(path).message


BASE = {"input_ids": torch.arange(5), "loss_mask": torch.ones(5), "hidden_state": torch.randn(1, 5, 8)}
AUX = torch.randn(1, 5, 24)


@pytest.mark.parametrize(
    ("changes", "keys", "expected", "actual"),
    [
        ({"aux_hidden_state": AUX[:, :4]}, "aux_hidden_state", "5 rows, as there are tokens", "float32 [4, 24]"),
        ({"aux_hidden_state": AUX[..., :23]}, "aux_hidden_state", "a multiple of the last state's width, 8", "[5, 23]"),
        ({"aux_hidden_state": AUX.bfloat16()}, "aux_hidden_state", "float32", "bfloat16 [5, 24]"),
        ({"aux_hidden_state": AUX.double()}, "aux_hidden_state", "float8_e5m2", "float64 [5, 24]"),
        ({"aux_hidden_state": AUX.expand(2, 5, 24)}, "aux_hidden_state", "2 dimensions", "float32 [2, 5, 24]"),
        ({"aux_hidden_state": None}, "aux_hidden_state", "a tensor of 2 dimensions", "nothing"),
        ({"aux_hidden_state": "x"}, "aux_hidden_state", "a tensor of 2 dimensions", "a str"),
        ({"aux_hidden_state": AUX[..., :0]}, "aux_hidden_state", "a width", "float32 [5, 0]"),
        ({"hidden_state": None}, "hidden_state", "a tensor of 2 dimensions", "nothing"),
        ({"input_ids": torch.arange(5.0)}, "input_ids", "integers", "float32 [5]"),
        ({"input_ids": torch.arange(5) - 2}, "input_ids", "token ids from 0", "-2"),
        ({"input_ids": torch.arange(0)}, "input_ids", "tokens", "0"),
        ({"input_ids": []}, "input_ids", "a tensor of 1 dimensions", "a list of 0"),
        ({"input_ids": [1, 2, 3, 4, 1 << 70]}, "input_ids", "a tensor of 1 dimensions", "a list of 5"),
        ({"input_ids": [1, 2]}, "hidden_state", "2 rows, as there are tokens", "float32 [5, 24]"),
        ({"token_ids": torch.arange(5)}, "tokens", "one of input_ids", "input_ids and token_ids"),
        ({"loss_mask": torch.ones(4)}, "loss_mask", "[5]", "float32 [4]"),
        ({"loss_mask": torch.ones(5, 2)}, "loss_mask", "1 dimensions", "float32 [5, 2]"),
        ({"target_hiddens": torch.ones(5, 8)}, "fields of two formats", "one of", "aux_hidden_state, target_hiddens"),
    ],
)
def test_every_field_that_does_not_fit_is_named(tmp_path, changes, keys, expected, actual):
    error = refused(saved(tmp_path, {**BASE, "aux_hidden_state": AUX, **changes}))
    assert error.where.endswith("x.pt")
    assert keys in error.message
    assert expected in error.expected
    assert actual in error.actual


def test_all_of_them_at_once(tmp_path):
    content = {"input_ids": torch.arange(5), "aux_hidden_state": AUX[:, :3], "hidden_state": AUX[:, :2, :8]}
    error = refused(saved(tmp_path, {**content, "loss_mask": torch.ones(9)}))
    assert error.message == "what the file holds does not fit: aux_hidden_state, hidden_state, loss_mask"
    assert error.actual == "aux_hidden_state: float32 [3, 24]; hidden_state: float32 [2, 8]; loss_mask: float32 [9]"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"input_ids": torch.arange(2), "hidden_states": [torch.ones(2, 4)]}, "2 to 257 states"),
        ({"input_ids": torch.arange(2), "hidden_states": [torch.ones(2, 4), torch.ones(2, 5)]}, "float32 [2, 4]"),
        ({"token_ids": torch.arange(2), "hidden_states": torch.ones(2, 300, 4)}, "1 to 257 states"),
        ({"token_ids": torch.arange(2), "hidden_states": torch.ones(3, 3, 4)}, "2 rows, as there are tokens"),
        (
            {"input_ids": torch.arange(2), "hidden_states": torch.ones(2, 4), "aux_hidden_states": torch.ones(0)},
            "2 dim",
        ),
        ([{"input_ids": torch.arange(2), "hidden_state": torch.ones(2, 4)}], "a tensor of 2 dimensions"),
        ([{"hidden_state": torch.ones(2, 4)}, 5], "one of input_ids, token_ids, tokens"),
    ],
)
def test_shapes_of_the_other_formats(tmp_path, content, expected):
    assert expected in refused(saved(tmp_path, content)).expected


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ({"aux.0": torch.ones(2, 4), "aux.2": torch.ones(2, 4)}, "none left out"),
        ({"aux.0": torch.ones(2, 4), "aux.1": torch.ones(2, 5)}, "aux.1: float32 [2, 4]"),
        ({"aux.0": torch.ones(2, 4), "hidden_states": torch.ones(2, 4)}, "one of the three"),
        ({"aux.0": torch.ones(2, 4), "boundary.3": torch.ones(2, 4)}, "one of the three"),
        ({"boundary.3": torch.ones(2, 4), "last": torch.ones(2, 3)}, "a multiple of the last state's width, 3"),
        ({"hidden_states": torch.ones(2, 4), "odd": torch.ones(2, dtype=torch.complex64)}, "F32, F16, BF16"),
    ],
)
def test_shapes_of_plain_files(tmp_path, tensors, expected):
    path = str(tmp_path / "x.safetensors")
    save_file({"tokens": torch.arange(2), **tensors}, path)
    assert expected in refused(path).expected


@pytest.mark.parametrize(
    "content",
    [5, "text", [], [5], {}, {"input_ids": torch.arange(3)}, {"hidden_states": torch.ones(3, 8)}, {"a": {"b": [{}]}}],
)
def test_what_is_no_sample_is_said_to_be_none(tmp_path, content):
    error = refused(saved(tmp_path, content))
    assert error.message.startswith("not a sample of recorded states")
    assert "specforge eagle3" in error.expected


def test_files_that_are_no_container(tmp_path):
    for name, data in (("a", b"hello world"), ("b", b"\0"), ("c", gzip.compress(gzip.compress(b"x" * 99)))):
        (tmp_path / name).write_bytes(data)
        refused(tmp_path / name)
    (tmp_path / "empty").write_bytes(b"")
    assert "empty" in refused(tmp_path / "empty").message
    assert "cannot be opened" in refused(tmp_path / "nowhere").message
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe").message
    with pytest.raises(SampleError, match="cannot be opened"):
        file_sha256(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": 3}, "version: 2"),
        ({"hidden_dtype": "int4", "hidden_size": 0}, "hidden_size: 1 to"),
        ({"token_dtype": "int64"}, "int32, uint8"),
        ({"index_record_size": 64}, "index_record_size: 56"),
        ({"target_layer_ids": []}, "target_layer_ids: 1 to"),
        ({"num_samples": 0}, "num_samples: at least 1"),
        ({"num_samples": 2}, "2 records of 56 bytes"),
        ({"num_shards": 2}, "num_shards"),
        ({"shards": [{"shard_id": 0, "file_name": "../shard-00000.bin"}]}, "file names without a folder"),
        ({"shards": [{"shard_id": 1, "file_name": "shard-00000.bin"}]}, "ids 0, 1 and so on"),
        ({"hidden_size": 1 << 20}, "at most"),
    ],
)
def test_a_manifest_of_a_cache_that_does_not_fit(tmp_path, change, expected):
    path = write(records.DEEPSPEC, str(tmp_path), TOKENS, states_of(), name="cache")
    with open(f"{path}/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    (tmp_path / "cache" / "manifest.json").write_text(json.dumps({**manifest, **change}))
    assert expected in refused(path).expected


def test_records_of_a_cache_that_do_not_fit(tmp_path):
    path = write(records.DEEPSPEC, str(tmp_path), TOKENS, states_of(), name="cache")
    index = tmp_path / "cache" / "samples.idx"
    whole = index.read_bytes()
    index.write_bytes(b"\1" + whole[1:])
    assert refused(path).actual == "sample 1 in shard 0"
    index.write_bytes(whole[:8] + b"\1" + whole[9:])
    assert refused(path).actual == "sample 0 in shard 1"
    index.write_bytes(whole[:12] + bytes(4) + whole[16:])
    assert "no tokens" in refused(path).message
    index.write_bytes(whole[:48] + b"\xff" * 8)
    assert "target_last_hidden_states does not lie inside the file" in refused(path).message
    os.unlink(f"{path}/shard-00000.bin")
    assert "cannot be opened" in refused(path).message
