"""Weights of a drafter's directory, memory-mapped: a tensor costs memory when it is converted, not when it is found."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
import torch

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import DrafterFacts, TensorFact
from drafter_contracts.checkpoint.files import INDEX, SINGLE
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError


class Weights:
    """A drafter's tensors by their one name (`names.one_name`).

    Args:
        facts: Read from the same directory, so that the files were judged.
        tensors: What is there.
    """

    def __init__(self, facts: DrafterFacts, tensors: Mapping[str, TensorFact]) -> None:
        self._directory = facts.path
        self._tensors = dict(tensors)
        self._mapped = _map_files(facts.path)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor that is there."""
        return self._tensors[name].shape

    def ending(self, ending: str) -> tuple[str, ...]:
        """Names that end so."""
        return tuple(name for name in self._tensors if name.endswith(ending))

    def stored(self, name: str) -> torch.Tensor:
        """A tensor as it is stored: a view of the file.

        Raises:
            CheckpointError: The file has changed since its header was read.
        """
        fact = self._tensors[name]
        tensor = self._mapped.get(fact.name)
        if tensor is None or tuple(tensor.shape) != fact.shape:
            raise CheckpointError(
                "the weights changed while they were read",
                where=self._directory,
                expected=f"{fact.name} {list(fact.shape)}",
                actual="nothing" if tensor is None else str(list(tensor.shape)),
            )
        return tensor


def _map_files(directory: str) -> dict[str, torch.Tensor]:
    """Every tensor of the files that `checkpoint.files` judged, as views of the mapped files."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, torch.Tensor] = {}
    for name in _file_names(directory):
        try:
            with safe_open(os.path.join(directory, name), framework="pt") as file:
                found.update({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118 (no mapping)
        except (OSError, SafetensorError) as error:
            raise CheckpointError("cannot be mapped", where=f"{directory}/{name}", actual=str(error)) from None
    return found


def _file_names(directory: str) -> list[str]:
    """In the order of search of `checkpoint.files`."""
    names = sorted(name for name in os.listdir(directory) if name.endswith(".safetensors"))
    index = os.path.join(directory, INDEX)
    if os.path.exists(index):
        shards = msgspec.json.decode(read_capped(index, limits.index_max_bytes))["weight_map"]
        return sorted(set(shards.values()))
    return [SINGLE] if SINGLE in names else names
