"""Where in a model of transformers its decoder layers, its final norm and its head are: by structure, not by names."""

from __future__ import annotations

from typing import NamedTuple

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.values.targets.settings import Settings


class Parts(NamedTuple):
    """What of a model is watched.

    Attributes:
        decoder: The module that holds embedding, layers and final norm; called with token ids, it returns the state
            after the final norm.
        layers: The N decoder layers, in order.
        norms: The decoder's own norms; the one that reads the last layer's output is the final norm.
        embedding: Token ids to states.
        head: State after the final norm to logits.
    """

    decoder: torch.nn.Module
    layers: tuple[torch.nn.Module, ...]
    norms: tuple[torch.nn.Module, ...]
    embedding: torch.nn.Module
    head: torch.nn.Module


def find_parts(model: torch.nn.Module, settings: Settings, where: str) -> Parts:
    """Find the parts of a model.

    The decoder layers are the one list of N modules beside the token embedding; vision and audio towers and the
    experts of a layer have lists of their own elsewhere.

    Args:
        model: A causal language model of transformers.
        settings: Its config.
        where: Its directory, for messages.

    Raises:
        CaptureError: A part cannot be found, or more than one could be it.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()  # type: ignore[operator]
    if embedding is None or head is None:
        lacking = "embedding" if embedding is None else "head"
        raise CaptureError(f"{type(model).__name__} has no {lacking} that transformers names", where=where)
    owners = [
        (owner, child)
        for owner in model.modules()
        if any(inner is embedding for inner in owner.children())
        for child in owner.children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == settings.layers
    ]
    if len(owners) != 1:
        raise CaptureError(
            f"the decoder layers of {type(model).__name__} cannot be told from its other modules",
            where=where,
            expected=f"one list of {settings.layers} modules beside the embedding",
            actual=str(len(owners)),
        )
    decoder, layers = owners[0]
    norms = tuple(child for child in decoder.children() if "norm" in type(child).__name__.lower())
    if not norms:
        raise CaptureError(f"{type(decoder).__name__} has no final norm", where=where)
    return Parts(decoder, tuple(layers), norms, embedding, head)
