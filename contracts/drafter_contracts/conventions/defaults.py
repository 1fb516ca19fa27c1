"""What is assumed of a config without layer ids: the default of whoever made it, named as an assumption."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import DFLASH, DFLASH2, DSPARK, ENGINE_DEFAULT, LayoutReading
from drafter_contracts.conventions.context import GIVE_DEPTH, STATE_IT, Context
from drafter_contracts.errors import LayoutError
from drafter_contracts.layout import CaptureLayout, Tap
from drafter_contracts.numberings import numbering

#: Producer (first words) to the numbering whose default it uses and those of its other versions.
_DEFAULTS = (
    ("speculators", "speculators", ("speculators-0.3",)),
    ("AngelSlim", "angelslim", ("angelslim-0.2",)),
    ("TorchSpec", "torchspec", ()),
    ("SpecForge", "specforge", ("specforge-2025-09",)),
    ("SafeAILab", "eagle", ("speculators-research",)),
)
#: Target whose class in SGLang has another default: boundaries 3, N//2+1, N-2 (models/minimax_m3_vl.py, 0.5.23).
_MINIMAX_M3 = "minimax_m3"


def read_default(context: Context, *, speculators_minor: int | None = None) -> LayoutReading:
    """The reading of a config that states no ids.

    Args:
        context: What else is known; its method takes aux hidden states.
        speculators_minor: The y of speculators 0.y, if the config states it.
    """
    if context.method in (DFLASH, DFLASH2, DSPARK):
        return context.undecidable(
            f"no layer ids, and there is no default for {context.method}: the published formula misses the trained "
            "layers of most checkpoints (z-lab/dflash#156)"
        )
    if context.producer == "DeepSpec":
        return context.undecidable("no layer ids, and DeepSpec has no default")
    if context.tap_count not in (None, 3):
        return context.undecidable(f"no layer ids, and the default's three taps are not the {context.tap_count} of fc")
    name, others = _producer_default(context, speculators_minor)
    who = context.producer or "the producer, which the files do not name,"
    reason = f"no layer ids: assumed is the default of {who} as engines serve it"
    if context.n is None:
        return LayoutReading(
            ENGINE_DEFAULT,
            numbering=name,
            producer=context.producer,
            reason=f"{reason}, which depends on the target's depth",
            settle=GIVE_DEPTH,
            needs_depth=True,
        )
    return _at_depth(context, context.n, name, others, reason)


def _producer_default(context: Context, minor: int | None) -> tuple[str, tuple[str, ...]]:
    if minor in (3, 4):
        return "speculators-0.3", ("speculators",)
    if minor is not None:
        return "speculators", ()
    for producer, name, others in _DEFAULTS:
        if context.producer.startswith(producer):
            return name, others
    return "vllm", ()


def _at_depth(context: Context, n: int, name: str, others: tuple[str, ...], reason: str) -> LayoutReading:
    try:
        taps = numbering(name).default_taps(n)
    except LayoutError as error:
        return context.undecidable(f"{reason}, which a target of {n} layers is too shallow for: {error.message}")
    alternatives = []
    for other in others:
        try:
            boundaries = tuple(tap.boundary for tap in numbering(other).default_taps(n))
        except LayoutError:  # at this depth nobody can have used it
            continue
        if boundaries != tuple(tap.boundary for tap in taps):
            alternatives.append(boundaries)
    if context.target_model_type.startswith(_MINIMAX_M3):
        alternatives.append(tuple(tap.boundary for tap in taps))
        taps = (Tap(3), Tap(n // 2 + 1), Tap(n - 2))
        reason = "no layer ids: SGLang's class for MiniMax-M3 has a default of its own, one later than every other"
        name = ""
    return LayoutReading(
        ENGINE_DEFAULT,
        layout=CaptureLayout(taps),
        numbering=name,
        producer=context.producer,
        reason=reason,
        settle=STATE_IT,
        alternatives=tuple(alternatives),
    )
