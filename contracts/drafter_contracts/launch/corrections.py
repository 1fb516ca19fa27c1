"""Launches that feed a drafter its own layout where its config, as it is, would not: by flag, else by config."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.launch.plan_records import FLAGS
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rules.remedy import capture_switch, graphs_off_flag, override_document, own_solution
from drafter_contracts.solve import serves, with_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts, TensorFact
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_contracts.situation import Situation
    from drafter_contracts.solve import Solution


class Correction(msgspec.Struct, frozen=True):
    """One way to make a release feed the layout.

    Attributes:
        flags: Flags to add.
        overrides: Overrides of the configs to launch with, those of the launch included; None for no change.
        config: The drafter's config.json to use; None for its own.
        changes: What was changed in it.
        weights: What to change of the weights.
        notices: What comes with it.
    """

    flags: tuple[str, ...] = ()
    overrides: dict[str, object] | None = None
    config: dict[str, object] | None = None
    changes: tuple[str, ...] = ()
    weights: WeightChange = UNCHANGED
    notices: tuple[str, ...] = ()


def feeds(s: Situation) -> bool:
    """Whether the launch feeds the stated layout, as far as hidden states are captured at all."""
    if not s.method or s.stated is None:
        return True
    return s.capture is not None and not s.capture_off and serves(s.capture, s.stated.layout)


def corrections(s: Situation, prefer: str = FLAGS) -> Iterator[Correction]:
    """Ways to make the release feed the stated layout, what is preferred first; none if no ids do."""
    found = own_solution(s)
    if found is None or not found.found or s.drafter is None:
        return
    flags = (graphs_off_flag(s),) if found.graphs_off else ()
    notices = (f"CUDA graphs are off: {found.reason}",) if found.graphs_off else ()
    if flags:  # the ids may be right already
        yield Correction(flags, notices=notices)
    document = override_document(s, found) if prefer == FLAGS else None
    if document is not None:
        yield Correction(flags, document, notices=notices)
    config, changes = _edited(s, found, s.drafter.config)
    yield Correction(flags, None, config if changes else None, changes, notices=notices)


def _edited(s: Situation, found: Solution, config: dict[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The drafter's config with the ids of a solution, and what was changed."""
    changes = []
    edited = config
    switch = capture_switch(s)
    if switch:
        edited = with_value(edited, switch, True)
        changes.append(f"{switch} is set to true: it turned the capture of hidden states off")
    if found.ids is not None:
        before, edited = edited, with_value(edited, found.key, list(found.ids))
        if edited != before:
            changes.append(f"{found.key} is set to {list(found.ids)}")
        return edited, tuple(changes)
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    for key in reading.keys if reading is not None else ():
        before, edited = edited, without(edited, key)
        if edited != before:
            changes.append(f"{key} is left out: {found.reason}")
    return edited, tuple(changes)


def renamed(tensors: Sequence[TensorFact], names: Mapping[str, str]) -> tuple[TensorFact, ...]:
    """Tensors under other names, sorted by name."""
    found = (msgspec.structs.replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in tensors)
    return tuple(sorted(found, key=lambda tensor: tensor.name))


def without(config: dict[str, object], dotted: str) -> dict[str, object]:
    """A config without one dotted key; nested mappings on the way are copied."""
    first, _, rest = dotted.partition(".")
    if first not in config:
        return config
    child = config[first]
    if rest:
        return {**config, first: without(child, rest)} if isinstance(child, dict) else config
    return {key: value for key, value in config.items() if key != first}


def seen_as(facts: DrafterFacts, correction: Correction, target: TargetFacts) -> DrafterFacts:
    """A drafter's facts as its files say them once a correction is carried out."""
    if correction.config is None and not correction.weights.renames:
        return facts
    again = drafter_facts(
        facts.config if correction.config is None else correction.config,
        renamed(facts.tensors, correction.weights.renames),
        path=facts.path,
        weights=facts.weights,
        target_layers=target.num_layers,
        target_hidden_size=target.hidden_size,
        target_model_type=target.text_model_type,
    )
    return msgspec.structs.replace(again, quantization=again.quantization or facts.quantization)
