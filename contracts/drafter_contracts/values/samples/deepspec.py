"""DeepSpec's target cache: manifest.json, samples.idx and shards (deepspec/data/target_cache_dataset.py, version 2).

A record of the index is `<QIIQQQQQ`: sample, shard, tokens, then the offsets in the shard of input_ids (int32),
attention_mask, loss_mask (both uint8), target_hidden_states [T, k*H] and target_last_hidden_states [T, H].
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import msgspec
import torch

from drafter_contracts import limits
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError, SampleError
from drafter_contracts.layout import FINAL_NORM
from drafter_contracts.values.records import DEEPSPEC, Sample
from drafter_contracts.values.samples.fields import Fields
from drafter_contracts.values.samples.mapped import MappedFile, as_sample_error, open_sample

MANIFEST = "manifest.json"
INDEX = "samples.idx"
VERSION = 2
RECORD = struct.Struct("<QIIQQQQQ")

# DeepSpec itself writes the first three.
_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float16": torch.float16,
    "float32": torch.float32,
}


class _Shard(msgspec.Struct):
    shard_id: int
    file_name: str


class _Manifest(msgspec.Struct):
    version: int
    num_samples: int
    num_shards: int
    target_layer_ids: list[int]
    hidden_dtype: str
    token_dtype: str
    mask_dtype: str
    index_record_size: int
    hidden_size: int
    shards: list[_Shard]


def is_cache(folder: str) -> bool:
    """Whether a folder is such a cache."""
    return all(os.path.isfile(os.path.join(folder, name)) for name in (MANIFEST, INDEX))


def cache_files(folder: str) -> tuple[str, ...]:
    """Names of a cache's files: manifest, index, shards.

    Raises:
        SampleError: As `read_cache`.
    """
    return (MANIFEST, INDEX, *(shard.file_name for shard in _read_manifest(folder).shards))


def read_cache(folder: str) -> Iterator[Sample]:
    """Every sample of a cache, in the order of its index.

    Args:
        folder: The cache.

    Raises:
        SampleError: A manifest of another version or with fields that do not fit, an index of another length, a shard
            that is missing or too short.
    """
    manifest = _read_manifest(folder)
    index = os.path.join(folder, INDEX)
    file, size = open_sample(index)
    with file:
        if size != manifest.num_samples * RECORD.size:
            raise SampleError(
                "the index is not as long as the manifest says",
                where=index,
                expected=f"{manifest.num_samples} records of {RECORD.size} bytes",
                actual=f"{size} bytes",
            )
        shard: tuple[int, MappedFile] | None = None
        for number in range(manifest.num_samples):
            record = RECORD.unpack(file.read(RECORD.size).ljust(RECORD.size, b"\xff"))
            if record[0] != number or record[1] >= len(manifest.shards):
                raise SampleError(
                    f"record {number} of the index is of another sample, or of no shard",
                    where=index,
                    expected=f"sample {number} in shards 0 to {len(manifest.shards) - 1}",
                    actual=f"sample {record[0]} in shard {record[1]}",
                )
            if shard is None or shard[0] != record[1]:
                shard = record[1], _map(os.path.join(folder, manifest.shards[record[1]].file_name))
            yield _sample(folder, manifest, shard[1], record)


def _map(path: str) -> MappedFile:
    file, _ = open_sample(path)
    with file:
        return MappedFile(file, path)


def _sample(folder: str, manifest: _Manifest, shard: MappedFile, record: tuple[int, ...]) -> Sample:
    number, _, tokens, *offsets = record
    if not 1 <= tokens <= limits.sample_max_tokens:
        raise SampleError(
            f"sample {number} has no tokens, or too many",
            where=os.path.join(folder, INDEX),
            expected=f"1 to {limits.sample_max_tokens}",
            actual=str(tokens),
        )
    dtype, width = _DTYPES[manifest.hidden_dtype], manifest.hidden_size
    parts = (
        ("input_ids", (tokens,), torch.int32),
        ("attention_mask", (tokens,), torch.uint8),
        ("loss_mask", (tokens,), torch.uint8),
        ("target_hidden_states", (tokens, len(manifest.target_layer_ids) * width), dtype),
        ("target_last_hidden_states", (tokens, width), dtype),
    )
    content = {
        name: shard.tensor(offset, shape, kind, f"sample {number}: {name}")
        for (name, shape, kind), offset in zip(parts, offsets, strict=True)
    }
    fields = Fields(content, f"{folder}#{number}")
    fields.take_tokens("input_ids")
    fields.cut("attention_mask")
    block, last = fields.state("target_hidden_states"), fields.state("target_last_hidden_states")
    mask = fields.loss_mask()
    fields.finish()
    return Sample(
        path=folder,
        entry=str(number),
        format=DEEPSPEC,
        tokens=fields.tokens,
        blocks=() if block is None else (block,),
        last=last,
        last_norm=FINAL_NORM,
        loss_mask=mask,
        labels=tuple(manifest.target_layer_ids),
        label_source=f"{MANIFEST}: target_layer_ids",
    )


def _read_manifest(folder: str) -> _Manifest:
    path = os.path.join(folder, MANIFEST)
    try:
        manifest = msgspec.json.decode(read_capped(path, limits.index_max_bytes), type=_Manifest)
    except CheckpointError as error:
        raise as_sample_error(error) from None
    except msgspec.MsgspecError as error:
        raise SampleError("not a manifest of a DeepSpec cache", where=path, actual=str(error)) from None
    dtypes = (manifest.token_dtype, manifest.mask_dtype)
    facts = (
        ("version", manifest.version == VERSION, str(VERSION), manifest.version),
        ("index_record_size", manifest.index_record_size == RECORD.size, str(RECORD.size), manifest.index_record_size),
        ("hidden_dtype", manifest.hidden_dtype in _DTYPES, ", ".join(_DTYPES), manifest.hidden_dtype),
        ("token_dtype, mask_dtype", dtypes == ("int32", "uint8"), "int32, uint8", ", ".join(dtypes)),
        ("hidden_size", 1 <= manifest.hidden_size <= 1 << 20, "1 to 1048576", manifest.hidden_size),
        ("num_samples", manifest.num_samples >= 1, "at least 1", manifest.num_samples),
        (
            "target_layer_ids",
            1 <= len(manifest.target_layer_ids) <= limits.layout_max_taps,
            f"1 to {limits.layout_max_taps} ids",
            len(manifest.target_layer_ids),
        ),
        ("num_shards", manifest.num_shards == len(manifest.shards) > 0, "as many as shards", manifest.num_shards),
        (
            "shards",
            all(shard.shard_id == place and _plain(shard.file_name) for place, shard in enumerate(manifest.shards)),
            "ids 0, 1 and so on, file names without a folder",
            [(shard.shard_id, shard.file_name) for shard in manifest.shards[:4]],
        ),
    )
    wrong = [(key, expected, actual) for key, fits, expected, actual in facts if not fits]
    if wrong:
        raise SampleError(
            f"the manifest does not fit: {', '.join(key for key, _, _ in wrong)}",
            where=path,
            expected="; ".join(f"{key}: {expected}" for key, expected, _ in wrong),
            actual="; ".join(f"{key}: {actual}" for key, _, actual in wrong),
        )
    return manifest


def _plain(name: str) -> bool:
    return bool(name) and name == os.path.basename(name) and "\0" not in name and name not in {".", ".."}
