"""From config.json and tensor headers to `DrafterFacts`. Pure: files are read in `read`."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint import parts
from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.contradictions import contradictions
from drafter_contracts.checkpoint.facts import Disagreement, DrafterFacts, FcFacts, LayoutReading, TensorFact
from drafter_contracts.checkpoint.method import detect
from drafter_contracts.checkpoint.tensors import TensorIndex
from drafter_contracts.conventions import read_layout
from drafter_contracts.conventions.statements import find_statements
from drafter_contracts.errors import ContradictionError
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def drafter_facts(
    config: dict[str, object],
    tensors: tuple[TensorFact, ...],
    *,
    path: str,
    weights: str,
    target_layers: int | None = None,
    target_hidden_size: int | None = None,
    target_model_type: str = "",
    metadata: Mapping[str, str] | None = None,
) -> DrafterFacts:
    """Everything that a config and headers say of a drafter.

    Args:
        config: config.json, as read.
        tensors: Names, dtypes and shapes of all tensors; empty if only the config is there.
        path: The drafter's directory, for messages.
        weights: "safetensors", "sharded safetensors" or "none".
        target_layers: Decoder layers of the target, if known. It precedes what the config says.
        target_hidden_size: Width of the target's residual stream, if known.
        target_model_type: `model_type` of the target's config, if known.
        metadata: `__metadata__` of the weight files.

    Returns:
        All facts; contradictions are in `disagreements`.
    """
    view, index = ConfigView(config), TensorIndex(tensors)
    method = detect(view, index)
    depth, depth_key = _stated_depth(view)
    layers = target_layers if target_layers is not None else depth
    fc = parts.fusion(view, index, method.method, target_hidden_size)
    reading = read_layout(
        config,
        method=method.method,
        tap_count=fc.taps if fc is not None else None,
        target_layers=layers,
        target_model_type=target_model_type,
        layer_prefixes=parts.layers(view, index, method.method)[2],
        metadata=metadata,
    )
    facts = msgspec.structs.replace(
        _plain_facts(view, index, method.method, tensors),
        path=path,
        weights=weights,
        method_evidence=method.evidence,
        layout=_complete(reading, view, fc, target_hidden_size, parts.norm_before_fc(view, index)),
        fc=fc,
        target=parts.target(view, depth),
        target_layers=layers,
    )
    found = [] if method.disagreement is None else [method.disagreement]
    found += contradictions(facts, view, index, target_hidden_size)
    found += _depth_dispute(depth, depth_key, layers)
    return msgspec.structs.replace(facts, disagreements=tuple(found), notes=(*view.problems, *_notes(facts)))


def _depth_dispute(stated: int | None, key: str, real: int | None) -> list[Disagreement]:
    if stated in (None, real):
        return []
    return [Disagreement("target depth", f"config.json {key} = {stated}", f"the target has {real} decoder layers")]


def _stated_depth(view: ConfigView) -> tuple[int | None, str]:
    """The target's depth as the config states it, and the key."""
    largest = max((max(stated.ids) for stated in find_statements(view.config)[0]), default=None)
    return parts.target_depth(view, largest)


def _plain_facts(view: ConfigView, index: TensorIndex, method: str, tensors: tuple[TensorFact, ...]) -> DrafterFacts:
    """The facts that need neither the target nor the layout."""
    theta, scaling = parts.rope(view)
    real_layers, config_layers, prefixes = parts.layers(view, index, method)
    norm = parts.norm_before_fc(view, index)
    present = bool(index.by_name)
    return DrafterFacts(
        path="",
        method=method,
        config=dict(view.config),
        architectures=view.texts("architectures"),
        model_type=view.text("model_type"),
        tensors=tuple(sorted(tensors, key=lambda tensor: tensor.name)),
        dtype=parts.dtype(view, tensors),
        vocabulary=parts.vocabulary(view, index),
        has_lm_head=index.get(*parts.HEADS) is not None if present else None,
        has_embedding=index.get(*parts.EMBEDDINGS) is not None if present else None,
        hidden_size=index.hidden_size() or view.integer("hidden_size"),
        target_hidden_size=view.integer("target_hidden_size"),
        real_layers=real_layers,
        config_layers=config_layers,
        layer_prefixes=prefixes,
        max_position_embeddings=view.integer("max_position_embeddings", "max_sequence_length"),
        rope_theta=theta,
        rope_scaling=scaling,
        attention=parts.attention(view, index),
        norm_before_fc=norm == NORM_CONCATENATION,
        fc_norm=norm == NORM_PER_CHUNK,
        norm_output=bool(view.flag("norm_output", "eagle_config.norm_output")),
        norm_before_residual=view.flag("norm_before_residual", "eagle_config.norm_before_residual"),
        tie_word_embeddings=view.flag("tie_word_embeddings"),
        quantization=parts.quantization(view),
        block_size=view.integer("block_size", "dflash_config.block_size", "dspark_block_size"),
        mask_token_id=view.integer(*parts.MASK_TOKENS),
    )


def require_consistent(facts: DrafterFacts) -> DrafterFacts:
    """Return the facts if no contradiction makes them unusable.

    Raises:
        ContradictionError: Names both sides of every fatal disagreement.
    """
    fatal = [one for one in facts.disagreements if one.fatal]
    if not fatal:
        return facts
    raise ContradictionError(
        "; ".join(f"{one.what}: {one.left}, but {one.right}" for one in fatal),
        where=facts.path,
        expected=fatal[0].left,
        actual=fatal[0].right,
    )


def _complete(
    reading: LayoutReading, view: ConfigView, fc: FcFacts | None, target_hidden_size: int | None, norm: str
) -> LayoutReading:
    """The reading with what the tensors say of widths and norm."""
    if reading.layout is None:
        return reading
    tap_width = fc.tap_width if fc is not None else None
    width = tap_width or view.integer("target_hidden_size") or target_hidden_size or view.integer("hidden_size")
    widths = () if not width else (width,) * len(reading.layout.taps)
    return msgspec.structs.replace(reading, layout=msgspec.structs.replace(reading.layout, widths=widths, norm=norm))


def _notes(facts: DrafterFacts) -> list[str]:
    notes = []
    if facts.weights == "none":
        notes.append("only config.json was there: nothing is confirmed by tensors")
    if facts.norm_before_fc and "norm_before_fc" not in str(facts.config):
        notes.append("the tensors hold a norm before fc, of which config.json says nothing: engines may drop it")
    if facts.has_lm_head is False and facts.vocabulary.reduced:
        notes.append("a reduced draft vocabulary without a head of its own: the target's head has other rows")
    if facts.has_lm_head is False and not facts.vocabulary.reduced:
        notes.append("no head of its own: the target's lm_head must be shared")
    return notes
