"""What the layer numbers of a drafter's config mean, by producer and version, and how sure that reading is.

Pure: config and a few facts in, a `LayoutReading` out. Nothing is guessed silently: what is assumed says so,
what contradicts itself is `contradictory`, and what nothing decides is `undecidable` with what would settle it.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import (
    DECLARED,
    EAGLE,
    MEDUSA,
    NEXTN,
    PRODUCER_RULE,
    STANDALONE,
    UNKNOWN_METHOD,
    LayoutReading,
)
from drafter_contracts.conventions.context import GIVE_DEPTH, Context
from drafter_contracts.conventions.defaults import read_default
from drafter_contracts.conventions.producer import producer_of, speculators_minor
from drafter_contracts.conventions.single import read_single
from drafter_contracts.conventions.statements import NESTED_FAMILY, TOP_FAMILY, Stated, find_statements
from drafter_contracts.layout import FINAL_NORM, CaptureLayout, Tap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_layout"]

#: Target families for which SGLang takes nested ids as boundaries unless the first one is 1.
_DEEPSEEK_TARGETS = ("deepseek", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite", "mistral3")
_NO_TAPS = {
    NEXTN: "an MTP head reads the target's last hidden state and no aux hidden states",
    STANDALONE: "a standalone drafter reads tokens only",
    MEDUSA: "Medusa heads read the target's last hidden state; no release of SGLang serves them",
}


def read_layout(
    config: Mapping[str, object],
    *,
    method: str,
    tap_count: int | None = None,
    target_layers: int | None = None,
    target_model_type: str = "",
    layer_prefixes: tuple[str, ...] = (),
    metadata: Mapping[str, str] | None = None,
) -> LayoutReading:
    """Read the capture layout of a drafter's config: which taps in which order, without widths and norm.

    Args:
        config: config.json, as read.
        method: One of `facts.METHODS`.
        tap_count: Taps that the fusion layer takes by its width, if known.
        target_layers: Decoder layers of the target, if known.
        target_model_type: `model_type` of the target, if known.
        layer_prefixes: How the tensors name the drafter's layers ("midlayer", "layers"), if known.
        metadata: `__metadata__` of the weight files.
    """
    view = ConfigView(config)
    context = Context(
        method=method,
        n=target_layers,
        tap_count=tap_count,
        # A drafter inside its target's checkpoint shares the target's config, and its model type.
        target_model_type=target_model_type or view.text("model_type"),
        architectures=view.texts("architectures"),
        layer_prefixes=layer_prefixes,
        producer=producer_of(view, metadata),
    )
    if method in _NO_TAPS:
        return LayoutReading(PRODUCER_RULE, reason=_NO_TAPS[method], producer=context.producer)
    if method == EAGLE:
        return _final_norm(
            context, "EAGLE and EAGLE-2 heads read the target's final normed state, no aux hidden states"
        )
    if view.flag("eagle_config.use_aux_hidden_state") is False:
        return _final_norm(
            context, "the head reads the target's final normed state only", "eagle_config.use_aux_hidden_state"
        )
    return _read_statements(view, context)


def _final_norm(context: Context, reason: str, key: str = "") -> LayoutReading:
    layout = None if context.n is None else CaptureLayout((Tap(context.n, FINAL_NORM),))
    return LayoutReading(
        PRODUCER_RULE,
        layout=layout,
        key=key,
        producer=context.producer,
        reason=reason,
        settle=GIVE_DEPTH if layout is None else "",
        needs_depth=layout is None,
    )


def _read_statements(view: ConfigView, context: Context) -> LayoutReading:
    stated, malformed = find_statements(view.config)
    minor = speculators_minor(view)
    if malformed:
        return context.undecidable("; ".join(malformed))
    if not stated:
        if context.method == UNKNOWN_METHOD:
            return context.undecidable("neither config.json nor tensors say what kind of drafter this is")
        return read_default(context, speculators_minor=minor)
    readings = [read_single(one, context, speculators_minor=minor) for one in stated]
    return readings[0] if len(readings) == 1 else _agreement(stated, readings, context)


def _agreement(stated: tuple[Stated, ...], readings: list[LayoutReading], context: Context) -> LayoutReading:
    """Several keys: declared where they name the same taps, contradictory where they do not."""
    statement = " and ".join(one.described() for one in stated)
    taps = {reading.layout.boundaries if reading.layout else None for reading in readings}
    if len(taps) == 1 and None not in taps:
        return _declared(readings[0], f"{statement} name the same boundaries", len({one.family for one in stated}))
    if _both_boundaries(stated, context):
        return _declared(readings[0], f"{statement}: both are boundaries, as SGLang reads them for this target", 2)
    alternatives = [reading.layout.boundaries for reading in readings if reading.layout]
    return context.contradictory(
        f"{statement} name different boundaries; the first is read as boundaries, the second as outputs of layers"
        if {one.family for one in stated} != {stated[0].family}
        else f"{statement} differ",
        ids=stated[0].ids,
        key=stated[0].key,
        alternatives=tuple(dict.fromkeys(alternatives)),
    )


def _both_boundaries(stated: tuple[Stated, ...], context: Context) -> bool:
    """The nested key repeats the top-level one for a target whose SGLang class takes nested ids as boundaries."""
    lists = {one.family: one.ids for one in stated}
    same = set(lists) == {TOP_FAMILY, NESTED_FAMILY} and len(set(lists.values())) == 1
    if not same:
        return False
    deepseek = context.target_model_type.startswith(_DEEPSEEK_TARGETS) and stated[0].ids[0] != 1
    return deepseek or max(stated[0].ids) == context.n


def _declared(reading: LayoutReading, reason: str, families: int) -> LayoutReading:
    """One spelling twice says no more than once; two spellings that agree declare what they mean."""
    confidence = DECLARED if families > 1 else reading.confidence
    return msgspec.structs.replace(
        reading, confidence=confidence, reason=reason, settle="", alternatives=(), needs_depth=False
    )
