"""What one stated list of ids means: the numbering of its key, by producer, and the known exceptions.

The rules follow the field's evidence; each names its public source where the numbering does not.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from drafter_contracts.checkpoint.facts import PRODUCER_RULE, LayoutReading
from drafter_contracts.conventions import patterns
from drafter_contracts.conventions.context import GIVE_DEPTH, STATE_IT, Context
from drafter_contracts.conventions.statements import (
    ANGEL_FAMILY,
    DSPARK_FAMILY,
    GGUF_FAMILY,
    NESTED_FAMILY,
    TARGET_FAMILY,
    TOP_FAMILY,
    Stated,
)
from drafter_contracts.errors import LayoutError
from drafter_contracts.layout import CaptureLayout
from drafter_contracts.numberings import numbering

#: Heads whose exporter may have written boundaries under the key of outputs (sgl-project/sglang PR #25454).
_DEEPSEEK_HEADS = "Eagle3DeepseekV2ForCausalLM"


def read_single(stated: Stated, context: Context, *, speculators_minor: int | None = None) -> LayoutReading:
    """The reading of one list of ids, taken alone.

    Args:
        stated: The list and its key.
        context: What else is known.
        speculators_minor: The y of speculators 0.y, if the config states it.
    """
    if stated.family == TOP_FAMILY:
        return _read_top(stated, context, speculators_minor)
    if stated.family == NESTED_FAMILY:
        return _read_nested(stated, context)
    if stated.family == TARGET_FAMILY:
        return _read_target(stated, context)
    if stated.family == DSPARK_FAMILY:
        later = context.target_model_type == "deepseek_v41"
        why = "DeepSeek-V4.1 states inputs" if later else "DeepSeek-V4 states outputs"
        return _reading(stated, context, "dspark-v41" if later else "dspark-v4", [why])
    if stated.family == ANGEL_FAMILY:
        return _reading(stated, context, "angelslim", ["AngelSlim's key holds output ids"])
    if stated.family == GGUF_FAMILY:
        return _reading(stated, context, "llama.cpp", ["GGUF states boundaries"])
    return _reading(stated, context, "vllm", ["vLLM reads this key as boundaries"])


def _reading(
    stated: Stated,
    context: Context,
    name: str,
    reasons: list[str],
    *,
    other: str = "",
) -> LayoutReading:
    """The ids by the named numbering; `other` is a numbering that people may mean instead."""
    try:
        taps = numbering(name).taps(stated.ids, context.n)
        layout = CaptureLayout(taps).check(context.n)
    except LayoutError as error:
        return context.contradictory(
            f"{stated.described()}: {error.diagnostics()}",
            ids=stated.ids,
            key=stated.key,
            alternatives=_alternatives(stated, other, context),
        )
    if len(set(taps)) < len(taps):
        reasons = [*reasons, "an id is listed twice, which no engine captures twice in every release"]
    if any(a > b for a, b in pairwise(taps)):
        reasons = [*reasons, "the ids are not in ascending order, the only one in which engines concatenate"]
    return LayoutReading(
        PRODUCER_RULE,
        layout=layout,
        ids=stated.ids,
        key=stated.key,
        numbering=name,
        producer=context.producer,
        reason="; ".join(reasons),
        settle=STATE_IT if other else "",
        alternatives=_alternatives(stated, other, context),
    )


def _alternatives(stated: Stated, other: str, context: Context) -> tuple[tuple[int, ...], ...]:
    if not other:
        return ()
    try:
        return (tuple(tap.boundary for tap in numbering(other).taps(stated.ids, context.n)),)
    except LayoutError:
        return ()


def _read_top(stated: Stated, context: Context, minor: int | None) -> LayoutReading:
    ids, n = stated.ids, context.n
    if not context.producer.startswith("speculators"):
        reason = (
            "vLLM, speculators and llama.cpp read this key as boundaries; SGLang ignores it, and the config does not "
            "say who trained with it"
        )
        return _reading(stated, context, "vllm", [reason], other="eagle-config")
    reasons = ["speculators states boundaries"]
    suspicions = []
    if minor in (3, 4):
        suspicions.append("speculators 0.3 and 0.4 recorded the output of the layer, one later")
    if patterns.is_default_outputs(ids, n):
        suspicions.append("the numbers are the trainers' default written as output ids: converted without the shift?")
    elif patterns.is_even(ids, n):
        suspicions.append("the numbers are z-lab's evenly spread output ids: converted without the shift?")
    other = "eagle-config" if suspicions else ""
    return _reading(stated, context, "speculators", reasons + suspicions, other=other)


def _read_nested(stated: Stated, context: Context) -> LayoutReading:
    ids, n = stated.ids, context.n
    if n is not None and max(ids) == n:
        reason = f"the largest id is the target's depth {n}, which no output id can be: these are boundaries"
        return _reading(stated, context, "modelopt-boundary", [reason])
    if context.architectures[:1] == (_DEEPSEEK_HEADS,) and patterns.is_default_boundaries(ids, n):
        return _read_deepseek(stated, context)
    reasons = ["SGLang and the trainers that write this key mean outputs of layers"]
    other = ""
    if patterns.is_default_boundaries(ids, n):
        reasons.append("the numbers are the engines' own default list, which counts inputs: copied from there?")
        other = "vllm"
    elif patterns.is_mixed_default(ids, n):
        reasons.append("the last id is the default's as a boundary beside output ids: meant one earlier?")
    reading = _reading(stated, context, "eagle-config", reasons, other=other)
    if patterns.is_mixed_default(ids, n) and n is not None:
        return _with(reading, (patterns.default_boundaries(n),))
    if n is None:
        # Only a depth equal to the largest id would make these numbers boundaries.
        as_is = () if other == "vllm" else (ids,)
        return _with(reading, as_is, f"; boundaries instead if the target has {max(ids)} layers", GIVE_DEPTH)
    return reading


def _read_deepseek(stated: Stated, context: Context) -> LayoutReading:
    """The ambiguous list [2, n//2, n-3] of a DeepSeek-shaped head.

    TorchSpec's vLLM export writes ids + 1 and renames the layer to `layers.0`; its native export, and every
    other trainer's `midlayer`, does neither (lightseekorg/TorchSpec tools/convert_to_hf.py).
    """
    if "midlayer" in context.layer_prefixes:
        reason = (
            "the tensors are named midlayer.*, as by trainers that state outputs; TorchSpec's export for vLLM, "
            "which writes boundaries, names them layers.0.*"
        )
        return _reading(stated, context, "eagle-config", [reason], other="torchspec-vllm-export")
    reason = "the numbers are the default as boundaries, as TorchSpec's export for vLLM writes them under this key"
    reading = _reading(stated, context, "torchspec-vllm-export", [reason], other="eagle-config")
    if context.n is None:
        return _with(reading, (), f"; taken for a target of {stated.ids[-1] + 3} layers", GIVE_DEPTH)
    return reading


def _read_target(stated: Stated, context: Context) -> LayoutReading:
    ids, n = stated.ids, context.n
    if context.producer == "DeepSpec":
        if n is not None and max(ids) == n - 1:
            return context.undecidable(
                f"{stated.described()}: of the last layer DeepSpec trains on the state before the final norm and "
                "evaluates with the one after it"
            )
        return _reading(stated, context, "deepspec", ["DeepSpec states outputs of layers"])
    reasons = ["DFLASH and DSPARK drafters state outputs of layers"]
    other = ""
    if n is not None and patterns.is_even(ids, n, shift=1):
        reasons.append("the numbers are z-lab's evenly spread output ids plus one: written as boundaries?")
        other = "vllm-dflash-0.20"
    if n is not None and max(ids) == n - 1:
        reasons.append("the last id is the last layer: a trainer that reads hidden_states got the final norm there")
    return _reading(stated, context, "vllm-dflash" if -1 in ids else "dflash", reasons, other=other)


def _with(
    reading: LayoutReading, alternatives: tuple[tuple[int, ...], ...], more: str = "", settle: str = ""
) -> LayoutReading:
    return msgspec.structs.replace(
        reading,
        alternatives=(*reading.alternatives, *alternatives),
        reason=reading.reason + more,
        settle=settle or reading.settle or STATE_IT,
        needs_depth=bool(settle == GIVE_DEPTH),
    )
