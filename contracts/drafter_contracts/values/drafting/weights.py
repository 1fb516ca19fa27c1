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
from drafter_contracts.checkpoint.tensors import described
from drafter_contracts.errors import CheckpointError
from drafter_contracts.values.mapped import MappedFile


class Weights:
    """A drafter's tensors by their one name (`names.one_name`).

    Args:
        facts: Read from the same directory, so that the files were judged.
        tensors: What is there.
    """

    def __init__(self, facts: DrafterFacts, tensors: Mapping[str, TensorFact]) -> None:
        self._directory = facts.path
        self._tensors = dict(tensors)
        files = [MappedFile(os.path.join(facts.path, name)) for name in _file_names(facts.path)]
        self._files = {fact.name: (file, fact) for file in files for fact in file.header.tensors}

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
        judged = self._tensors[name]
        file, fact = self._files.get(judged.name, (None, None))
        if file is None or fact != judged:
            raise CheckpointError(
                "the weights changed while they were read",
                where=self._directory,
                expected=f"{described(judged)} {judged.dtype}",
                actual="nothing" if fact is None else f"{described(fact)} {fact.dtype}",
            )
        return file.tensor(judged.name)


def _file_names(directory: str) -> list[str]:
    """In the order of search of `checkpoint.files`."""
    names = sorted(name for name in os.listdir(directory) if name.endswith(".safetensors"))
    index = os.path.join(directory, INDEX)
    if os.path.exists(index):
        shards = msgspec.json.decode(read_capped(index, limits.index_max_bytes))["weight_map"]
        return sorted(set(shards.values()))
    return [SINGLE] if SINGLE in names else names
