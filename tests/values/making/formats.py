"""Recorded states written in every format, as their producers write them (docs/samples.md names the sources)."""

from __future__ import annotations

import gzip
import json
import os
import struct

import torch
from safetensors.torch import save_file

from drafter_contracts.values import records

#: DeepSpec, `INDEX_RECORD_STRUCT`: sample, shard, length, then the offsets of the five tensors.
INDEX_RECORD = struct.Struct("<QIIQQQQQ")


def write(
    format: str,  # noqa: A002
    folder: str,
    tokens,
    states,
    last=None,
    *,
    dtype: torch.dtype = torch.float32,
    name: str = "",
    labels=None,
    loss_mask=None,
    **options,
) -> str:
    """Write one sample and give the path to read it by (a file; a folder for DeepSpec).

    Args:
        format: One of `records.FORMATS`.
        folder: Where; made if it is not there.
        tokens: [T] integers, a tensor or a list.
        states: [T, H] per state that feeds `fc`, in concatenation order.
        last: The target's last state [T, H], where the format has one ("stacked safetensors" and "speculators v1"
            append it to the states; "speculators v0", "specforge eagle3", "specforge dspark", "modelopt",
            "tensorrt-llm", "deepspec cache" and "angelslim" need one: ones if not given).
        dtype: What the states are written as.
        name: File name without suffix ("data_0" if not given); a cache is a folder of that name.
        labels: Layer ids for the file beside (speculators v1: data_config.json; DeepSpec: manifest.json).
        loss_mask: [T]; all ones if not given.
        options: `gz` (SpecForge), `legacy` (torch's old container), `flattened` (SpecForge DFlash without the
            dimension 1 in front; AngelSlim never), `aux_key` (TensorRT-LLM), `plain` ("wide", "aux" or "boundary"),
            `prenorm` (ModelOpt's flag), `dflash` (AngelSlim without its last state).
    """
    os.makedirs(folder, exist_ok=True)
    tokens = torch.as_tensor(tokens, dtype=torch.int64)
    states = [state.to(dtype).contiguous() for state in states]
    mask = torch.ones_like(tokens) if loss_mask is None else torch.as_tensor(loss_mask)
    last = None if last is None else last.to(dtype).contiguous()
    path = os.path.join(folder, name or "data_0")
    return _WRITERS[format](path, tokens, states, last, mask, labels, options)


def needed(last, states):
    """The last state, or something that is none where a format cannot do without."""
    return torch.ones_like(states[0].float()).to(states[0].dtype) if last is None else last


def wide(states):
    """[T, k*H]."""
    return torch.cat([state.view(torch.uint8) for state in states], dim=-1).view(states[0].dtype)


def _save(value, path, options):
    legacy = options.get("legacy", False)
    if options.get("gz"):
        with gzip.open(path + ".gz", "wb") as file:
            torch.save(value, file, _use_new_zipfile_serialization=not legacy)
        return path + ".gz"
    torch.save(value, path, _use_new_zipfile_serialization=not legacy)
    return path


def _speculators_v0(path, tokens, states, last, mask, labels, options):
    value = {"input_ids": tokens, "loss_mask": mask, "hidden_state": wide(states), "target": needed(last, states)}
    return _save(value, path + ".pt", options)


def _speculators_v1(path, tokens, states, last, mask, labels, options):
    if labels is not None:
        beside = {"version": "2.0", "data": {}, "hidden_states": {"layer_ids": list(labels)}}
        with open(os.path.join(os.path.dirname(path), "data_config.json"), "w", encoding="utf-8") as file:
            json.dump(beside, file)
    listed = [*states, needed(last, states)]
    return _save({"input_ids": tokens, "loss_mask": mask, "hidden_states": listed}, path + ".pt", options)


def _stacked(path, tokens, states, last, mask, labels, options):
    listed = states if last is None else [*states, last]
    stacked = torch.stack([state.view(torch.uint8) for state in listed], dim=1).view(states[0].dtype)
    save_file({"hidden_states": stacked, "token_ids": tokens}, path + ".safetensors")
    return path + ".safetensors"


def _specforge_eagle3(path, tokens, states, last, mask, labels, options):
    value = {
        "input_ids": tokens,
        "loss_mask": mask,
        "hidden_state": needed(last, states).unsqueeze(0),
        "aux_hidden_state": wide(states).unsqueeze(0),
    }
    return _save(value, path + ".ckpt", options)


def _specforge_block(path, tokens, states, last, mask, options):
    aux = wide(states)
    value = {"input_ids": tokens, "loss_mask": mask}
    value["hidden_states"] = aux if options.get("flattened") else aux.unsqueeze(0)
    if last is not None:
        value["target_last_hidden_states"] = last if options.get("flattened") else last.unsqueeze(0)
    return _save(value, path + ".ckpt", options)


def _specforge_dflash(path, tokens, states, last, mask, labels, options):
    return _specforge_block(path, tokens, states, None, mask, options)


def _specforge_dspark(path, tokens, states, last, mask, labels, options):
    return _specforge_block(path, tokens, states, needed(last, states), mask, options)


def _modelopt(path, tokens, states, last, mask, labels, options):
    value = {
        "input_ids": tokens,
        "hidden_states": needed(last, states),
        "aux_hidden_states": wide(states),
        "conversation_id": os.path.basename(path),
        "loss_mask": mask,
    }
    if "prenorm" in options:
        value["hidden_states_prenorm"] = options["prenorm"]
    return _save(value, path + ".pt", options)


def _tensorrt_llm(path, tokens, states, last, mask, labels, options):
    value = {"id": 0, "input_ids": tokens, "hidden_state": needed(last, states)}
    value[options.get("aux_key", "aux_hidden_states")] = wide(states)
    return _save([value], path + ".pt", options)


def _angelslim(path, tokens, states, last, mask, labels, options):
    value = {
        "input_ids": tokens.unsqueeze(0),
        "loss_mask": mask.unsqueeze(0),
        "hidden_states": wide(states).unsqueeze(0),
    }
    if options.get("dflash"):
        value["attention_mask"] = torch.ones_like(value["input_ids"])
    else:
        value["target_hiddens"] = needed(last, states).unsqueeze(0)
    return _save(value, path + ".ckpt", options)


def raw(tensor) -> bytes:
    """The bytes of a tensor, row-major."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _deepspec(path, tokens, states, last, mask, labels, options):
    os.makedirs(path, exist_ok=True)
    parts = [
        tokens.to(torch.int32),
        torch.ones_like(tokens, dtype=torch.uint8),
        mask.to(torch.uint8),
        wide(states),
        needed(last, states),
    ]
    offsets, end = [], 0
    with open(os.path.join(path, "shard-00000.bin"), "wb") as shard:
        for part in parts:
            offsets.append(end)
            end += shard.write(raw(part))
    with open(os.path.join(path, "samples.idx"), "wb") as index:
        index.write(INDEX_RECORD.pack(0, 0, len(tokens), *offsets))
    manifest = {
        "version": 2,
        "num_samples": 1,
        "num_shards": 1,
        "target_layer_ids": list(labels if labels is not None else range(len(states))),
        "hidden_dtype": str(states[0].dtype).removeprefix("torch."),
        "token_dtype": "int32",
        "mask_dtype": "uint8",
        "index_record_size": INDEX_RECORD.size,
        "hidden_size": states[0].shape[1],
        "shards": [{"shard_id": 0, "file_name": "shard-00000.bin"}],
        "target_model_name_or_path": "target",
    }
    with open(os.path.join(path, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return path


def _plain(path, tokens, states, last, mask, labels, options):
    kind = options.get("plain", "wide")
    if kind == "wide":
        tensors = {"hidden_states": wide(states)}
    elif kind == "aux":
        tensors = {f"aux.{index}": state for index, state in enumerate(states)}
    else:
        named = labels if labels is not None else range(len(states))
        tensors = {f"boundary.{boundary}": state for boundary, state in zip(named, states, strict=True)}
    if last is not None:
        tensors["last"] = last
    save_file({"tokens": tokens, **tensors}, path + ".safetensors")
    return path + ".safetensors"


_WRITERS = {
    records.SPECULATORS_V0: _speculators_v0,
    records.SPECULATORS_V1: _speculators_v1,
    records.STACKED: _stacked,
    records.SPECFORGE_EAGLE3: _specforge_eagle3,
    records.SPECFORGE_DFLASH: _specforge_dflash,
    records.SPECFORGE_DSPARK: _specforge_dspark,
    records.MODELOPT: _modelopt,
    records.TENSORRT_LLM: _tensorrt_llm,
    records.ANGELSLIM: _angelslim,
    records.DEEPSPEC: _deepspec,
    records.PLAIN: _plain,
}
