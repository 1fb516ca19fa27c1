"""Loading a drafter for the reference forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from drafter_contracts.checkpoint.facts import DFLASH, DrafterFacts
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.errors import CheckpointError, ContradictionError, UnsupportedDrafterError
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK
from drafter_contracts.manifest_records import DraftRecord
from drafter_contracts.values.drafting.architecture import Architecture, read_architecture
from drafter_contracts.values.drafting.block import BlockDrafter
from drafter_contracts.values.drafting.drafter import Drafter
from drafter_contracts.values.drafting.engines import dropped_by_sglang
from drafter_contracts.values.drafting.layers import Layer, Linear, Norm
from drafter_contracts.values.drafting.names import (
    CONTEXT_NORM,
    DRAFT_TO_TARGET,
    EMBEDDING,
    FC,
    HEAD,
    ROPE_TABLE,
    TARGET_TO_DRAFT,
    state_norms,
    tensors_by_name,
)
from drafter_contracts.values.drafting.vocabulary import Maps, target_ids
from drafter_contracts.values.drafting.weights import Weights


def load_drafter(
    directory: str,
    *,
    embedding: torch.Tensor,
    head: torch.Tensor,
    target_hidden_size: int,
    dtype: torch.dtype = torch.float32,
    stated: DraftRecord | None = None,
) -> Drafter:
    """Load an EAGLE-3 or DFLASH drafter from its directory; safetensors only, memory-mapped.

    Args:
        directory: config.json and weights, sharded or not.
        embedding: The target's, [V, H_t]; used where the drafter ships none.
        head: The target's, [V, H_t]; used where the drafter ships none and its vocabulary is the target's.
        target_hidden_size: H_t.
        dtype: To compute in.
        stated: What the drafter's manifest records of it (`vocab_mapping`, `norm_output`, `norm_before_residual`,
            `rope_theta`), where config.json does not say it.

    Returns:
        The drafter. Its `notes` say what was assumed.

    Raises:
        UnsupportedDrafterError: A drafter of a kind that is not computed here; every reason is named.
        ContradictionError: Two statements about what it computes.
        CheckpointError: Files that cannot be read, or tensors that are missing or of another shape.
        PickleRefusedError: The weights are there as pickle only.
    """
    facts = read_drafter(directory, target_hidden_size=target_hidden_size)
    architecture = read_architecture(facts, target_hidden_size, stated)
    tensors = tensors_by_name(facts, architecture)
    weights = Weights(facts, tensors)
    notes = list(architecture.notes)
    own_embedding = _embedding(facts, architecture, weights, embedding, notes)
    own_head = _head(facts, architecture, weights, (embedding, head), notes)
    notes += dropped_by_sglang(facts, weights)
    maps = Maps(
        where=directory,
        size=len(own_head),
        target_size=len(head),
        config_size=facts.vocabulary.target_size,
        encoding=stated.vocab_mapping if stated is not None and stated.vocab_mapping else facts.vocabulary.encoding,
        d2t=weights.stored(DRAFT_TO_TARGET) if DRAFT_TO_TARGET in weights else None,
        t2d=weights.stored(TARGET_TO_DRAFT) if TARGET_TO_DRAFT in weights else None,
    )
    _check_rope_table(facts, architecture, weights)
    shared = _Shared(own_embedding, own_head, target_ids(maps), tuple(notes))
    return _assembled(facts, _Parts(architecture, weights, dtype), shared, dtype)


class _Shared(NamedTuple):
    """What may be the target's, and the notes."""

    embedding: torch.Tensor
    head: torch.Tensor
    target_ids: torch.Tensor | None
    notes: tuple[str, ...]


def _assembled(facts: DrafterFacts, parts: _Parts, shared: _Shared, dtype: torch.dtype) -> Drafter:
    common: dict[str, Any] = shared._asdict() | {
        "method": facts.method,
        "architecture": parts.architecture,
        "layers": tuple(parts.layer(number) for number in range(parts.architecture.layers)),
        "norm": parts.norm("norm.weight"),
        "fc": parts.linear("fc") if FC in parts.weights else None,
        "fc_norms": parts.fc_norms(),
        "dtype": dtype,
    }
    if facts.method != DFLASH or facts.block_size is None or facts.mask_token_id is None:
        return Drafter(**common)
    if facts.mask_token_id >= len(shared.embedding):
        raise ContradictionError(
            "the mask token has no embedding",
            where=f"{facts.path}/config.json mask_token_id",
            expected=f"below {len(shared.embedding)}",
            actual=str(facts.mask_token_id),
        )
    return BlockDrafter(
        **common,
        context_norm=parts.norm(CONTEXT_NORM),
        block_size=facts.block_size,
        mask_token_id=facts.mask_token_id,
    )


class _Parts:
    """Parts of a drafter, their weights converted."""

    def __init__(self, architecture: Architecture, weights: Weights, dtype: torch.dtype) -> None:
        self.architecture, self.weights = architecture, weights
        self._get: Callable[[str], torch.Tensor] = lambda name: weights.stored(name).to(dtype)

    def norm(self, name: str) -> Norm:
        return Norm(self._get(name), self.architecture.epsilon)

    def linear(self, name: str) -> Linear:
        bias = f"{name}.bias"
        return Linear(self._get(f"{name}.weight"), self._get(bias) if bias in self.weights else None)

    def fc_norms(self) -> tuple[Norm, ...]:
        if self.architecture.norm == NORM_CONCATENATION:
            return (self.norm("input_norm.weight"),)
        if self.architecture.norm == NORM_PER_CHUNK:
            return tuple(self.norm(f"fc_norm.{number}.weight") for number in range(self.architecture.taps))
        return ()

    def layer(self, number: int) -> Layer:
        name = f"layers.{number}"
        state_norm = next(norm for norm in state_norms(number, self.architecture.method) if norm in self.weights)
        reads_token = number == 0 and self.architecture.method != DFLASH
        return Layer(
            query=self.linear(f"{name}.self_attn.q_proj"),
            key=self.linear(f"{name}.self_attn.k_proj"),
            value=self.linear(f"{name}.self_attn.v_proj"),
            output=self.linear(f"{name}.self_attn.o_proj"),
            gate=self.linear(f"{name}.mlp.gate_proj"),
            up=self.linear(f"{name}.mlp.up_proj"),
            down=self.linear(f"{name}.mlp.down_proj"),
            embedding_norm=self.norm(f"{name}.input_layernorm.weight") if reads_token else None,
            state_norm=self.norm(state_norm),
            mlp_norm=self.norm(f"{name}.post_attention_layernorm.weight"),
            query_norm=self._optional_norm(f"{name}.self_attn.q_norm.weight"),
            key_norm=self._optional_norm(f"{name}.self_attn.k_norm.weight"),
            head_width=self.architecture.head_width,
            activation=self.architecture.activation,
            residual_is_normed=number == 0 and self.architecture.norm_before_residual,
        )

    def _optional_norm(self, name: str) -> Norm | None:
        return self.norm(name) if name in self.weights else None


def _embedding(
    facts: DrafterFacts, architecture: Architecture, weights: Weights, target: torch.Tensor, notes: list[str]
) -> torch.Tensor:
    if EMBEDDING in weights:
        if architecture.hidden_size == architecture.target_hidden_size:
            notes.append(
                "the drafter's own embeddings are used, as vLLM does; SGLang 0.5.23 and TensorRT-LLM replace them by "
                "the target's"
            )
        return weights.stored(EMBEDDING)
    if target.shape[-1] != architecture.hidden_size:
        raise CheckpointError(
            "no embeddings among the tensors, and the target's are of another width",
            where=facts.path,
            expected=f"{EMBEDDING} [vocabulary, {architecture.hidden_size}]",
            actual=f"the target's {list(target.shape)}",
        )
    notes.append("no embeddings of its own: the target's are used")
    return target


def _head(
    facts: DrafterFacts,
    architecture: Architecture,
    weights: Weights,
    target: tuple[torch.Tensor, torch.Tensor],
    notes: list[str],
) -> torch.Tensor:
    """The drafter's head, else its embeddings where it ties them, else the target's head."""
    if HEAD in weights:
        if facts.tie_word_embeddings:
            notes.append(
                "tie_word_embeddings is true beside a head of its own: the head is used; SGLang 0.5.23 takes the "
                "embeddings instead"
            )
        return weights.stored(HEAD)
    if facts.tie_word_embeddings and EMBEDDING in weights:
        return weights.stored(EMBEDDING)
    embedding, head = target
    # A DFLASH drafter borrows the head whatever a config copied from the target says.
    if facts.method != DFLASH and facts.tie_word_embeddings and not _same(embedding, head):
        raise UnsupportedDrafterError(
            "no head among the tensors and tie_word_embeddings: SGLang takes the target's embeddings as head, vLLM "
            "the target's head, and they differ; a head in the checkpoint settles it",
            where=facts.path,
            expected=HEAD,
            actual="none",
        )
    stated = facts.vocabulary.size
    if DRAFT_TO_TARGET in weights:
        stated = weights.shape(DRAFT_TO_TARGET)[0]
    if stated is not None and stated < len(head) and facts.vocabulary.reduced:
        raise ContradictionError(
            "a reduced draft vocabulary and no head of its own: the target's head has other rows",
            where=facts.path,
            expected=f"{HEAD} [{stated}, {architecture.hidden_size}]",
            actual="none",
        )
    if head.shape[-1] != architecture.hidden_size:
        raise CheckpointError(
            "no head among the tensors, and the target's is of another width",
            where=facts.path,
            expected=f"{HEAD} [vocabulary, {architecture.hidden_size}]",
            actual=f"the target's {list(head.shape)}",
        )
    notes.append("no head of its own: the target's is used")
    return head


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape == right.shape and left.data_ptr() == right.data_ptr():
        return True
    return torch.equal(left, right)


def _check_rope_table(facts: DrafterFacts, architecture: Architecture, weights: Weights) -> None:
    """A stored table of frequencies shows which base was trained with: it must be the one that is used."""
    frequencies = architecture.rope.frequencies(architecture.head_width)[0]
    for name in weights.ending(ROPE_TABLE):
        table = weights.stored(name).to(torch.float32).flatten()
        if table.shape != frequencies.shape or not torch.allclose(table, frequencies, rtol=0.02):
            raise ContradictionError(
                "the checkpoint's table of RoPE frequencies is not that of the stated base and scaling; "
                "draft.rope_theta of the manifest can state the base",
                where=f"{facts.path}: {name}",
                expected=f"{frequencies[:3].tolist()}... for base {architecture.rope.theta:g}",
                actual=f"{table[:3].tolist()}...",
            )
