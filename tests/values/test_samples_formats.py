"""Every format read back: what was written, in its dtype, with what the format promises about the last state."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making.formats import INDEX_RECORD, raw, wide, write

from drafter_contracts.errors import SampleError
from drafter_contracts.values import records
from drafter_contracts.values.samples import file_sha256, read_samples

WIDTH = 8
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, *FP8)
#: What each promises about the state it keeps beside those that feed fc; None: it keeps none there.
NORMS = {
    records.SPECULATORS_V0: "final_norm",
    records.SPECULATORS_V1: "residual",
    records.STACKED: None,
    records.SPECFORGE_EAGLE3: "final_norm",
    records.SPECFORGE_DFLASH: None,
    records.SPECFORGE_DSPARK: "final_norm",
    records.MODELOPT: "",
    records.TENSORRT_LLM: "final_norm",
    records.ANGELSLIM: "final_norm",
    records.DEEPSPEC: "final_norm",
    records.PLAIN: "",
}
SAVED = tuple(name for name in records.FORMATS if name not in (records.STACKED, records.PLAIN, records.DEEPSPEC))


def states_of(rows, taps=3, seed=0, width=WIDTH):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, width, generator=generator) for _ in range(taps)]


def only(path, **options):
    (sample,) = read_samples(path, **options)
    return sample


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and raw(one) == raw(other)


def test_every_format_has_a_promise():
    assert set(NORMS) == set(records.FORMATS)


@pytest.mark.parametrize("name", records.FORMATS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 9),
    taps=st.integers(1, 5),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_what_was_written_is_read(tmp_path, name, rows, taps, dtype, seed):
    states, last = states_of(rows, taps, seed), states_of(rows, 1, seed + 1000)[0]
    tokens = torch.randint(0, 50_000, (rows,), generator=torch.Generator().manual_seed(seed))
    mask = (tokens % 2).to(torch.int64)
    path = write(
        name, str(tmp_path / f"{name}-{rows}-{taps}-{dtype}-{seed}"), tokens, states, last, dtype=dtype, loss_mask=mask
    )
    sample = only(path)
    assert (sample.format, sample.path, sample.dtype) == (name, path, dtype)
    assert sample.tokens.dtype == torch.int64
    assert sample.tokens.tolist() == tokens.tolist()
    split = sample.split(WIDTH)
    inside = [*states, last] if name == records.STACKED else states
    assert sample.last_may_be_inside == (name == records.STACKED)
    assert len(split) == len(inside)
    assert all(same(read, made.to(dtype)) for read, made in zip(split, inside, strict=True))
    if NORMS[name] is None:
        assert sample.last is None
    else:
        assert same(sample.last, last.to(dtype))
        assert sample.last_norm == NORMS[name]
    if name in (records.STACKED, records.PLAIN, records.TENSORRT_LLM):
        assert sample.loss_mask is None
    else:
        assert sample.loss_mask.dtype == torch.bool
        assert sample.loss_mask.tolist() == mask.bool().tolist()
    shutil.rmtree(tmp_path / f"{name}-{rows}-{taps}-{dtype}-{seed}")


@pytest.mark.parametrize("container", [{"gz": True}, {"legacy": True}, {"gz": True, "legacy": True}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("name", SAVED)
def test_compressed_files_and_the_old_container_hold_the_same(tmp_path, name, dtype, container):
    states, last = states_of(4), states_of(4, 1, 7)[0]
    plain = only(write(name, str(tmp_path / "plain"), range(4), states, last, dtype=dtype))
    packed = only(write(name, str(tmp_path / "packed"), range(4), states, last, dtype=dtype, **container))
    assert packed.format == plain.format == name
    assert all(same(one, other) for one, other in zip(plain.blocks, packed.blocks, strict=True))
    assert packed.tokens.tolist() == plain.tokens.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", records.FORMATS)
def test_a_format_is_told_by_content_not_by_name(tmp_path, name):
    path = write(name, str(tmp_path), range(4), states_of(4), states_of(4, 1, 7)[0])
    elsewhere = str(tmp_path / "notes.txt")
    os.rename(path, elsewhere)
    assert only(elsewhere).format == name


def test_variants_of_the_formats(tmp_path):
    states, last, tokens = states_of(5), states_of(5, 1, 7)[0], torch.arange(5)
    flat = only(write(records.SPECFORGE_DFLASH, str(tmp_path / "a"), tokens, states, flattened=True))
    assert (flat.format, flat.last) == (records.SPECFORGE_DFLASH, None)
    for key in ("aux_hidden_states", "hidden_state_features"):
        one = only(write(records.TENSORRT_LLM, str(tmp_path / key), tokens, states, last, aux_key=key))
        assert same(one.blocks[0], wide(states))
        assert not one.last_may_be_inside
    inside = only(write(records.TENSORRT_LLM, str(tmp_path / "b"), tokens, [*states, last], last))
    assert inside.last_may_be_inside
    for flag, norm in ((True, "residual"), (False, "final_norm"), (torch.tensor(True), "residual")):
        path = write(records.MODELOPT, str(tmp_path / "c"), tokens, states, last, prenorm=flag)
        assert only(path).last_norm == norm
    block = only(write(records.ANGELSLIM, str(tmp_path / "d"), tokens, states, dflash=True))
    assert (block.format, block.last) == (records.ANGELSLIM, None)
    for kind in ("wide", "aux", "boundary"):
        plain = only(write(records.PLAIN, str(tmp_path / kind), tokens, states, plain=kind, labels=(2, 3, 10)))
        assert all(same(*pair) for pair in zip(plain.split(WIDTH), states, strict=True))
        assert plain.labels == ((2, 3, 10) if kind == "boundary" else ())
        assert len(plain.blocks) == (1 if kind == "wide" else 3)


def test_tensorrt_llms_names_after_modelopts_renaming(tmp_path):
    states, last = states_of(5), states_of(5, 1, 7)[0]
    path = str(tmp_path / "x.pt")
    torch.save({"input_ids": list(range(5)), "hidden_states": last, "hidden_state_features": wide(states)}, path)
    sample = only(path)
    assert (sample.format, sample.tokens.tolist()) == (records.MODELOPT, [0, 1, 2, 3, 4])
    assert same(sample.last, last)


def test_labels_beside_a_file_are_read_as_they_are_written(tmp_path):
    v1 = only(write(records.SPECULATORS_V1, str(tmp_path / "a"), range(4), states_of(4), labels=(2, 18, 33, 35)))
    assert (v1.labels, v1.label_source) == ((2, 18, 33, 35), "data_config.json: hidden_states.layer_ids")
    cache = only(write(records.DEEPSPEC, str(tmp_path / "b"), range(4), states_of(4), labels=(1, 9, 17)))
    assert (cache.labels, cache.label_source) == ((1, 9, 17), "manifest.json: target_layer_ids")
    unlabelled = write(records.SPECULATORS_V1, str(tmp_path / "c"), range(4), states_of(4))
    assert only(unlabelled).labels == ()
    (tmp_path / "c" / "data_config.json").write_text('{"version": "2.0"}')
    assert only(unlabelled).labels == ()
    (tmp_path / "c" / "data_config.json").write_text('{"hidden_states": {"layer_ids": ["2"]}}')
    with pytest.raises(SampleError, match="labels that cannot be read") as refused:
        only(unlabelled)
    assert refused.value.where.endswith("data_config.json")


def test_a_batch_is_as_many_samples_without_their_padding(tmp_path):
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    states, last = torch.randn(2, 4, 3 * WIDTH), torch.randn(2, 4, WIDTH)
    content = {"input_ids": tokens, "loss_mask": mask, "hidden_states": states, "target_hiddens": last}
    path = str(tmp_path / "batch.ckpt")
    torch.save(content, path)
    assert [(sample.entry, len(sample.tokens)) for sample in read_samples(path)] == [("0", 4), ("1", 4)]
    torch.save({**content, "attention_mask": mask}, path)
    first, second = read_samples(path)
    assert (len(first.tokens), second.tokens.tolist()) == (4, [9, 10])
    assert same(second.blocks[0], states[1, :2])
    assert same(second.last, last[1, :2])
    assert second.loss_mask.tolist() == [True, True]
    assert only(path, entry="1").tokens.tolist() == [9, 10]
    with pytest.raises(SampleError, match="no such entry") as refused:
        only(path, entry="2")
    assert (refused.value.expected, refused.value.actual) == ("2", "0, 1")
    torch.save({**content, "attention_mask": mask.flip(1)}, path)
    with pytest.raises(SampleError, match="attention_mask") as refused:
        list(read_samples(path))
    assert "#1" in refused.value.where


def test_a_list_of_requests_is_as_many_samples(tmp_path):
    parts = [
        {
            "id": n,
            "input_ids": torch.arange(n),
            "hidden_state": torch.randn(n, 8),
            "aux_hidden_states": torch.randn(n, 24),
        }
        for n in (3, 5)
    ]
    path = str(tmp_path / "data_20.pt")
    torch.save(parts, path)
    assert [(sample.entry, len(sample.tokens)) for sample in read_samples(path)] == [("0", 3), ("1", 5)]


def test_a_cache_of_several_shards(tmp_path):
    folder = write(records.DEEPSPEC, str(tmp_path), range(4), states_of(4), name="cache", dtype=torch.bfloat16)
    other = write(records.DEEPSPEC, str(tmp_path), range(9), states_of(9), name="other", dtype=torch.bfloat16)
    shutil.copy(f"{other}/shard-00000.bin", f"{folder}/shard-00001.bin")
    with open(f"{other}/samples.idx", "rb") as file:
        record = list(INDEX_RECORD.unpack(file.read()))
    record[:2] = 1, 1
    with open(f"{folder}/samples.idx", "ab") as file:
        file.write(INDEX_RECORD.pack(*record))
    with open(f"{folder}/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    manifest.update(num_samples=2, num_shards=2)
    manifest["shards"].append({"shard_id": 1, "file_name": "shard-00001.bin"})
    (tmp_path / "cache" / "manifest.json").write_text(json.dumps(manifest))
    samples = list(read_samples(folder))
    assert [(sample.entry, len(sample.tokens)) for sample in samples] == [("0", 4), ("1", 9)]
    assert same(samples[1].split(WIDTH)[2], states_of(9)[2].bfloat16())
    assert only(folder, entry="1").tokens.tolist() == list(range(9))


def test_a_folder_is_read_in_natural_order_and_other_files_are_passed_over(tmp_path):
    for number in (10, 2, 1):
        write(
            records.SPECFORGE_EAGLE3,
            str(tmp_path / "rows_0-5000"),
            range(number),
            states_of(number),
            name=f"data_{number}",
        )
    write(records.STACKED, str(tmp_path / "rows_5000-10000"), range(3), states_of(3), name="hs_0")
    write(records.PLAIN, str(tmp_path / ".hidden"), range(3), states_of(3))
    torch.save({"t2d": torch.ones(9), "d2t": torch.ones(4)}, str(tmp_path / "vocab_mapping.pt"))
    (tmp_path / "rows_0-5000" / "data_3.ckpt.lock").write_bytes(b"")
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "again").symlink_to(tmp_path / "rows_0-5000")
    names = [os.path.basename(sample.path) for sample in read_samples(str(tmp_path))]
    assert names == ["data_1.ckpt", "data_2.ckpt", "data_10.ckpt", "hs_0.safetensors"]


def test_a_folder_streams(tmp_path):
    for number in (1, 2):
        write(records.PLAIN, str(tmp_path), range(3), states_of(3), name=f"data_{number}")
    samples = read_samples(str(tmp_path))
    next(samples)
    (tmp_path / "data_2.safetensors").write_bytes(b"\x00" * 8 + b"{")
    with pytest.raises(SampleError, match="header") as refused:
        next(samples)
    assert refused.value.where.endswith("data_2.safetensors")


def test_a_folder_without_a_sample_says_so(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(SampleError, match="no sample of recorded states in this folder"):
        next(read_samples(str(tmp_path)))


def test_writing_to_a_view_never_reaches_the_file(tmp_path):
    for name in (records.PLAIN, records.MODELOPT, records.DEEPSPEC):
        path = write(name, str(tmp_path), range(3), states_of(3), name=name.replace(" ", ""))
        before = file_sha256(path)
        only(path).blocks[0].fill_(7)
        assert file_sha256(path) == before


def test_the_digest_of_a_cache_changes_with_any_of_its_files(tmp_path):
    path = write(records.DEEPSPEC, str(tmp_path), range(3), states_of(3), name="cache")
    seen = {file_sha256(path)}
    for name in ("manifest.json", "samples.idx", "shard-00000.bin"):
        with open(f"{path}/{name}", "ab") as file:
            file.write(b" ")
        seen.add(file_sha256(path))
    assert len(seen) == 4
    with pytest.raises(SampleError, match="a folder has no digest"):
        file_sha256(str(tmp_path))
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert file_sha256(str(empty)).startswith("e3b0c44298fc1c14")
