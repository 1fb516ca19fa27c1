"""Reading samples: one file, or a folder of them, one after another."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError, SampleError
from drafter_contracts.values.records import FORMATS, SPECULATORS_V1, Sample
from drafter_contracts.values.samples.container import SAFETENSORS, read_container
from drafter_contracts.values.samples.deepspec import is_cache, read_cache
from drafter_contracts.values.samples.mapped import as_sample_error
from drafter_contracts.values.samples.recognise import recognise, samples_of

#: What speculators writes beside its samples; the ids are as whoever wrote it numbered them.
LABELS = "data_config.json"

_DIGITS = re.compile(r"([0-9]+)")


def read_samples(path: str, *, entry: str = "") -> Iterator[Sample]:
    """Read the samples of a file, of a DeepSpec cache, or of a folder of either, one after another.

    Nothing of the states is read before somebody looks at them: they are views of mapped files.

    Args:
        path: A file, or a folder; of a folder every sample in it and below, in natural order ("data_2" before
            "data_10"), while other files, hidden ones and links to folders are passed over.
        entry: Only the sample of this name, where a file or cache holds several: its place in a list, its row in a
            batch, or its number in a cache.

    Yields:
        The samples. What they hold is checked, but not whether it is worth anything: `check_states` does that.

    Raises:
        SampleError: Nothing is there, a file is damaged, of no known format, or would have to run code; fields are
            missing or do not fit (all of them are named); there is no such entry; or a folder holds no sample.
    """
    found = _folder(path) if os.path.isdir(path) else _file(path)
    others: list[str] = []
    none = True
    for sample in found:
        if entry and sample.entry != entry:
            others = [*others[:8], sample.entry or os.path.basename(sample.path)]
            continue
        none = False
        yield sample
    if none and entry:
        raise SampleError("no such entry", where=path, expected=entry, actual=", ".join(others) or "no samples")
    if none:
        raise SampleError("no sample of recorded states in this folder", where=path, expected=", ".join(FORMATS))


def _file(path: str) -> Iterator[Sample]:
    samples = _recognised(path)
    if samples is None:
        raise SampleError(
            "not a sample of recorded states: neither its first bytes nor its keys are those of a known format",
            where=path,
            expected=", ".join(FORMATS),
        )
    return samples


def _recognised(path: str) -> Iterator[Sample] | None:
    """The samples of a file, or None if it is something else."""
    found = read_container(path)
    if found is None:
        return None
    container, content = found
    name = recognise(content, tensors_only=container == SAFETENSORS)
    return _labelled(name, content, path) if name else None


def _labelled(name: str, content: Any, path: str) -> Iterator[Sample]:
    labels, source = _labels_beside(path) if name == SPECULATORS_V1 else ((), "")
    for sample in samples_of(name, content, path):
        yield dataclasses.replace(sample, labels=labels, label_source=source) if labels else sample


def _folder(path: str) -> Iterator[Sample]:
    if is_cache(path):
        yield from read_cache(path)
        return
    try:
        entries = sorted(os.scandir(path), key=lambda item: natural(item.name))
    except OSError as error:
        raise SampleError("the folder cannot be read", where=path, actual=error.strerror or str(error)) from None
    for item in entries:
        if item.name.startswith("."):
            continue
        if item.is_dir(follow_symlinks=False):
            yield from _folder(item.path)
        elif item.is_file() and (samples := _recognised_or_empty(item)) is not None:
            yield from samples


def _recognised_or_empty(item: os.DirEntry[str]) -> Iterator[Sample] | None:
    # vLLM's lock files beside its samples are empty.
    return _recognised(item.path) if item.stat().st_size else None


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in names by their value: "data_2" before "data_10"."""
    return tuple(
        (0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in _DIGITS.split(name)
    )


class _HiddenStates(msgspec.Struct):
    layer_ids: list[int] | None = None


class _DataConfig(msgspec.Struct):
    hidden_states: _HiddenStates | None = None


def _labels_beside(path: str) -> tuple[tuple[int, ...], str]:
    """The layer ids that speculators' data_config.json claims, the last state's among them; () if it claims none."""
    beside = os.path.join(os.path.dirname(path), LABELS)
    if not os.path.isfile(beside):
        return (), ""
    try:
        config = msgspec.json.decode(read_capped(beside, limits.config_max_bytes), type=_DataConfig)
    except CheckpointError as error:
        raise as_sample_error(error) from None
    except msgspec.MsgspecError as error:
        raise SampleError("labels that cannot be read", where=beside, actual=str(error)) from None
    claimed = config.hidden_states.layer_ids if config.hidden_states else None
    return (tuple(claimed), f"{LABELS}: hidden_states.layer_ids") if claimed else ((), "")
